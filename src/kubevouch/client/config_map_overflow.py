"""Reading and writing the ConfigMaps of ``records/config_map_overflow.py``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client import stored
from kubevouch.client.interface import Client
from kubevouch.machinery.meta import ObjectMeta, replace_metadata

_AT_A_TIME = 16
_NAMESPACE = wellknown.KUBE_SYSTEM_NAMESPACE

Stored = dict[str, ConfigMap | None]
"""By name, in order; None for what is not there."""


async def find(client: Client, name: str) -> ConfigMap | None:
    """Raises APIStatusError, TransportError."""
    return await stored.find(client, CONFIG_MAPS, name, _NAMESPACE)


async def find_further(client: Client, names: Iterable[str]) -> Stored:
    """They are made one after the other, but somebody may have deleted one that others follow.

    Raises:
        APIStatusError, TransportError
    """
    found: Stored = {}
    # Some at a time: each is a way to the server and back.
    for some in batched(names, _AT_A_TIME):
        found |= zip(some, await asyncio.gather(*(find(client, name) for name in some)), strict=True)
    return found


def batched(names: Iterable[str], most: int) -> Iterator[Sequence[str]]:
    """Parts of at most ``most``, in order; itertools has it from Python 3.12 on."""
    left = iter(names)
    while part := list(islice(left, most)):
        yield part


def data_of(found: Mapping[str, ConfigMap | None]) -> dict[str, Mapping[str, str]]:
    return {name: {} if each is None else each.data for name, each in found.items()}


async def write(
    client: Client,
    former: ConfigMap | None,
    name: str,
    data: dict[str, str],
    annotations: Mapping[str, str] | None = None,
) -> ConfigMap:
    """Store ``data`` in place of what was read.

    Raises:
        APIStatusError: 409 if somebody else wrote, or made it, since it was read.
        TransportError
    """
    sorted_data = dict(sorted(data.items()))
    if former is None:
        meta = ObjectMeta(name=name, namespace=_NAMESPACE, annotations=dict(annotations or {}))
        return await client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data=sorted_data))
    if annotations:
        former = replace_metadata(former, annotations={**former.metadata.annotations, **annotations})
    return await client.update(CONFIG_MAPS, msgspec.structs.replace(former, data=sorted_data))
