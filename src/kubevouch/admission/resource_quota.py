"""ResourceQuota: refuses an object that would be one too many of its kind in its namespace.

The objects themselves are counted, in the watch cache, so that nothing has to be written before a creation and nothing
is wrong after one that failed. Of two at once the second has to know of the first, which the cache has not heard of:
it is noted until its request has ended, whether it is stored then or has failed.
Source (words): k8s.io/apiserver/pkg/admission/plugin/resourcequota (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused
from kubevouch.api.core_v1.quotas import ResourceQuota, counted
from kubevouch.machinery.scheme import GroupResource
from kubevouch.machinery.text import quantity

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

    def __init__(self, quotas_of: QuotasOf, objects_in: ObjectsIn, refresh: Callable[[], Awaitable[object]]) -> None:
        self._quotas_of = quotas_of
        self._objects_in = objects_in
        self._refresh = refresh
        # By resource and namespace: the names of requests that were admitted and have not ended.
        self._under_way: dict[tuple[GroupResource, str], list[str]] = {}

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:  # noqa: ARG002
        return operation is Operation.CREATE and not subresource

    async def validate(self, request: Request) -> None:
        if not request.namespace or not self._limits(request):
            return
        await self._refresh()
        # From here to the note of what was admitted nothing is waited for.
        limits, key = self._limits(request), (request.resource, request.namespace)
        present = self._objects_in(*key)
        if not limits or present is None:
            return
        number, has = present
        # Of two for one name one fails, and what the cache has is counted already.
        used = number + sum(not has(name) for name in set(self._under_way.get(key, ())))
        for quota, resource_name, most in limits:
            if used + 1 > most:
                raise refused(
                    request,
                    f"exceeded quota: {quota}, requested: {resource_name}=1, used: {resource_name}={used}, "
                    f"limited: {resource_name}={most}",
                )
        if not request.dry_run:
            self._under_way.setdefault(key, []).append(request.name)
            request.at_end.append(partial(self._ended, key, request.name))

    def _ended(self, key: tuple[GroupResource, str], name: str) -> None:
        names = self._under_way[key]
        names.remove(name)
        if not names:
            del self._under_way[key]

    def _limits(self, request: Request) -> list[tuple[str, str, int]]:
        return [
            (quota.metadata.name, name, quantity.floor(most.text))
            for quota in self._quotas_of(request.namespace)
            for name, most in quota.spec.hard.items()
            if counted(name) == request.resource
        ]
