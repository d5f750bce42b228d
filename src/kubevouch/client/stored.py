"""Objects that may be there or not, and those that a phase owns whole: made, or replaced by what it says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from kubevouch.api.core_v1 import ConfigMap, Secret
from kubevouch.client.interface import Client, WriteOptions
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import Object, replace_metadata
from kubevouch.machinery.scheme import Resource

K = TypeVar("K", bound=Object)
R = TypeVar("R")
T = TypeVar("T", ConfigMap, Secret)

_ATTEMPTS = 5
# Written, made or removed by somebody else since it was read.
_OPPOSED = (Reason.CONFLICT, Reason.ALREADY_EXISTS, Reason.NOT_FOUND)


async def find(client: Client, resource: Resource[K], name: str, namespace: str = "") -> K | None:
    """The object, None if it is not there. Raises APIStatusError, TransportError."""
    try:
        return await client.get(resource, name, namespace)
    except APIStatusError as err:
        if err.code != 404:
            raise
        return None


async def server_time(client: Client, resource: Resource[K], tried: K) -> dt.datetime:
    """The API server's own, by which certificates are issued: this machine's clock may be behind it.

    Args:
        tried: an object whose creation is only tried out, of a kind that the caller may create anyhow.

    Raises:
        APIStatusError, TransportError
    """
    made = await client.create(resource, tried, WriteOptions(dry_run=True))
    assert made.metadata.creation_timestamp is not None  # the server sets it
    return made.metadata.creation_timestamp.datetime()


async def unopposed(work: Callable[[], Awaitable[R]]) -> R:
    """``work``, which reads, decides and writes back: again from the start, if somebody else has written meanwhile.

    Raises:
        APIStatusError: after five conflicts, or as ``work`` raises it, and so with whatever else it raises.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await work()
        except APIStatusError as err:
            if err.reason not in _OPPOSED or attempt == _ATTEMPTS:
                raise
    raise AssertionError  # pragma: no cover - the last attempt returns or raises


async def change(
    client: Client, resource: Resource[K], name: str, namespace: str, decide: Callable[[K | None], K | None]
) -> None:
    """Store what ``decide`` makes of the object, or of its absence. None and the object itself change nothing.

    Raises:
        APIStatusError, TransportError, and whatever ``decide`` raises
    """

    async def once() -> None:
        found = await find(client, resource, name, namespace)
        wanted = decide(found)
        if wanted is None or wanted is found:
            return
        await (client.create(resource, wanted) if found is None else client.update(resource, wanted))

    await unopposed(once)


async def create_or_update(client: Client, resource: Resource[T], wanted: T) -> T:
    """Store ``wanted``; labels and annotations of an object that is there stay.

    Raises:
        APIStatusError, TransportError
    """
    meta = wanted.metadata
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await client.create(resource, wanted)
        except APIStatusError as err:
            if err.reason != Reason.ALREADY_EXISTS:
                raise
        try:
            stored = await client.get(resource, meta.name, meta.namespace)
            changed = msgspec.structs.replace(stored, data=wanted.data)
            if meta.owner_references:
                changed = replace_metadata(changed, owner_references=meta.owner_references)
            return await client.update(resource, changed)
        except APIStatusError as err:
            # Removed or written by somebody else in between.
            if (err.code != 404 and err.reason != Reason.CONFLICT) or attempt == _ATTEMPTS:
                raise
    raise AssertionError  # pragma: no cover - the last attempt returns or raises
