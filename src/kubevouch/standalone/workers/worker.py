"""A worker: an API server over the owner's store, which listens on the owner's sockets and has no key of the CA."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack

import msgspec

from kubevouch.client.endpoint import Endpoint
from kubevouch.machinery import errors
from kubevouch.phases.certificates.certs import load_control_plane
from kubevouch.server.request import BytesResult, Result
from kubevouch.standalone.api_server import api_server, server_settings
from kubevouch.standalone.data_directory import PKI_FOLDER
from kubevouch.standalone.data_in_place import DataInPlace
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.workers.control import (
    CONTROLLERS,
    METRICS,
    PUBLISHED,
    Answer,
    Control,
    Published,
    Ready,
    Wanted,
)
from kubevouch.storage.interface import Store
from kubevouch.storage.remote.store import RemoteStore
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("standalone.workers")

OWNER_GONE = 70
"""The exit code of a worker whose owner has died (sysexits.h, ``EX_SOFTWARE``)."""


class ControllingOwner:
    """The :class:`kubevouch.server.owner.Owner` at the other end."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def metrics(self) -> bytes:
        return await self._control.ask(METRICS)

    async def controllers(self) -> str:
        return (await self._control.ask(CONTROLLERS)).decode()

    async def published(self, method: str, path: str, octets: bytes) -> Result:
        asked = msgspec.msgpack.encode(Wanted(method, path, octets))
        found = msgspec.msgpack.decode(await self._control.ask(PUBLISHED, asked), type=Published)
        if found.problem:
            raise errors.service_unavailable(found.problem)
        return BytesResult(found.body, found.content_type, found.status, found.headers)


async def serve(options: StandaloneOptions, sockets: Sequence[socket.socket], clock: Clock) -> None:
    """Until the owner lets go of it. When an owner dies that has the store, the process ends at once: whatever it
    would answer from then on could be old.

    Args:
        sockets: to the owner's store, for one that only one process may open; to the owner; those to listen on.

    Raises:
        StartError, StoreError, CertsError, OSError: it cannot serve.
    """
    to_store, to_owner, *listening = sockets
    answers: dict[str, Answer] = {}
    control = Control(answers)
    await control.open(to_owner)
    settings = server_settings(options, clock)
    async with AsyncExitStack() as stack:
        if settings.tracing is not None:
            stack.push_async_callback(asyncio.to_thread, settings.tracing.tracer.close)
        if settings.store.is_shared:
            to_store.close()
            # The owner keeps the mark of what was seen: of two who write it, one could leave half of it.
            store = await msgspec.structs.replace(settings.store, mark=None).open(clock)
        else:
            store = await RemoteStore.over(to_store)
            store.lost.add_done_callback(_end)
        stack.push_async_callback(_let_go, store)
        begin = await control.begun
        pki, endpoint = load_control_plane(options.data_dir / PKI_FOLDER), Endpoint(begin.host, begin.port)
        owner = ControllingOwner(control)
        data = DataInPlace(options.data_dir, clock)
        server = await stack.enter_async_context(
            api_server(options, settings, store, clock, pki, endpoint, data, owner=owner)
        )

        async def metrics(_: bytes) -> bytes:
            return (await server.api.exposition())[0]

        answers[METRICS] = metrics
        await server.listen(listening)
        control.say(Ready())
        await control.lost.wait()


async def _let_go(store: Store) -> None:
    if isinstance(store, RemoteStore):
        store.lost.remove_done_callback(_end)
    await store.close()


def _end(_: object) -> None:
    log.critical("the process that has the store is gone, and this worker ends")
    os._exit(OWNER_GONE)
