"""The contract of admission plug-ins (k8s.io/apiserver/pkg/admission, Kubernetes 1.36)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from kubevouch.admission.observer import UNOBSERVED, Observer
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.scheme import GroupResource, GroupVersionKind, Resource


class Operation(StrEnum):
    """Admission's word for what is done; several verbs share one."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


Convert = Callable[[Sequence[Any]], Awaitable[list[Any]]]


def _as_it_is(obj: Any) -> Any:
    return obj


class Version(msgspec.Struct, frozen=True):
    """A version of a kind under which its objects are served, and the ways from and to the stored one.

    Args:
        body: the kind of the object where it is not the resource's own (serviceaccounts/token).
        to_shown, to_asked: for a kind whose versions others may have to be asked to convert: bring objects to this
            version and back to the one that was asked for. They raise ``APIStatusError``.
    """

    resource: Resource[Any]
    from_storage: Callable[[Any], Any] = _as_it_is
    to_storage: Callable[[Any], Any] = _as_it_is
    body: GroupVersionKind | None = None
    to_shown: Convert | None = None
    to_asked: Convert | None = None

    async def taken(self, obj: Any) -> Any:
        """An object of this version as the request has it."""
        return obj if self.to_asked is None else (await self.to_asked([obj]))[0]

    @property
    def kind(self) -> GroupVersionKind:
        return self.body or self.resource.gvk


class Invoked(msgspec.Struct):
    """What one plug-in remembers for the second round.

    Args:
        before: the uids of webhooks or policies that want to see later changes.
        due: the uids of those of them that others changed the object after.
        output: the object as the plug-in left it.
    """

    before: set[str] = msgspec.field(default_factory=set)
    due: set[str] = msgspec.field(default_factory=set)
    output: Any = None

    def changed(self) -> None:
        """The object changed: whoever was invoked so far is due again."""
        self.due |= self.before
        self.before.clear()


class Reinvocation(msgspec.Struct):
    """What a mutating phase knows of its second round.

    Args:
        wanted: somebody changed the object after others had looked at it.
        again: this is the second round.
        by: what each plug-in remembers, by its name.
    """

    wanted: bool = False
    again: bool = False
    by: dict[str, Invoked] = msgspec.field(default_factory=dict)

    def invoked(self, plugin: str, obj: Any) -> Invoked:
        """What the plug-in remembers, now that it sees ``obj``."""
        found = self.by.setdefault(plugin, Invoked())
        if self.again and found.output != obj:
            found.changed()
        return found


class Request(Struct):
    """One write on its way to the store.

    Args:
        obj: the object as it will be; None for a deletion.
        old: the object as it is stored; None for a creation.
        name: empty when a creation leaves the name to the server.
        versions: the version that was asked for, then the others of the same objects; ``obj`` and ``old`` are in the
            stored one.
        options: the CreateOptions, UpdateOptions, PatchOptions or DeleteOptions of the request, where it has some.
        warnings: texts for ``Warning`` headers; plug-ins append.
        annotations: for the audit event; plug-ins add.
        observer: what plug-ins report to; the chain sets it.
        source: the address that it came from; empty inside of this process.
        at_end: what is called once a creation is in the watch cache or has failed; validating plug-ins append.
    """

    user: UserInfo
    operation: Operation
    resource: GroupResource
    kind: GroupVersionKind
    subresource: str
    namespace: str
    name: str
    obj: Any
    old: Any
    dry_run: bool = False
    field_manager: str = ""
    warnings: list[str] = []
    annotations: dict[str, str] = {}
    versions: tuple[Version, ...] = ()
    options: Any = None
    reinvocation: Reinvocation = msgspec.field(default_factory=Reinvocation)
    observer: Observer = UNOBSERVED
    source: str = ""
    at_end: list[Callable[[], None]] = []


class MutatingPlugin(Protocol):
    """Runs before the object is validated."""

    name: str

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool: ...

    async def admit(self, request: Request) -> Any:
        """The object to go on with (``request.obj`` or a changed copy).

        Raises:
            APIStatusError: the request is refused.
        """
        ...


class ValidatingPlugin(Protocol):
    """Runs on the object as it will be stored."""

    name: str

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool: ...

    async def validate(self, request: Request) -> None:
        """Raises ``APIStatusError`` when the request is refused."""
        ...
