"""The contract of admission plug-ins (k8s.io/apiserver/pkg/admission, Kubernetes 1.36)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.scheme import GroupResource, GroupVersionKind


class Operation(StrEnum):
    """Admission's word for what is done; several verbs share one."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


@dataclass(slots=True)
class Request:
    """One write on its way to the store.

    Args:
        obj: the object as it will be; None for a deletion.
        old: the object as it is stored; None for a creation.
        name: empty when a creation leaves the name to the server.
        options: fieldManager, dryRun and the like are in ``dry_run`` and ``field_manager``.
        warnings: texts for ``Warning`` headers; plug-ins append.
        annotations: for the audit event; plug-ins add.
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
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)


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
