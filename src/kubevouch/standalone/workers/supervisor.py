"""The owner's side: keeps its workers alive, gives each the store, and answers what they cannot know."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import msgspec

from kubevouch.machinery.errors import APIStatusError
from kubevouch.server.apiserver import DRAIN_SECONDS
from kubevouch.server.metrics import workers as worker_metrics
from kubevouch.server.metrics.merged import counted, merged
from kubevouch.server.request import BytesResult
from kubevouch.server.revocation_paths import PublishedHere
from kubevouch.standalone.errors import StartError
from kubevouch.standalone.server import StandaloneServer
from kubevouch.standalone.workers.control import (
    CONTROLLERS,
    METRICS,
    PUBLISHED,
    Begin,
    Control,
    OtherSideGone,
    Published,
    Wanted,
)
from kubevouch.standalone.workers.fork_server import Child, ForkFailed, ForkServer
from kubevouch.storage.interface import Store
from kubevouch.storage.remote.server import StoreServer
from kubevouch.util import backoff
from kubevouch.util.clock import Clock, wait_at_most
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import OnCrash, Supervisor

log = get_logger("standalone.workers")

STOP_SECONDS = DRAIN_SECONDS + 5.0
"""What a worker has for its requests under way once it is told to stop; then it is killed."""
SCRAPE_SECONDS = 5.0
"""What a worker has to tell its metrics; a scrape goes on without one that hangs."""
_CALM_SECONDS = 60.0


class WorkersLost(StartError):
    """There are none any more, and there will be none: the server has to be started again."""


class Workers:
    """Of one server.

    Args:
        server: the owner's, which does not listen itself.
        store: that of the server.
        sockets: bound and listening; all workers accept from the same queue, so that nobody who waits in it is lost
            with one of them.
    """

    def __init__(
        self, server: StandaloneServer, store: Store, sockets: Sequence[socket.socket], forks: ForkServer, clock: Clock
    ) -> None:
        self._server = server
        self._store = store
        self._sockets = sockets
        self._forks = forks
        self._clock = clock
        self._serving: dict[int, Control] = {}
        self._restarts = 0
        self._told: dict[int, str] = {}
        """What each worker that is alive has told last of its metrics."""
        self._gone = ""
        """What those have counted that are not, as far as anybody has been told."""
        self._answers = {METRICS: self.metrics, CONTROLLERS: self._controllers, PUBLISHED: self._published}
        server.api.metrics.read_at_scrape(lambda: worker_metrics.collect(len(self._serving), self._restarts))

    async def keep(self, number: int, served: asyncio.Event) -> None:
        """Worker ``number``, for ever; ``served`` is set when it first serves.

        Raises:
            WorkersLost: it ended before it served at all, or no other can be made.
        """
        delays = backoff.CalmingBackoff(lambda: backoff.exponential(0.1, 30.0), _CALM_SECONDS)
        while True:
            try:
                code = await self._live(number, served)
            except ForkFailed as err:
                raise WorkersLost(str(err)) from err
            if not served.is_set():
                raise WorkersLost(f"worker {number} ended with {_worded(code)} before it served", "its log says why")
            log.error("a worker has ended, another one takes its place", worker=number, how=_worded(code))
            self._restarts += 1
            await self._clock.sleep(backoff.jittered(delays.next(self._clock.monotonic()), random.random, 0.1))

    async def _live(self, number: int, served: asyncio.Event) -> int:
        """One process from its begin to its end; its exit code. Cancelled, it lets the process finish first."""
        (store, to_store), (own, to_own) = socket.socketpair(), socket.socketpair()
        try:
            child = await self._forks.fork((to_store, to_own, *self._sockets))
        finally:
            to_store.close()
            to_own.close()
        questions, control = StoreServer(self._store, self._server.api.revisions.wrote), Control(self._answers)
        await questions.start(store)
        await control.open(own)
        endpoint = self._server.endpoint
        control.say(Begin(number, endpoint.host, endpoint.port))
        try:
            await control.ready.wait()
            if not control.lost.is_set():
                self._serving[number] = control
                served.set()
            return await asyncio.shield(child.ended)
        finally:
            self._serving.pop(number, None)
            self._gone = counted((self._gone, self._told.pop(number, "")))
            await control.close()
            await _ended(child, self._clock)
            await questions.close()

    # -------------------------------------------------------------- answers

    async def metrics(self, _: bytes = b"") -> bytes:
        """Of all processes together, in the text format."""
        own, _type = await self._server.api.exposition()
        await asyncio.gather(*(self._hear(number, control) for number, control in self._serving.items()))
        texts = [own.decode(), self._gone, *self._told.values()]
        return (await asyncio.to_thread(merged, texts)).encode()

    async def _hear(self, number: int, control: Control) -> None:
        with suppress(OtherSideGone, TimeoutError):
            told = await wait_at_most(self._clock, control.ask(METRICS), SCRAPE_SECONDS)
            if self._serving.get(number) is control:
                self._told[number] = told.decode()

    async def _controllers(self, _: bytes) -> bytes:
        return (await self._server.api.components["controller-manager"]()).encode()

    async def _published(self, body: bytes) -> bytes:
        wanted = msgspec.msgpack.decode(body, type=Wanted)
        here = PublishedHere(self._server.publication, self._clock)
        try:
            found = await here.answer(wanted.method, wanted.path, wanted.octets)
        except APIStatusError as err:
            return msgspec.msgpack.encode(Published(problem=err.status.message))
        assert isinstance(found, BytesResult)
        return msgspec.msgpack.encode(Published(found.body, found.content_type, found.status, dict(found.headers)))


@asynccontextmanager
async def working(
    server: StandaloneServer,
    store: Store,
    sockets: Sequence[socket.socket],
    forks: ForkServer,
    count: int,
    clock: Clock,
) -> AsyncIterator[None]:
    """``count`` workers that serve until the end of the block.

    Raises:
        WorkersLost: they cannot be started; from the block, they cannot be started again.
    """
    lost = forks.attach()
    workers = Workers(server, store, sockets, forks, clock)
    try:
        async with Supervisor(clock) as tasks:
            served = [asyncio.Event() for _ in range(count)]
            for number, each in enumerate(served, 1):
                tasks.start(f"worker-{number}", partial(workers.keep, number, each), OnCrash.ESCALATE)
            tasks.start("fork-server", partial(_expect, lost), OnCrash.ESCALATE)
            for each in served:
                await each.wait()
            yield
            for bound in sockets:
                bound.close()
    finally:
        forks.close()


async def _expect(lost: asyncio.Future[None]) -> None:
    await asyncio.shield(lost)
    raise WorkersLost("the process that forks workers has died", "start the server again")


async def _ended(child: Child, clock: Clock) -> None:
    try:
        await wait_at_most(clock, asyncio.shield(child.ended), STOP_SECONDS)
    except TimeoutError:
        log.error("a worker does not end, and is killed", pid=child.pid)
        child.kill()
        await asyncio.shield(child.ended)


def _worded(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
