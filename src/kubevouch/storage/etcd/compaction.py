"""What servers on one etcd forget, and when: as kube-apiserver (storage/etcd3/compact.go, Kubernetes 1.36).

The version of ``compact_rev_key`` is a clock that all servers share. Whoever finds it where he left it moves it on, and
compacts to the revision that he saw then; the others learn where it is and try again an interval later. So a state is
kept for one to two intervals, however many servers there are, kube-apiservers among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubevouch.storage.compactor import RETRY_SECONDS, RevisionBytes
from kubevouch.storage.etcd import messages
from kubevouch.storage.etcd.client import EtcdClient
from kubevouch.storage.etcd.errors import CallFailed
from kubevouch.storage.interface import Revision
from kubevouch.util.clock import Clock, wait_at_most
from kubevouch.util.logger import get_logger

log = get_logger("storage.etcd")

KEY = b"compact_rev_key"
"""Below no prefix."""

REVISION_BYTES = 256 << 20
"""What this server writes before old states are forgotten early: an eighth of etcd's default quota of 2 GiB."""


NEVER = Revision(0)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a server knows of the shared clock: its time, and the revision when it last looked."""

    time: int = 0
    revision: Revision = NEVER

    def request(self, upto: Revision) -> Any:
        """Moves the clock on, from where this server believes it to be; says what is forgotten with it."""
        unmoved = messages.Compare(target=messages.VERSION, key=KEY, version=self.time)
        put = messages.RequestOp(request_put=messages.PutRequest(key=KEY, value=str(upto).encode()))
        read = messages.RequestOp(request_range=messages.RangeRequest(key=KEY))
        return messages.TxnRequest(compare=[unmoved], success=[put], failure=[read])

    def after(self, answer: Any) -> Turn:
        """What is known after the answer, whoever moved the clock."""
        now = Revision(answer.header.revision)
        if answer.succeeded:
            return Turn(self.time + 1, now)
        found = answer.responses[0].response_range.kvs
        return Turn(found[0].version if found else 0, now)


async def keep_compacting(client: EtcdClient, clock: Clock, interval: float, revisions: RevisionBytes) -> None:
    """Every ``interval`` seconds take part in it; earlier when ``revisions`` has too many bytes."""
    turn = Turn()
    end = clock.monotonic() + interval
    while True:
        try:
            await wait_at_most(clock, revisions.too_many.wait(), end - clock.monotonic())
        except TimeoutError:
            early, end = False, clock.monotonic() + interval
        else:
            early = True
        try:
            turn = await (_early(client, turn, revisions) if early else take(client, turn, turn.revision, revisions))
        except CallFailed as err:
            log.warning("etcd was not compacted", err=str(err))
            await clock.sleep(RETRY_SECONDS)


async def _early(client: EtcdClient, turn: Turn, revisions: RevisionBytes) -> Turn:
    """Now, even if it is another server's turn. What was old at the last look still goes in its time."""
    upto = revisions.surplus()
    following = await take(client, turn, upto, revisions)
    if following.time != turn.time + 1:
        following = await take(client, following, upto, revisions)
    return Turn(following.time, max(turn.revision, upto))


async def take(client: EtcdClient, turn: Turn, upto: Revision, revisions: RevisionBytes) -> Turn:
    """Move the clock on and forget what only states before ``upto`` need, unless somebody else was first.

    Raises:
        CallFailed
    """
    answer = await client.write(messages.TXN, turn.request(upto))
    if answer.succeeded and upto:
        try:
            await client.write(messages.COMPACT, messages.CompactionRequest(revision=upto))
        except CallFailed as err:
            if not err.is_compacted:
                raise
    # When another server has compacted, up to where is not known; what it was is old by now.
    revisions.compacted(upto or turn.revision)
    return turn.after(answer)
