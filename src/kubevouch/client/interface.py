"""The client that controllers, agent and command line see.

APIStatusError            the server answered with a failure (machinery.errors)
TransportError            there was no answer
├── ConnectFailed         no connection: refused, unreachable, name unknown, timed out
├── TLSFailed             the handshake failed or the server could not be verified
├── NotKubernetes         an answer that is no Kubernetes answer (a proxy, a web server, plain HTTP)
├── CredentialsFailed     nothing to ask with: a plug-in failed, a token file cannot be read
└── NotLeading            a write that was not sent, because another process may act by now
ClientConfigurationError  what the client was told makes no connection: bad URL, bad PEM, bad kubeconfig
InvalidName               a name or namespace that no request can be about
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from enum import StrEnum
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from kubevouch.machinery.meta import DeleteOptions, Object, Status
from kubevouch.machinery.scheme import Resource
from kubevouch.wellknown import INITIAL_EVENTS_END_ANNOTATION

T = TypeVar("T", bound=Object)
R = TypeVar("R", bound=Object)


class ClientConfigurationError(Exception):
    """The settings of a client cannot be used; ``hint`` says what to do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class TransportError(Exception):
    """No answer from an API server.

    ``address`` is host:port, or the URL where that says more; ``hint`` says what to do, for a terminal's second line.
    """

    def __init__(self, message: str, *, address: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.address = address
        self.hint = hint


class ConnectFailed(TransportError):
    """No connection could be made, or it broke before an answer."""


class TLSFailed(TransportError):
    """The TLS handshake failed, or the server's certificate could not be verified."""


class NotKubernetes(TransportError):
    """Something answered that is not an API server.

    ``status`` is its HTTP status; ``by_proxy`` says that it gave itself away as a proxy.
    """

    def __init__(
        self, message: str, *, address: str = "", status: int = 0, hint: str = "", by_proxy: bool = False
    ) -> None:
        super().__init__(message, address=address, hint=hint)
        self.status = status
        self.by_proxy = by_proxy


class CredentialsFailed(TransportError):
    """There is nothing to ask with: a credential plug-in failed, or a token file cannot be read."""


class NotLeading(TransportError):
    """A write that was not sent, because another process may hold this one's Lease by now."""


class InvalidName(ValueError):
    """A name or namespace that cannot stand in a path, so that no request can be about it."""


class EventType(StrEnum):
    """What a watch event says."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One event. A BOOKMARK's object has only metadata that counts; an ERROR has ``status`` and no object."""

    type: EventType
    object: T | None = None
    status: Status | None = None

    @property
    def ends_initial_events(self) -> bool:
        """True for the bookmark after which a streaming list goes on with live events."""
        return (
            self.type is EventType.BOOKMARK
            and self.object is not None
            and self.object.metadata.annotations.get(INITIAL_EVENTS_END_ANNOTATION) == "true"
        )


class WatchStream(Protocol[T]):
    """What a watch gives: an asynchronous generator is one. Use it in ``contextlib.aclosing``."""

    def __aiter__(self) -> AsyncIterator[WatchEvent[T]]: ...

    def __anext__(self) -> Awaitable[WatchEvent[T]]: ...

    def aclose(self) -> Awaitable[None]:
        """End the watch from this side."""
        ...


class Items(msgspec.Struct, Generic[T], frozen=True):
    """What a list returns."""

    items: list[T]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


class ListOptions(msgspec.Struct, frozen=True):
    """Selectors and paging of a list. ``resource_version`` None asks for the newest state."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str | None = None
    resource_version_match: Literal["", "Exact", "NotOlderThan"] = ""


class WatchOptions(msgspec.Struct, frozen=True):
    """Selectors and start of a watch. ``timeout_seconds`` None leaves the end to the server."""

    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    send_initial_events: bool = False
    timeout_seconds: int | None = None


class WriteOptions(msgspec.Struct, frozen=True):
    """Options of create, update and patch."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: Literal["", "Ignore", "Warn", "Strict"] = ""


DEFAULT_LIST = ListOptions()
DEFAULT_WATCH = WatchOptions()
DEFAULT_WRITE = WriteOptions()


class PatchType(msgspec.Struct, frozen=True):
    """A patch's media type."""

    media_type: str


JSON_PATCH = PatchType("application/json-patch+json")
MERGE_PATCH = PatchType("application/merge-patch+json")
STRATEGIC_MERGE_PATCH = PatchType("application/strategic-merge-patch+json")
APPLY_PATCH = PatchType("application/apply-patch+yaml")


class RawResponse(msgspec.Struct, frozen=True):
    """The answer to a request about a path: status, headers by lower-case name, body."""

    status: int
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""


class Client(Protocol):
    """Typed access to resources. Every call may raise ``APIStatusError`` and :class:`TransportError`.

    A call about a name raises :class:`InvalidName` for one that no object can have.
    """

    async def get(self, resource: Resource[T], name: str, namespace: str = "", *, subresource: str = "") -> T: ...

    async def list(self, resource: Resource[T], namespace: str = "", options: ListOptions = ...) -> Items[T]:
        """One page; an empty namespace reads all namespaces."""
        ...

    def watch(self, resource: Resource[T], namespace: str = "", options: WatchOptions = ...) -> WatchStream[T]:
        """Events until the server ends the stream. ``aclose()`` on the iterator ends it from this side."""
        ...

    async def create(self, resource: Resource[T], obj: T, options: WriteOptions = ..., *, subresource: str = "") -> T:
        """Namespace and name are those of the object's metadata."""
        ...

    async def update(
        self, resource: Resource[T], obj: T, options: WriteOptions = ..., *, subresource: str = ""
    ) -> T: ...

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Any,
        patch_type: PatchType,
        namespace: str = "",
        options: WriteOptions = ...,
        *,
        subresource: str = "",
        force: bool = False,
    ) -> T:
        """``patch`` is a tree of builtins."""
        ...

    async def delete(
        self, resource: Resource[T], name: str, namespace: str = "", options: DeleteOptions | None = None
    ) -> None: ...

    async def delete_collection(
        self, resource: Resource[T], namespace: str = "", options: ListOptions = ...
    ) -> None: ...

    async def raw(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> RawResponse:
        """A request about a path that is no resource, such as ``/readyz?verbose``. Does not raise for a status."""
        ...

    async def close(self) -> None: ...
