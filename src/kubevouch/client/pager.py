"""A whole collection, page by page (k8s.io/client-go tools/pager, Kubernetes 1.36)."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from kubevouch.client.interface import DEFAULT_LIST, Client, Items, ListOptions
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import Object, Status
from kubevouch.machinery.scheme import Resource

T = TypeVar("T", bound=Object)

PAGE_SIZE = 500
PAGES = ListOptions(limit=PAGE_SIZE)
"""As kubectl asks: no answer is larger than so many objects."""


class Collection(msgspec.Struct, Generic[T], frozen=True):
    """All items, the version they were read at, and whether the server gave them in pages."""

    items: list[T]
    resource_version: str
    paged: bool


def is_expired(status: Status) -> bool:
    """The version or continue token is too old: 410, as an answer or inside a watch."""
    return status.code == 410 or status.reason in (Reason.EXPIRED, Reason.GONE)


def is_too_large_version(status: Status) -> bool:
    """The version is one that the server has not seen yet."""
    causes = status.details.causes if status.details is not None else []
    return any(cause.reason == "ResourceVersionTooLarge" for cause in causes)


async def list_all(
    client: Client, resource: Resource[T], namespace: str = "", options: ListOptions = DEFAULT_LIST
) -> Collection[T]:
    """The collection in pages of ``options.limit``; 0 asks for all at once, but follows a server that pages anyway.

    When the token of a later page has expired, everything is read again in one piece.
    """
    page = await client.list(resource, namespace, options)
    version, paged = page.resource_version, bool(page.continue_token)
    items = list(page.items)
    while page.continue_token:
        # The token holds the version; naming one beside it is an error.
        following = replace(
            options, continue_token=page.continue_token, resource_version=None, resource_version_match=""
        )
        try:
            page = await client.list(resource, namespace, following)
        except APIStatusError as err:
            if not is_expired(err.status):
                raise
            whole: Items[T] = await client.list(resource, namespace, replace(options, limit=0))
            return Collection(whole.items, whole.resource_version, paged)
        items += page.items
    return Collection(items, version, paged)
