"""Waiting for the state of an object by watch: no sleeping, no polling.

WaitTimeout    the state did not come in time; the text shows the last one seen
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, TypeVar, cast

import msgspec

from kubevouch.client.interface import Client, EventType, ListOptions, WatchOptions, WatchStream
from kubevouch.machinery.codec import yamltext
from kubevouch.machinery.codec.object_codec import codec_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.scheme import Resource
from kubevouch.util.clock import SystemClock, wait_at_most

T = TypeVar("T", bound=Object)

TIMEOUT_SECONDS = 30.0
_EXPIRED = 410
_INVALID = 422


class WaitTimeout(AssertionError):
    """What a test waits for did not come; an assertion, so that the test fails and does not break."""


def exists(_obj: Object) -> bool:
    return True


def has_condition(type_: str, status: str = "True") -> Callable[[Any], bool]:
    """For objects whose ``status.conditions`` hold a condition of that type and status."""

    def check(obj: Any) -> bool:
        if isinstance(obj, dict):
            conditions = (obj.get("status") or {}).get("conditions") or ()
            return any(found.get("type") == type_ and found.get("status") == status for found in conditions)
        return any(found.type == type_ and found.status == status for found in obj.status.conditions or ())

    check.__qualname__ = f"has_condition({type_!r}, {status!r})"
    return check


async def wait_for(
    client: Client,
    resource: Resource[T],
    name: str,
    namespace: str = "",
    *,
    until: Callable[[T], bool] = exists,
    timeout: float = TIMEOUT_SECONDS,
) -> T:
    """The object as soon as ``until`` holds for it, which may be at once.

    Args:
        timeout: seconds of real time, whatever clock the cluster has.

    Raises:
        WaitTimeout: ``until`` held at no moment.
        APIStatusError: the client may not watch this.
    """
    found = await _watch(client, resource, name, namespace, lambda obj: obj is not None and until(obj), until, timeout)
    return cast("T", found)


async def wait_for_deletion(
    client: Client, resource: Resource[T], name: str, namespace: str = "", *, timeout: float = TIMEOUT_SECONDS
) -> None:
    """Returns once there is no such object, which may be at once. Raises as :func:`wait_for` does."""
    await _watch(client, resource, name, namespace, lambda obj: obj is None, "its deletion", timeout)


async def _watch(
    client: Client,
    resource: Resource[T],
    name: str,
    namespace: str,
    reached: Callable[[T | None], bool],
    wanted: object,
    timeout: float,
) -> T | None:
    last: list[T | None] = [None]
    try:
        return await wait_at_most(SystemClock(), _follow(client, resource, name, namespace, reached, last), timeout)
    except TimeoutError:
        where = f"{namespace}/{name}" if namespace else name
        told = getattr(wanted, "__qualname__", wanted)
        raise WaitTimeout(
            f"{resource.kind} {where}: waited {timeout:g} s for {told}, last seen:\n{_shown(last[0])}"
        ) from None


async def _follow(
    client: Client,
    resource: Resource[T],
    name: str,
    namespace: str,
    reached: Callable[[T | None], bool],
    last: list[T | None],
) -> T | None:
    selector = f"metadata.name={name}"
    options = WatchOptions(field_selector=selector, send_initial_events=True)
    while True:
        # A watch may end at any time, for a server that restarts for example: the next one begins anew.
        last[0] = None
        known = False
        if not options.send_initial_events:
            found = await client.list(resource, namespace, ListOptions(field_selector=selector))
            last[0], known = (found.items[0] if found.items else None), True
            if reached(last[0]):
                return last[0]
            options = msgspec.structs.replace(options, resource_version=found.resource_version)
        stream: WatchStream[T] = client.watch(resource, namespace, options)
        try:
            async with aclosing(stream):
                async for event in stream:
                    if event.type is EventType.ERROR:
                        assert event.status is not None  # an ERROR has one
                        if event.status.code != _EXPIRED:
                            raise APIStatusError(event.status)
                        break
                    if event.type is EventType.BOOKMARK:
                        known = known or event.ends_initial_events
                    else:
                        last[0] = None if event.type is EventType.DELETED else event.object
                    if (known or last[0] is not None) and reached(last[0]):
                        return last[0]
        except APIStatusError as err:
            # A server whose streaming lists are off: Kubernetes before 1.32, and 1.33.
            if err.code != _INVALID or not options.send_initial_events:
                raise
            options = WatchOptions(field_selector=selector)
        await asyncio.sleep(0)


def _shown(obj: Object | None) -> str:
    if obj is None:
        return "no such object"
    tree = codec_of(type(obj)).to_tree(obj)
    tree.get("metadata", {}).pop("managedFields", None)
    return yamltext.dumps(tree).rstrip()
