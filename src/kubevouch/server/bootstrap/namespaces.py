"""The system namespaces: made at start and whenever one is missing (controlplane/controller/systemnamespaces)."""

from __future__ import annotations

import asyncio

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.core_v1 import Namespace
from kubevouch.client.interface import Client, TransportError
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("system-namespaces-controller")

INTERVAL_SECONDS = 60.0


async def ensure(client: Client) -> None:
    """Create those that are missing. Raises what the client raises."""
    await asyncio.gather(*(ensure_one(client, name) for name in wellknown.SYSTEM_NAMESPACES))


async def ensure_one(client: Client, name: str) -> None:
    """Create it if it is missing. Raises what the client raises."""
    try:
        await client.get(catalog.NAMESPACES, name)
    except APIStatusError as err:
        if err.code != 404:
            raise
    else:
        return
    try:
        await client.create(catalog.NAMESPACES, Namespace(metadata=ObjectMeta(name=name)))
    except APIStatusError as err:
        if err.code != 409:  # another replica was faster
            raise


async def keep(client: Client, clock: Clock) -> None:
    """Look every minute, for ever."""
    while True:
        await clock.sleep(INTERVAL_SECONDS)
        try:
            await ensure(client)
        except (APIStatusError, TransportError) as err:
            log.warning("could not ensure the system namespaces", err=str(err))
