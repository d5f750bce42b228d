"""resourcequota-controller: says in the status of each quota how much of it is used.

It counts at a change of the quota and every few seconds; what is refused is not decided here, but at admission, by
counting. Source: pkg/controller/resourcequota (Kubernetes 1.36), which follows every resource instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import RESOURCE_QUOTAS
from kubevouch.api.core_v1 import ResourceQuota
from kubevouch.api.core_v1.quotas import ResourceQuotaStatus, counted
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.custom_kinds import CustomKinds
from kubevouch.controllers.interface import DONE, Context, IgnorableError, Request, Result, request_of
from kubevouch.machinery.declaration import Quantity
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import GroupResource, Resource

NAME = wellknown.RESOURCE_QUOTA_CONTROLLER
LOOK_SECONDS = 5.0


class QuotaCounter:
    """Args: ``resources``: those in namespaces, by name; ``custom``: kinds that come and go, asked for each time."""

    def __init__(
        self,
        client: Client,
        quotas: Lister[ResourceQuota],
        resources: Mapping[GroupResource, Resource[Any]],
        custom: Iterable[Resource[Any]],
        count: Callable[[Resource[Any], str], int],
    ) -> None:
        self._client = client
        self._quotas = quotas
        self._resources = resources
        self._custom = custom
        self._count_objects = count

    async def reconcile(self, request: Request) -> Result:
        quota = self._quotas.get(request.name, request.namespace)
        if quota is None:
            return DONE
        used = {name: Quantity(str(self._count(name, request.namespace))) for name in quota.spec.hard}
        status = ResourceQuotaStatus(hard=quota.spec.hard, used=used)
        if status != quota.status:
            try:
                changed = msgspec.structs.replace(quota, status=status)
                await self._client.update(RESOURCE_QUOTAS, changed, subresource="status")
            except APIStatusError as err:
                if err.code in (404, 409):
                    raise IgnorableError(f"error updating quota {request.name}: {err}") from err
                raise
        return Result(LOOK_SECONDS)

    def _count(self, name: str, namespace: str) -> int:
        """0 for what nobody here can use."""
        named = counted(name)
        resource = None if named is None else self._resources.get(named) or self._custom_resource(named)
        return 0 if resource is None else self._count_objects(resource, namespace)

    def _custom_resource(self, named: GroupResource) -> Resource[Any] | None:
        return next((each for each in self._custom if each.namespaced and each.group_resource == named), None)


def _requests(quota: ResourceQuota) -> Iterable[Request]:
    return (request_of(quota),)


def build(context: Context) -> QueueController | None:
    if context.count is None:
        return None
    client = context.connect(NAME)
    quotas = context.informers.informer(RESOURCE_QUOTAS, client=client)
    resources = {each.group_resource: each for each in context.resources if each.namespaced}
    counter = QuotaCounter(client, quotas.lister, resources, CustomKinds(context.informers, client), context.count)
    controller = QueueController(NAME, counter, context.clock)
    controller.watch(quotas, on_add=_requests, on_update=_requests)
    return controller
