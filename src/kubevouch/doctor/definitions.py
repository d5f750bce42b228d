"""Whether the definitions of our own kinds are what the controllers decide by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubevouch.api.apiextensions_v1.conditions import ESTABLISHED, is_true
from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition, default_definition
from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.api.kubevouch_v1alpha1.catalog import OWN_KINDS
from kubevouch.api.kubevouch_v1alpha1.own_kind import definition_of, serves_as_well
from kubevouch.client.interface import Client
from kubevouch.client.stored import find
from kubevouch.doctor.findings import Code, Finding
from kubevouch.machinery.errors import APIStatusError


def judge(definitions: Mapping[str, CustomResourceDefinition | None]) -> Iterator[Finding]:
    """By name, None for one that is not there. Where there is none at all, nobody has installed them."""
    if not any(definitions.values()):
        return
    for kind in OWN_KINDS:
        name = kind.definition_name
        found = definitions.get(name)
        if found is None:
            yield Code.DEFINITION_BROKEN.found(f"{name} is not there")
        elif found.metadata.deletion_timestamp is not None:
            yield Code.DEFINITION_BROKEN.found(f"{name} is being deleted")
        elif not is_true(found, ESTABLISHED):
            yield Code.DEFINITION_BROKEN.found(f"{name} is not established")
        elif not serves_as_well(found, default_definition(definition_of(kind))):
            yield Code.DEFINITION_BROKEN.found(f"{name} serves or keeps less than kubevouch's own definition")


async def examine(client: Client) -> list[Finding]:
    """Raises APIStatusError, TransportError."""
    found = {}
    for kind in OWN_KINDS:
        try:
            found[kind.definition_name] = await find(client, CUSTOM_RESOURCE_DEFINITIONS, kind.definition_name)
        except APIStatusError as err:
            if err.code != 403:
                raise
            return []  # for somebody else to look at
    return list(judge(found))
