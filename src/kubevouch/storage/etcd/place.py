"""An etcd that a store is copied from, or to."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from kubevouch.storage.copying.copy import Progress, Told
from kubevouch.storage.copying.errors import CopyError
from kubevouch.storage.etcd import messages, verification
from kubevouch.storage.etcd.client import EtcdClient
from kubevouch.storage.etcd.errors import CallFailed
from kubevouch.storage.etcd.keys import Keys
from kubevouch.storage.etcd.mark import EtcdWentBack, read_noted
from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.storage.etcd.snapshot import EtcdSnapshot, open_snapshot
from kubevouch.storage.etcd.store import EtcdStore
from kubevouch.storage.interface import Revision
from kubevouch.storage.sqlite.mark import Noted, write_mark
from kubevouch.util.clock import Clock

MOST_RAISED = 5_000_000
"""How many revisions are made by writing, each a write of etcd's: some minutes to half an hour. For more there is
etcd's own tool, which raises a stopped one at once."""

LEFT_OUT = 10_000
"""Beyond the newest revision that this server has seen: others on the same etcd may have seen more. Each confirms four
times a second how far etcd is, so that they differ by less than a second's writes."""

_AT_ONCE = 128
_FORGOTTEN_AFTER = 50_000
"""Writes after which their history is compacted: else each million of them takes 100 MB of etcd's space."""
_MOST_FAILURES = 5
_SCRATCH = "raised.kubevouch.io"
"""A key of one segment, where no kind is."""


@dataclass(frozen=True, slots=True)
class EtcdPlace:
    """A ``Source`` and a ``Destination``; ``name`` as it was typed."""

    options: EtcdOptions
    name: str

    def __str__(self) -> str:
        return self.name

    def snapshot(self, clock: Clock) -> AbstractAsyncContextManager[EtcdSnapshot]:
        return open_snapshot(self.options, clock)

    def present(self, clock: Clock) -> AbstractAsyncContextManager[EtcdSnapshot]:
        return open_snapshot(self.options, clock)

    async def make(self, clock: Clock) -> None:
        """There is one, or it does not answer."""

    async def open(self, clock: Clock) -> EtcdStore:
        return await EtcdStore.open(self.options, clock)

    async def go_on_above(self, revision: Revision, clock: Clock, told: Told) -> Revision:
        client = EtcdClient(self.options, clock)
        try:
            return await self._raised(client, revision, told)
        except CallFailed as err:
            raise err.as_store_error(_SCRATCH) from err
        finally:
            await client.close()

    async def accept_loss(self, mark: Path, clock: Clock, told: Told) -> Revision:
        """Let servers go on with this etcd as it is: at a revision that nobody can have seen, all before compacted.

        The mark is written first: whatever happens then, the next start asks for this again.

        Args:
            mark: what the server of this data directory has seen, without ``.mark``.

        Raises:
            StoreUnavailable, CopyError
            OSError: the mark cannot be written.
        """
        try:
            noted = read_noted(mark, self.name)
        except EtcdWentBack:
            noted = None  # what it said is lost, too
        client = EtcdClient(self.options, clock)
        try:
            answer = await client.read(messages.RANGE, messages.RangeRequest(key=Keys(self.options.prefix).root))
            header = answer.header
            above = Revision(max(header.revision, noted.revision + LEFT_OUT if noted is not None else 0))
            write_mark(mark, Noted(header.cluster_id, Revision(above + 1)))
            reached = await self._raised(client, above, told)
            await client.write(messages.COMPACT, messages.CompactionRequest(revision=reached))
        except CallFailed as err:
            raise err.as_store_error(_SCRATCH) from err
        finally:
            await client.close()
        write_mark(mark, Noted(header.cluster_id, reached))
        return reached

    async def verify_members(self, revision: Revision, clock: Clock) -> list[str]:
        return await verification.verify_members(self.options, revision, clock)

    async def _raised(self, client: EtcdClient, revision: Revision, told: Told) -> Revision:
        """Raises CallFailed, CopyError."""
        key = Keys(self.options.prefix).root + _SCRATCH.encode()
        start = (await client.write(messages.RANGE, messages.RangeRequest(key=key))).header.revision
        if revision - start > MOST_RAISED:
            raise CopyError(
                f"{self.name}: got an etcd at revision {start}, expected one that can go on above {revision}: it would"
                f" take more than {MOST_RAISED} writes",
                f"raise it while it is empty: etcdctl snapshot save, then etcdutl snapshot restore --bump-revision"
                f" {revision - start + 1} --mark-compacted, and start it from that (etcd's releases since mid-2023)",
            )
        put = messages.RequestOp(request_put=messages.PutRequest(key=key, value=b"1"))
        reached, forgotten, failures = start, start, 0
        while reached <= revision:
            # One more for the deletion below.
            count = min(_AT_ONCE, max(revision - reached, 1))
            calls = (client.write(messages.TXN, messages.TxnRequest(success=[put])) for _ in range(count))
            answers = await asyncio.gather(*calls, return_exceptions=True)
            failed = [answer for answer in answers if isinstance(answer, BaseException)]
            if any(not isinstance(answer, CallFailed) for answer in failed):
                raise failed[0]
            if len(failed) == len(answers):
                # A leader that was lost. Whether these writes have happened does not matter; that etcd answers does.
                failures += 1
                if failures == _MOST_FAILURES:
                    raise failed[0]
                answers = [await client.read(messages.RANGE, messages.RangeRequest(key=key))]
            reached = max(answer.header.revision for answer in answers if not isinstance(answer, BaseException))
            told(Progress("raise", reached - start, revision - start))
            if reached - forgotten >= _FORGOTTEN_AFTER:
                forgotten = reached
                await client.write(messages.COMPACT, messages.CompactionRequest(revision=reached))
        deletion = messages.RequestOp(request_delete_range=messages.DeleteRangeRequest(key=key))
        answer = await client.write(messages.TXN, messages.TxnRequest(success=[deletion]))
        return Revision(answer.header.revision)
