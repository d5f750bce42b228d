"""clusterrole-aggregation-controller: fills ClusterRoles that are made of others.

Source: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CLUSTER_ROLES
from kubevouch.api.rbac_v1 import ClusterRole
from kubevouch.authorization.rbac_aggregation import aggregated_rules
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, Context, IgnorableError, ReconcileError, Request, Result, request_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.selectors import SelectorError

NAME = wellknown.CLUSTER_ROLE_AGGREGATION_CONTROLLER


class ClusterRoleAggregator:
    def __init__(self, client: Client, roles: Lister[ClusterRole]) -> None:
        self._client = client
        self._roles = roles

    async def reconcile(self, request: Request) -> Result:
        role = self._roles.get(request.name)
        if role is None:
            return DONE
        try:
            rules = aggregated_rules(role, self._roles.list())
        except SelectorError as err:
            raise ReconcileError(f"aggregationRule of {request.name}: {err}") from err
        if rules is None or rules == (role.rules or []):
            return DONE
        try:
            await self._client.update(CLUSTER_ROLES, msgspec.structs.replace(role, rules=rules))
        except APIStatusError as err:
            # Two parts that change at once ask twice, the second time before the cache has seen the first write.
            if err.code == 409:
                raise IgnorableError(str(err)) from err
            raise
        return DONE


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    roles = context.informers.informer(CLUSTER_ROLES, client=client)

    def requests(_role: ClusterRole) -> Iterable[Request]:
        """Any role may be part of any aggregated one."""
        return [request_of(role) for role in roles.lister.list() if role.aggregation_rule is not None]

    controller = QueueController(NAME, ClusterRoleAggregator(client, roles.lister), context.clock)
    controller.watch(roles, on_add=requests, on_update=requests, on_delete=requests)
    return controller
