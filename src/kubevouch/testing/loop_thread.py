"""An event loop in a thread of its own, for tests that are not coroutines, and a way to reach it from other loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Mapping
from typing import Any, TypeVar

import uvloop

from kubevouch.client.interface import (
    DEFAULT_LIST,
    DEFAULT_WATCH,
    DEFAULT_WRITE,
    Client,
    Items,
    ListOptions,
    PatchType,
    RawResponse,
    WatchEvent,
    WatchOptions,
    WatchStream,
    WriteOptions,
)
from kubevouch.machinery.meta import DeleteOptions, Object
from kubevouch.machinery.scheme import Resource

T = TypeVar("T", bound=Object)
R = TypeVar("R")


class LoopThread:
    """Runs a loop in a thread from ``start`` to ``close``; what is still running on it then is cancelled."""

    def __init__(self, name: str) -> None:
        self._ready = threading.Event()
        # A daemon: a test run that is cut off must not hang on it.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    @property
    def is_current(self) -> bool:
        """True on the loop's own thread, where waiting for the loop would never end."""
        return threading.current_thread() is self._thread

    @property
    def is_running(self) -> bool:
        return self._stop is not None and self._thread.is_alive()

    def call(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """What ``coroutine`` returns or raises; this thread waits meanwhile. Not for the loop's own thread."""
        assert self._loop is not None and not self.is_current
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C or a time limit of the test: what nobody waits for any more must not go on.
            future.cancel()
            raise

    async def reach(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """The same for a coroutine of any loop, which goes on meanwhile."""
        assert self._loop is not None
        if self.is_current:
            return await coroutine
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    def close(self) -> None:
        """Cancel what still runs on the loop, and end the thread."""
        assert self._loop is not None and self._stop is not None and not self.is_current
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._ready.set()
        await self._stop.wait()


class BridgedClient:
    """A ``client.interface.Client`` whose calls run on the loop of ``home``, whichever loop they come from."""

    def __init__(self, inner: Client, home: LoopThread) -> None:
        self._inner = inner
        self._home = home
        self._reach = home.reach

    async def get(self, resource: Resource[T], name: str, namespace: str = "", *, subresource: str = "") -> T:
        return await self._reach(self._inner.get(resource, name, namespace, subresource=subresource))

    async def list(self, resource: Resource[T], namespace: str = "", options: ListOptions = DEFAULT_LIST) -> Items[T]:
        return await self._reach(self._inner.list(resource, namespace, options))

    async def watch(
        self, resource: Resource[T], namespace: str = "", options: WatchOptions = DEFAULT_WATCH
    ) -> AsyncGenerator[WatchEvent[T], None]:
        stream = self._inner.watch(resource, namespace, options)
        try:
            while (event := await self._reach(_next(stream))) is not None:
                yield event
        finally:
            # A generator that nobody closed may be finalized after the cluster has ended.
            if self._home.is_running:
                await self._reach(_close(stream))

    async def create(
        self, resource: Resource[T], obj: T, options: WriteOptions = DEFAULT_WRITE, *, subresource: str = ""
    ) -> T:
        return await self._reach(self._inner.create(resource, obj, options, subresource=subresource))

    async def update(
        self, resource: Resource[T], obj: T, options: WriteOptions = DEFAULT_WRITE, *, subresource: str = ""
    ) -> T:
        return await self._reach(self._inner.update(resource, obj, options, subresource=subresource))

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Any,
        patch_type: PatchType,
        namespace: str = "",
        options: WriteOptions = DEFAULT_WRITE,
        *,
        subresource: str = "",
        force: bool = False,
    ) -> T:
        call = self._inner.patch(
            resource, name, patch, patch_type, namespace, options, subresource=subresource, force=force
        )
        return await self._reach(call)

    async def delete(
        self, resource: Resource[T], name: str, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        await self._reach(self._inner.delete(resource, name, namespace, options))

    async def delete_collection(
        self, resource: Resource[T], namespace: str = "", options: ListOptions = DEFAULT_LIST
    ) -> None:
        await self._reach(self._inner.delete_collection(resource, namespace, options))

    async def raw(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> RawResponse:
        return await self._reach(self._inner.raw(method, path, body, headers))

    async def close(self) -> None:
        await self._reach(self._inner.close())


async def _next(stream: WatchStream[T]) -> WatchEvent[T] | None:
    try:
        return await stream.__anext__()
    except StopAsyncIteration:  # which cannot leave a coroutine
        return None


async def _close(stream: WatchStream[T]) -> None:
    await stream.aclose()
