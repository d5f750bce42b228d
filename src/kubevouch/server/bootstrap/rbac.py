"""Reconciles the shipped RBAC policy at start (pkg/registry/rbac/rest/storage_rbac.go; Kubernetes 1.36)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from kubevouch.api import catalog
from kubevouch.api.rbac_v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from kubevouch.authorization.reconcile import Operation, Reconciled, reconcile_binding, reconcile_role
from kubevouch.client.interface import Client, ListOptions
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import Resource
from kubevouch.util.logger import get_logger

log = get_logger("rbac-bootstrap")

ATTEMPTS = 10
# More than are shipped of any kind.
PAGE = 500

_RESOURCES: dict[type[Any], tuple[Resource[Any], Callable[[Any, Any], Reconciled[Any]]]] = {
    ClusterRole: (catalog.CLUSTER_ROLES, reconcile_role),
    Role: (catalog.ROLES, reconcile_role),
    ClusterRoleBinding: (catalog.CLUSTER_ROLE_BINDINGS, reconcile_binding),
    RoleBinding: (catalog.ROLE_BINDINGS, reconcile_binding),
}


async def reconcile(client: Client, shipped: Iterable[Any]) -> None:
    """Make the stored policy contain the shipped one, roles before bindings. Raises what the client raises."""
    objects = list(shipped)
    roles = [obj for obj in objects if isinstance(obj, (ClusterRole, Role))]
    bindings = [obj for obj in objects if isinstance(obj, (ClusterRoleBinding, RoleBinding))]
    for group in (roles, bindings):
        stored = await _stored(client, {type(obj) for obj in group})
        await asyncio.gather(*(_reconcile_one(client, obj, stored) for obj in group))


async def _stored(client: Client, kinds: Iterable[type[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """What is stored in the place of a shipped object, None if nothing is; told from one list of each kind.

    A cluster that has so many that they come in pages is asked for each of ours that is not on the first.
    """
    found: dict[tuple[type[Any], str, str], Any] = {}
    partly: set[type[Any]] = set()
    for kind in kinds:
        page = await client.list(_RESOURCES[kind][0], options=ListOptions(limit=PAGE))
        found |= {(kind, each.metadata.namespace, each.metadata.name): each for each in page.items}
        if page.continue_token:
            partly.add(kind)

    async def look(shipped: Any) -> Any:
        kind, meta = type(shipped), shipped.metadata
        known = found.get((kind, meta.namespace, meta.name))
        if known is not None or kind not in partly:
            return known
        return await _get(client, _RESOURCES[kind][0], meta.name, meta.namespace)

    return look


async def _reconcile_one(client: Client, shipped: Any, look: Callable[[Any], Awaitable[Any]]) -> None:
    resource, decide = _RESOURCES[type(shipped)]
    meta = shipped.metadata
    for attempt in range(1, ATTEMPTS + 1):
        stored = await (look(shipped) if attempt == 1 else _get(client, resource, meta.name, meta.namespace))
        wanted = decide(stored, shipped)
        try:
            await _carry_out(client, resource, wanted)
        except APIStatusError as err:
            # Another replica writes the same objects at the same time.
            if err.code != 409 or attempt == ATTEMPTS:
                raise
        else:
            if wanted.operation not in (Operation.NONE, Operation.CREATE):
                log.info("reconciled", kind=resource.kind, name=meta.name, operation=wanted.operation.value)
            return


async def _get(client: Client, resource: Resource[Any], name: str, namespace: str) -> Any:
    try:
        return await client.get(resource, name, namespace)
    except APIStatusError as err:
        if err.code != 404:
            raise
        return None


async def _carry_out(client: Client, resource: Resource[Any], wanted: Reconciled[Any]) -> None:
    meta = wanted.obj.metadata
    match wanted.operation:
        case Operation.CREATE:
            await client.create(resource, wanted.obj)
        case Operation.UPDATE:
            await client.update(resource, wanted.obj)
        case Operation.RECREATE:
            await client.delete(resource, meta.name, meta.namespace)
            await client.create(resource, wanted.obj)
        case Operation.NONE:
            return
