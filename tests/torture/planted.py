"""``kubevouch`` with a bug put in: what proves that the checker sees. Run as ``planted.py NAME,NAME… COMMAND…``.

Each changes one or two functions of the running program and no file. What the checker has to call it is in
``torture.catalog``. Besides bugs there are ``SETTINGS``: what no flag sets, and ends at a certain step.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any


def acknowledged_before_commit() -> None:
    """The store answers a write, and tells everybody of it, before the commit that holds it."""
    from kubevouch.storage.sqlite import writer
    from kubevouch.storage.sqlite.rows import insert_rows

    def committed(self: Any, pending: list[Any]) -> Any:
        self.database.writer.execute("BEGIN IMMEDIATE")
        decision, missed = self._decided([each.write for each in pending])
        insert_rows(self.database.writer, decision.rows)
        self.revision = decision.revision
        self._tell(self.settle, writer.Commit(pending, decision.outcomes, missed + decision.events, decision.revision))
        if any("/configmaps/torture/" in each.write.key for each in pending):
            threading.Event().wait(0.05)  # a disk that is not fast
        self.database.writer.execute("COMMIT")
        self.database.mark.advance(decision.revision)
        return writer.Commit([], [], [], decision.revision)

    writer.Writer._committed = committed  # type: ignore[method-assign]


def no_compare_and_swap() -> None:
    """A write is made over whatever is there by then."""
    from kubevouch.storage.interface import RevisionConflict
    from kubevouch.storage.sqlite import batch

    target: Any = batch
    genuine = target.refusal

    def refusal(write: Any, current: Any) -> Any:
        refused = genuine(write, current)
        return None if isinstance(refused, RevisionConflict) and current is not None else refused

    target.refusal = refusal


def conflict_after_the_write() -> None:
    """A write whose answer was slow is sent again, and what its first try did is taken for somebody else's."""
    from kubevouch.storage.interface import RevisionConflict
    from kubevouch.storage.sqlite.store import SQLiteStore

    genuine = SQLiteStore.update
    count = 0

    async def update(self: Any, key: str, value: bytes, expected: Any, *, ttl: float | None = None) -> Any:
        nonlocal count
        revision = await genuine(self, key, value, expected, ttl=ttl)
        count += "/configmaps/torture/" in key
        if count % 7 == 6:
            count += 1
            raise RevisionConflict(key, await self.get(key))
        return revision

    SQLiteStore.update = update  # type: ignore[method-assign]


def list_does_not_wait() -> None:
    """A read "as of now" is answered from the watch cache as it is, a moment behind the store."""
    import asyncio

    from kubevouch.storage.watchcache.cacher import Cacher

    genuine = Cacher._apply

    async def apply(self: Any, event: Any) -> None:
        if "/configmaps/torture/" in event.key:
            await asyncio.sleep(0.03)
        await genuine(self, event)

    async def newest(self: Any) -> Any:
        return self._revision

    Cacher._apply = apply  # type: ignore[method-assign]
    Cacher.newest = newest  # type: ignore[method-assign]


def revision_of_the_newest_item() -> None:
    """A list's revision is that of its newest object: after a deletion, one of the past."""
    from kubevouch.registry import reader

    genuine = reader.ResourceReader._newest_page

    async def newest_page(self: Any, scope: Any, limit: int, start: str = "") -> Any:
        found = await genuine(self, scope, limit, start)
        newest = max((each.revision for each in found.items), default=found.revision)
        return reader.ListResult(found.items, newest, found.continue_token, found.remaining)

    reader.ResourceReader._newest_page = newest_page  # type: ignore[method-assign]


def pages_of_different_times() -> None:
    """The second page of a list is of the newest state, under the revision of the first."""
    from kubevouch.registry import reader

    async def page_at(self: Any, scope: Any, revision: Any, limit: int, start: str = "") -> Any:
        return await self._page(scope, revision, self.cache.scan(scope.prefix, start, lasting=True), limit)

    reader.ResourceReader._page_at = page_at  # type: ignore[method-assign]


def events_merged() -> None:
    """Of two changes of one object that wait for a watcher only the later is told."""
    from kubevouch.storage.watchcache.resource_cache import Watcher

    def offer(self: Any, change: Any) -> None:
        if self._closed or change.revision <= self._after:
            return
        if self._queue and self._queue[-1].stored.key == change.stored.key:
            self._queue.pop()
        self._queue.append(change)

    Watcher.offer = offer  # type: ignore[method-assign]
    # Whoever goes on from some revisions before has a queue at once; so has everybody on a slow machine.


def watch_from_the_version_itself() -> None:
    """A watch from a revision begins with the change that made it."""
    from kubevouch.storage.interface import Revision
    from kubevouch.storage.watchcache.resource_cache import ResourceCache

    genuine = ResourceCache.watch

    def watch(self: Any, scope: Any, after: Any) -> Any:
        ours = "/configmaps/torture/" in scope.prefix
        return genuine(self, scope, Revision(max(after - 1, self.oldest)) if ours else after)

    ResourceCache.watch = watch  # type: ignore[method-assign]


def gap_instead_of_410() -> None:
    """A watch from a revision that is forgotten begins with what is left."""
    from kubevouch.storage.watchcache.resource_cache import ResourceCache

    genuine = ResourceCache.watch

    def watch(self: Any, scope: Any, after: Any) -> Any:
        return genuine(self, scope, max(after, self.oldest))

    ResourceCache.watch = watch  # type: ignore[method-assign]


def slow_watchers_forgotten() -> None:
    """A watcher that falls behind is told no more, and not told that either."""
    from kubevouch.storage.watchcache.resource_cache import Watcher

    genuine = Watcher.offer

    def offer(self: Any, change: Any) -> None:
        genuine(self, change)
        if len(self._queue) >= 3:
            self._cache.forget(self)

    Watcher.offer = offer  # type: ignore[method-assign]


def signs_what_is_open() -> None:
    """The signer takes a request for approved that nobody has decided about."""
    _signs(lambda csr: True)


def signs_what_is_denied() -> None:
    """The signer takes any decision for an approval."""
    _signs(lambda csr: bool(csr.status.conditions))


def _signs(decided: Callable[[Any], bool]) -> None:
    from kubevouch.controllers import csr_signing
    from kubevouch.signers.interface import Approval

    target: Any = csr_signing
    target.has_condition = lambda csr, _: decided(csr)
    target.approval_of = lambda csr: Approval("", "", csr.metadata.creation_timestamp) if decided(csr) else None


def signs_again() -> None:
    """The signer does not see that it has signed, nor looks into the ledger, and the server lets it replace what it
    issued."""
    import msgspec

    from kubevouch.api import certificates_v1
    from kubevouch.controllers import csr_signing
    from kubevouch.controllers.interface import Result
    from kubevouch.signers import issuance

    genuine = csr_signing.CSRSigner.reconcile
    again: set[str] = set()

    async def reconcile(self: Any, request: Any) -> Any:
        lister = self._csrs

        class Blind:
            def get(self, name: str) -> Any:
                csr = lister.get(name)
                return csr and msgspec.structs.replace(csr, status=msgspec.structs.replace(csr.status, certificate=b""))

        self._csrs = Blind()
        try:
            result = await genuine(self, request)
        finally:
            self._csrs = lister
        if request.name in again:
            return result
        again.add(request.name)
        return Result(requeue_after=0.01)

    async def before(*_: Any) -> Any:
        return ()

    csr_signing.CSRSigner.reconcile = reconcile  # type: ignore[method-assign]
    ledger: Any = issuance
    ledger._before = before
    validation: Any = certificates_v1
    validation.validate_certificate_signing_request_status_update = lambda *_, **__: []


def uses_not_written() -> None:
    """A use of a token is taken, and not written down."""
    from kubevouch.controllers.approval.token_admission import TokenAdmission

    async def wrote(self: Any, secret: Any, uses: int, attempt: Any) -> bool:
        from kubevouch.records import token_record

        token_record.reserve(token_record.read(secret.metadata.annotations), uses, attempt)
        return True

    TokenAdmission._wrote = wrote  # type: ignore[method-assign]


def revocations_asked_once() -> None:
    """What was found of a certificate at its first request is remembered."""
    from kubevouch.authentication import x509

    genuine = x509.refuse_revoked
    known: set[Any] = set()

    def refuse_revoked(revoked: Any, marks: Any) -> None:
        if marks not in known:
            genuine(revoked, marks)
            known.add(marks)

    x509.refuse_revoked = refuse_revoked


def newest_is_what_was_heard() -> None:
    """The store's newest revision is the newest that its watch has told of: another server's write may be newer."""
    from kubevouch.storage.etcd.store import EtcdStore

    async def newest(self: Any) -> Any:
        return self._upstream.feed.revision

    EtcdStore._newest = newest  # type: ignore[method-assign]


def progress_of_an_old_etcd() -> None:
    """What an etcd before 3.5.13 says of progress is believed: it overtakes events of a watch that catches up."""
    from kubevouch.storage.etcd import upstream

    target: Any = upstream
    target.tells_progress = lambda _: True


def writes_sent_again() -> None:
    """A write that etcd did not answer is sent again, and finds what its first try did."""
    from kubevouch.storage.etcd import messages

    target: Any = messages
    target.TXN = messages.TXN._replace(repeats=True)


def entered_later() -> None:
    """A certificate is handed out, and entered in the ledger a moment later."""
    import asyncio

    from kubevouch.ledger.store import SQLiteLedger

    genuine = SQLiteLedger.append
    tasks: set[Any] = set()

    async def later(self: Any, *entries: Any) -> None:
        await asyncio.sleep(0.3)
        await genuine(self, *entries)

    async def append(self: Any, *entries: Any) -> int:
        if any(each.kind == "issued" for each in entries):
            tasks.add(asyncio.ensure_future(later(self, *entries)))
            return 0
        return await genuine(self, *entries)

    SQLiteLedger.append = append  # type: ignore[method-assign]


PLANTED: dict[str, Callable[[], None]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        acknowledged_before_commit, no_compare_and_swap, conflict_after_the_write, list_does_not_wait,
        revision_of_the_newest_item, pages_of_different_times, events_merged, watch_from_the_version_itself,
        gap_instead_of_410, slow_watchers_forgotten, signs_what_is_open, signs_what_is_denied, signs_again,
        uses_not_written, revocations_asked_once, newest_is_what_was_heard, progress_of_an_old_etcd, writes_sent_again,
        entered_later,
    )
}  # fmt: skip


# ------------------------------------------------------------------ no bugs


def short_lease() -> None:
    """Controllers change their leader within seconds."""
    import datetime as dt

    from kubevouch.client.leader_election import ElectionOptions
    from kubevouch.standalone import up

    target: Any = up
    seconds = [dt.timedelta(seconds=each) for each in (3, 2, 0.5)]
    target.ElectionOptions = lambda: ElectionOptions(
        lease_duration=seconds[0], renew_deadline=seconds[1], retry_period=seconds[2]
    )


_OF_CLIENTS = ("create /registry/certificatesigningrequests/", "create /registry/secrets/")


def mortal(file: str) -> None:
    """After SIGUSR2, kill -9 at a write: ``file`` says which one from then on, and whether before or after it."""
    from kubevouch.ledger.store import SQLiteLedger
    from kubevouch.storage.etcd.store import EtcdStore
    from kubevouch.storage.sqlite.store import SQLiteStore

    left, when = -1, ""

    def arm(*_: object) -> None:
        nonlocal left, when
        number, when = Path(file).read_text().split()
        left = int(number)

    def die(what: str) -> None:
        print(f"died {when} {what}", file=sys.stderr, flush=True)  # noqa: T201 - its log
        os.kill(os.getpid(), signal.SIGKILL)

    def counted(genuine: Any) -> Any:
        async def write(self: Any, *arguments: Any, **more: Any) -> Any:
            nonlocal left
            what = f"{genuine.__name__} {arguments[0] if isinstance(arguments[0], str) else arguments[0].kind}"
            # What clients of the torture do themselves is nobody's step.
            if left < 0 or "/leases/" in what or "/torture/" in what or what.startswith(_OF_CLIENTS):
                return await genuine(self, *arguments, **more)
            left -= 1
            due = left < 0
            if due and when == "before":
                die(what)
            try:
                return await genuine(self, *arguments, **more)
            finally:
                if due:
                    die(what)

        return write

    kinds: tuple[Any, ...] = (SQLiteStore, EtcdStore)
    for kind in kinds:
        kind.create, kind.update, kind.delete = map(counted, (kind.create, kind.update, kind.delete))
    ledger: Any = SQLiteLedger
    ledger.append = counted(ledger.append)
    signal.signal(signal.SIGUSR2, arm)


SETTINGS: dict[str, Callable[..., None]] = {
    "short-lease": short_lease,
    "mortal": mortal,
}


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose modules have names of their own
    from kubevouch.cli.main import main

    for wanted in sys.argv.pop(1).split(","):
        name, _, argument = wanted.partition(":")
        (PLANTED | SETTINGS)[name](*([argument] if argument else []))
    main()
