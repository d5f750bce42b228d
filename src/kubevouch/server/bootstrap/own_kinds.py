"""Keeps the definitions of our own kinds, and the policies that guard them, as this version has them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec

from kubevouch.api.apiextensions_v1.conditions import ESTABLISHED, is_true
from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition, default_definition
from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.api.kubevouch_v1alpha1.catalog import OWN_KINDS
from kubevouch.api.kubevouch_v1alpha1.guards import GUARDS
from kubevouch.api.kubevouch_v1alpha1.own_kind import definition_of
from kubevouch.client import stored
from kubevouch.client.interface import Client, WatchOptions
from kubevouch.machinery.scheme import Resource


async def ensure(client: Client) -> None:
    """Store what is missing or different, and wait until all kinds are established.

    Raises:
        APIStatusError, TransportError
    """
    await asyncio.gather(
        *(_establish(client, default_definition(definition_of(kind))) for kind in OWN_KINDS),
        *(_store(client, resource, guard) for resource, guard in GUARDS),
    )


async def _store(client: Client, resource: Resource[Any], wanted: Any) -> None:
    def decide(found: Any) -> Any:
        if found is None:
            return wanted
        return found if found.spec == wanted.spec else msgspec.structs.replace(found, spec=wanted.spec)

    await stored.change(client, resource, wanted.metadata.name, "", decide)


async def _establish(client: Client, wanted: CustomResourceDefinition) -> None:
    name = wanted.metadata.name
    await _store(client, CUSTOM_RESOURCE_DEFINITIONS, wanted)
    while not is_true(found := await client.get(CUSTOM_RESOURCE_DEFINITIONS, name), ESTABLISHED):
        options = WatchOptions(field_selector=f"metadata.name={name}", resource_version=found.metadata.resource_version)
        async with aclosing(client.watch(CUSTOM_RESOURCE_DEFINITIONS, "", options)) as events:
            await anext(events, None)
