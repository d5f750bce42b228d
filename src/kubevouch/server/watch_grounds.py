"""Which running watches a change of an object may end: whoever judges them again finds out whether it does.

Only what takes something away is looked at. What is missed here is found within seconds all the same, as what expires.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubevouch import wellknown
from kubevouch.api.core_v1.secrets import Secret
from kubevouch.api.rbac_v1 import GROUP_KIND, SERVICE_ACCOUNT_KIND, ClusterRoleBinding, RoleBinding
from kubevouch.authentication.service_account import username
from kubevouch.machinery.meta import Object
from kubevouch.records.bootstrap_tokens import SECRET_NAME_PREFIX
from kubevouch.server.filters.watch_standing import WatchStanding
from kubevouch.storage.watchcache.objects import CacheEvent
from kubevouch.storage.watchcache.resource_cache import ResourceCache

Change = Callable[[WatchStanding, Any, Any], None]
"""Told of an object as it was and as it is; None where it is gone."""


def follow(standing: WatchStanding, caches: Mapping[str, ResourceCache[Any]]) -> None:
    """Have ``standing`` judge what events of the caches may end, from now on."""
    for plural, change in _CHANGES.items():
        cache = caches[plural]
        cache.on_event(_handler(standing, change))
        cache.on_load(standing.judge_all)


def _handler(standing: WatchStanding, change: Change) -> Callable[[CacheEvent[Any]], None]:
    def handle(event: CacheEvent[Any]) -> None:
        if event.previous is not None:
            change(standing, event.previous.obj, None if event.current is None else event.current.obj)

    return handle


def _is_gone(old: Object, new: Object | None) -> bool:
    """Also one that waits for its finalizers: tokens of it, or bound to it, do not count from then on."""
    return new is None or new.metadata.uid != old.metadata.uid or new.metadata.deletion_timestamp is not None


def _secret(standing: WatchStanding, old: Secret, new: Secret | None) -> None:
    namespace, name = old.metadata.namespace, old.metadata.name
    if _is_gone(old, new):
        # Tokens of service accounts may be bound to any Secret of their namespace.
        standing.judge_users(f"{wellknown.SERVICE_ACCOUNT_USER_PREFIX}{namespace}:")
    if namespace == wellknown.KUBE_SYSTEM_NAMESPACE and name.startswith(SECRET_NAME_PREFIX):
        standing.judge_user(f"{wellknown.BOOTSTRAP_USER_PREFIX}{name.removeprefix(SECRET_NAME_PREFIX)}")


def _service_account(standing: WatchStanding, old: Object, new: Object | None) -> None:
    if _is_gone(old, new):
        standing.judge_user(username(old.metadata.namespace, old.metadata.name))


def _node(standing: WatchStanding, old: Object, new: Object | None) -> None:
    if _is_gone(old, new):
        # Its certificates, where deleted nodes are locked out, are a revocation's business.
        standing.judge_bound_to(old.metadata.name)


def _role(standing: WatchStanding, old: Any, new: Any) -> None:
    if new is None or new.rules != old.rules:
        standing.judge_rights(old.metadata.namespace)


def _role_binding(standing: WatchStanding, old: RoleBinding, new: RoleBinding | None) -> None:
    if _has_lost(old, new):
        standing.judge_rights(old.metadata.namespace)


def _cluster_role_binding(standing: WatchStanding, old: ClusterRoleBinding, new: ClusterRoleBinding | None) -> None:
    if not _has_lost(old, new):
        return
    names, groups = set(), set()
    for each in old.subjects or ():
        if each.kind == GROUP_KIND:
            groups.add(each.name)
        else:
            names.add(username(each.namespace, each.name) if each.kind == SERVICE_ACCOUNT_KIND else each.name)
    standing.judge_subjects(names, groups)


def _has_lost(old: RoleBinding | ClusterRoleBinding, new: RoleBinding | ClusterRoleBinding | None) -> bool:
    return new is None or (new.subjects, new.role_ref) != (old.subjects, old.role_ref)


_CHANGES: Mapping[str, Change] = {
    "secrets": _secret,
    "serviceaccounts": _service_account,
    "nodes": _node,
    "roles": _role,
    "clusterroles": _role,
    "rolebindings": _role_binding,
    "clusterrolebindings": _cluster_role_binding,
}
