"""ResourceQuota: refuses an object that would be one too many of its kind in its namespace.

The objects themselves are counted, in the watch cache, so that nothing has to be written before a creation and nothing
is wrong after one that failed. Of two at once the second has to know of the first, which the cache has not heard of.
Source (words): k8s.io/apiserver/pkg/admission/plugin/resourcequota (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused
from kubevouch.api.core_v1.quotas import ResourceQuota, counted
from kubevouch.machinery.scheme import GroupResource
from kubevouch.machinery.text import quantity
from kubevouch.util.clock import Clock

# How long a creation that was admitted may be on its way to the store.
_UNDER_WAY_SECONDS = 10.0

QuotasOf = Callable[[str], Sequence[ResourceQuota]]
ObjectsIn = Callable[[GroupResource, str], tuple[int, Callable[[str], bool]] | None]


class ResourceQuotaPlugin:
    """A validating plug-in.

    Args:
        quotas_of: the quotas of a namespace.
        objects_in: how many objects of a resource are in a namespace, and whether one of a name is; None for what is
            not served.
        refresh: waits until both know every write acknowledged so far.
    """

    name = "ResourceQuota"

    def __init__(
        self, quotas_of: QuotasOf, objects_in: ObjectsIn, refresh: Callable[[], Awaitable[object]], clock: Clock
    ) -> None:
        self._quotas_of = quotas_of
        self._objects_in = objects_in
        self._refresh = refresh
        self._clock = clock
        # By resource and namespace: admitted, and perhaps not in the cache yet, since when.
        self._under_way: dict[tuple[GroupResource, str], dict[str, float]] = {}

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:  # noqa: ARG002
        return operation is Operation.CREATE and not subresource

    async def validate(self, request: Request) -> None:
        if not request.namespace or not self._limits(request):
            return
        await self._refresh()
        # From here to the note of what was admitted nothing is waited for.
        limits, key, now = self._limits(request), (request.resource, request.namespace), self._clock.monotonic()
        present = self._objects_in(*key)
        if not limits or present is None:
            return
        number, has = present
        under_way = {
            name: since
            for name, since in self._under_way.get(key, {}).items()
            if now - since < _UNDER_WAY_SECONDS and not has(name)
        }
        used = number + len(under_way)
        for quota, resource_name, most in limits:
            if used + 1 > most:
                raise refused(
                    request,
                    f"exceeded quota: {quota}, requested: {resource_name}=1, used: {resource_name}={used}, "
                    f"limited: {resource_name}={most}",
                )
        if not request.dry_run:
            self._under_way[key] = under_way | {request.name: now}

    def _limits(self, request: Request) -> list[tuple[str, str, int]]:
        return [
            (quota.metadata.name, name, quantity.floor(most.text))
            for quota in self._quotas_of(request.namespace)
            for name, most in quota.spec.hard.items()
            if counted(name) == request.resource
        ]
