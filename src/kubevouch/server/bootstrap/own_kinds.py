"""Keeps the definitions of our own kinds as this version has them, and waits until their kinds are served."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec

from kubevouch.api.apiextensions_v1.conditions import ESTABLISHED, is_true
from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition, default_definition
from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.api.kubevouch_v1alpha1.catalog import OWN_KINDS
from kubevouch.api.kubevouch_v1alpha1.own_kind import definition_of
from kubevouch.client import stored
from kubevouch.client.interface import Client, WatchOptions


async def ensure(client: Client) -> None:
    """Store the definitions that are missing or others, and wait until all are established.

    Raises:
        APIStatusError, TransportError
    """
    await asyncio.gather(*(_ensure_one(client, default_definition(definition_of(kind))) for kind in OWN_KINDS))


async def _ensure_one(client: Client, wanted: CustomResourceDefinition) -> None:
    def decide(found: CustomResourceDefinition | None) -> CustomResourceDefinition | None:
        if found is None:
            return wanted
        return found if found.spec == wanted.spec else msgspec.structs.replace(found, spec=wanted.spec)

    name = wanted.metadata.name
    await stored.change(client, CUSTOM_RESOURCE_DEFINITIONS, name, "", decide)
    while not is_true(found := await client.get(CUSTOM_RESOURCE_DEFINITIONS, name), ESTABLISHED):
        options = WatchOptions(field_selector=f"metadata.name={name}", resource_version=found.metadata.resource_version)
        async with aclosing(client.watch(CUSTOM_RESOURCE_DEFINITIONS, "", options)) as events:
            await anext(events, None)
