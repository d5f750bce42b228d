"""How people and programs of this machine speak with a running agent: a unix socket, and a local port to look at.

NoAgentError    no agent listens on the socket
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from kubevouch.agent.interface import AgentError
from kubevouch.util import unix_sockets
from kubevouch.util.files import FileInUseError, locked, make_folder

_SECONDS = 10.0
_MAX_BYTES = 1 << 20


class NoAgentError(AgentError):
    """No agent listens on the socket."""


class Controlled(Protocol):
    """What is told and asked."""

    @property
    def health(self) -> str:
        """Why the agent is not healthy; empty if it is."""
        ...

    def status(self) -> dict[str, Any]: ...

    def rotate(self, name: str) -> bool:
        """Rotate one certificate now, or all for an empty name; whether there is such a one."""
        ...


@asynccontextmanager
async def listening(
    agent: Controlled, registry: CollectorRegistry, path: Path, port: tuple[str, int] | None
) -> AsyncIterator[int]:
    """Listen until the end of the block; the local port, 0 without one.

    Raises:
        AgentError: another agent has the socket.
        OSError: the socket cannot be made, or the port is taken.
    """
    make_folder(path.parent)
    try:
        with locked(path.with_name(f".{path.name}.lock")):
            control = unix_sockets.bound(path)
            try:
                async with _served(_control_app(agent), control):
                    if port is None:
                        yield 0
                        return
                    bound = _tcp_socket(port)
                    async with _served(_local_app(agent, registry), bound):
                        yield bound.getsockname()[1]
            finally:
                _remove(path)
    except FileInUseError as err:
        raise AgentError(f"another agent is running on {path}", "kubevouch agent status shows it") from err


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


@asynccontextmanager
async def _served(app: web.Application, sock: socket.socket) -> AsyncIterator[None]:
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.SockSite(runner, sock).start()
        yield
    finally:
        await runner.cleanup()
        sock.close()


def _tcp_socket(address: tuple[str, int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    return socket.create_server(address, family=family)


def _local_app(agent: Controlled, registry: CollectorRegistry) -> web.Application:
    async def healthz(_request: web.Request) -> web.Response:
        why = agent.health
        return web.Response(text="ok" if not why else f"{why}\n", status=500 if why else 200)

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/metrics", metrics)])
    return app


def _control_app(agent: Controlled) -> web.Application:
    async def status(_request: web.Request) -> web.Response:
        return web.json_response(agent.status(), dumps=lambda found: msgspec.json.encode(found).decode())

    async def rotate(request: web.Request) -> web.Response:
        return web.Response(status=202 if agent.rotate(request.query.get("name", "")) else 404)

    app = web.Application()
    app.add_routes([web.get("/status", status), web.post("/rotate", rotate)])
    return app


# ------------------------------------------------------------------ the other end


async def _ask(path: Path, method: str, url: str) -> tuple[int, bytes]:
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    try:
        with unix_sockets.address(path) as address:
            connector = aiohttp.UnixConnector(address)
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.request(method, f"http://agent{url}") as answer,
            ):
                return answer.status, await answer.content.read(_MAX_BYTES)
    except (aiohttp.ClientError, TimeoutError, OSError) as err:
        raise NoAgentError(f"no agent answers on {path}", "start one: systemctl start kubevouch-agent") from err


async def ask_status(path: Path) -> dict[str, Any]:
    """What a running agent says. Raises :class:`NoAgentError`."""
    _, body = await _ask(path, "GET", "/status")
    found: dict[str, Any] = msgspec.json.decode(body)
    return found


async def ask_rotation(path: Path, name: str = "") -> bool:
    """Have a running agent rotate; whether it keeps such a certificate. Raises :class:`NoAgentError`."""
    code, _ = await _ask(path, "POST", f"/rotate?name={name}" if name else "/rotate")
    return code == 202
