"""NamespaceLifecycle: nothing is created in a namespace that is missing or going, and some namespaces never go.

Source: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused
from kubevouch.api.catalog import LOCAL_SUBJECT_ACCESS_REVIEWS, NAMESPACES
from kubevouch.api.core_v1.namespaces import TERMINATING, Namespace
from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import StatusCause
from kubevouch.machinery.scheme import GroupResource
from kubevouch.util.clock import Clock
from kubevouch.wellknown import UNDELETABLE_NAMESPACES

# For so long after its deletion the cache is not believed about a namespace.
RECENTLY_SECONDS = 30.0

_NAMESPACE_TERMINATING = "NamespaceTerminating"


class NamespaceLifecycle:
    """A mutating plug-in, though it changes nothing: a missing namespace is 404 before an invalid body is 422.

    Args:
        namespace_named: the namespace from a cache, or None.
        refresh: waits until that cache holds every write acknowledged so far.
        clock: forgets deletions.
    """

    name = "NamespaceLifecycle"

    def __init__(
        self,
        namespace_named: Callable[[str], Namespace | None],
        refresh: Callable[[], Awaitable[object]],
        clock: Clock,
    ) -> None:
        self._namespace_named = namespace_named
        self._refresh = refresh
        self._clock = clock
        self._deleted: dict[str, float] = {}

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:  # noqa: ARG002
        if resource == NAMESPACES.group_resource:
            return operation is Operation.DELETE
        # Reviews in a namespace must not tell whether it exists.
        reviews = LOCAL_SUBJECT_ACCESS_REVIEWS.group_resource
        return operation in (Operation.CREATE, Operation.UPDATE) and resource != reviews

    async def admit(self, request: Request) -> Any:
        if request.resource == NAMESPACES.group_resource:
            self._check_deletion(request)
        elif request.namespace:
            await self._check_content(request)
        return request.obj

    def _check_deletion(self, request: Request) -> None:
        if request.name in UNDELETABLE_NAMESPACES:
            raise refused(request, "this namespace may not be deleted")
        now = self._clock.monotonic()
        self._deleted = {name: at for name, at in self._deleted.items() if now - at < RECENTLY_SECONDS}
        self._deleted[request.name] = now

    async def _check_content(self, request: Request) -> None:
        name = request.namespace
        namespace = self._namespace_named(name)
        at = self._deleted.get(name)
        if namespace is None or (at is not None and self._clock.monotonic() - at < RECENTLY_SECONDS):
            await self._refresh()
            namespace = self._namespace_named(name)
        if namespace is None:
            raise errors.not_found(NAMESPACES.group_resource, name)
        if request.operation is Operation.CREATE and namespace.status.phase == TERMINATING:
            raise _terminating(request)


def _terminating(request: Request) -> APIStatusError:
    name = request.namespace
    refusal = refused(request, f"unable to create new content in namespace {name} because it is being terminated")
    cause = StatusCause(
        reason=_NAMESPACE_TERMINATING, message=f"namespace {name} is being terminated", field="metadata.namespace"
    )
    details = refusal.status.details
    assert details is not None  # errors.forbidden always says what it is about
    status = msgspec.structs.replace(refusal.status, details=msgspec.structs.replace(details, causes=[cause]))
    return APIStatusError(status)
