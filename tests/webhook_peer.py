"""A webhook client on the server of a test, without TLS."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kubevouch.client.credentials import FixedCredential
from kubevouch.client.options import ClientOptions
from kubevouch.client.rest_config import RESTConfig
from kubevouch.client.tls import TLSSources
from kubevouch.client.webhook import Webhook
from kubevouch.testing.clock import FakeClock
from scripted_server import ScriptedServer


@asynccontextmanager
async def webhook_peer(path: str = "", **settings: Any) -> AsyncIterator[tuple[ScriptedServer, Webhook, FakeClock]]:
    """The server, a client that asks it at ``path``, and the client's clock."""
    async with ScriptedServer(None) as server:
        clock = FakeClock()
        config = RESTConfig(ClientOptions(f"{server.url}{path}"), TLSSources(), lambda _clock: FixedCredential())
        yield server, Webhook(config, clock, component="test", **{"seconds": 5.0, **settings}), clock
