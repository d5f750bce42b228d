"""Nobody may grant what he does not hold: the checks before roles and bindings are written.

They run before the object is validated, and not for deletions. Source: pkg/registry/rbac/escalation_check.go,
pkg/registry/rbac/*/policybased, pkg/registry/rbac/validation/rule.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from kubevouch.api.rbac_v1 import (
    CLUSTER_ROLE_KIND,
    GROUP,
    ROLE_KIND,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    combination_errors,
    combinations,
)
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Authorizer, Decision
from kubevouch.authorization.rbac import RBACPolicy, RoleNotFoundError
from kubevouch.authorization.rbac_cover import compact, describe, quoted_slice, uncovered
from kubevouch.machinery import errors
from kubevouch.machinery.meta import Object, replace_metadata
from kubevouch.machinery.scheme import GroupResource, GroupVersionKind
from kubevouch.machinery.text.gotext import quote
from kubevouch.util.worker import elsewhere
from kubevouch.wellknown import MASTERS_GROUP

ROLES = GroupResource(GROUP, "roles")
CLUSTER_ROLES = GroupResource(GROUP, "clusterroles")
ROLE_BINDINGS = GroupResource(GROUP, "rolebindings")
CLUSTER_ROLE_BINDINGS = GroupResource(GROUP, "clusterrolebindings")

AGGREGATION_NEEDS_ADMIN = "must have cluster-admin privileges to use the aggregationRule"

# Comparisons of a right with a rule that is held, on the event loop: some 10 ms.
COMPARED_AT_ONCE = 10_000

_EVERYTHING = (
    PolicyRule(verbs=["*"], api_groups=["*"], resources=["*"]),
    PolicyRule(verbs=["*"], non_resource_urls=["*"]),
)

T = TypeVar("T", bound=Object)


class EscalationGuard:
    """Checks writes of the four kinds against the rights of whoever writes.

    Args:
        policy: the rules that users hold. What other authorizers allow does not count as held.
        authorizer: asked for the verbs ``escalate`` and ``bind``.
    """

    def __init__(self, policy: RBACPolicy, authorizer: Authorizer) -> None:
        self._policy = policy
        self._authorizer = authorizer

    async def check_role(self, user: UserInfo, role: Role | ClusterRole, old: Role | ClusterRole | None = None) -> None:
        """Before ``role`` is created, or put in place of ``old``.

        Raises:
            APIStatusError: 403; 422 for more rights than are compared.
        """
        if MASTERS_GROUP in user.groups or (old is not None and only_lifecycle_changes(role, old)):
            return
        resource = CLUSTER_ROLES if isinstance(role, ClusterRole) else ROLES
        namespace = role.metadata.namespace
        # As in the request: a creation names no object, so a rule with resourceNames cannot allow it.
        name = "" if old is None else old.metadata.name
        if await self._may(user, "escalate", resource, namespace, name):
            return
        name = role.metadata.name
        too_many = combination_errors(role.rules or [])
        if too_many:
            raise errors.invalid(GroupVersionKind(GROUP, "v1", type(role).__name__), name, too_many)
        await self._confirm(user, namespace, role.rules or [], resource, name)
        if any(isinstance(each, ClusterRole) and each.aggregation_rule is not None for each in (role, old)):
            held, _ = self._policy.rules_of(user, namespace)
            if uncovered(held, _EVERYTHING):
                raise errors.forbidden(resource, name, AGGREGATION_NEEDS_ADMIN)

    async def check_binding(
        self,
        user: UserInfo,
        binding: RoleBinding | ClusterRoleBinding,
        old: RoleBinding | ClusterRoleBinding | None = None,
    ) -> None:
        """Before ``binding``, with its defaults set, is created or put in place of ``old``.

        Raises:
            APIStatusError: 403, or 404 for a role that does not exist.
        """
        if MASTERS_GROUP in user.groups or (old is not None and only_lifecycle_changes(binding, old)):
            return
        resource = CLUSTER_ROLE_BINDINGS if isinstance(binding, ClusterRoleBinding) else ROLE_BINDINGS
        namespace, role_ref = binding.metadata.namespace, binding.role_ref
        plural = {CLUSTER_ROLE_KIND: "clusterroles", ROLE_KIND: "roles"}.get(role_ref.kind)
        if plural is not None and await self._may(
            user, "bind", GroupResource(role_ref.api_group, plural), namespace, role_ref.name
        ):
            return
        try:
            rules = self._policy.role_rules(role_ref, namespace).rules
        except RoleNotFoundError as err:
            if plural is None:
                raise errors.untyped(str(err)) from err
            # Kubernetes names the resource of the request, though it is the role that is missing.
            raise errors.not_found(resource, role_ref.name) from err
        await self._confirm(user, namespace, rules, resource, binding.metadata.name)

    async def _may(self, user: UserInfo, verb: str, resource: GroupResource, namespace: str, name: str) -> bool:
        attributes = Attributes(user, verb, resource.group, "v1", resource.resource, namespace=namespace, name=name)
        return (await self._authorizer.authorize(attributes)).decision is Decision.ALLOW

    async def _confirm(
        self, user: UserInfo, namespace: str, rules: Sequence[PolicyRule], resource: GroupResource, name: str
    ) -> None:
        held, faults = self._policy.rules_of(user, namespace)
        compare = partial(_missing, held, rules)
        comparisons = (combinations(rules) + len(rules)) * (len(held) + 1)
        lines = await elsewhere(compare) if comparisons > COMPARED_AT_ONCE else compare()
        if not lines:
            return
        why = (
            f"user {quote(user.name)} (groups={quoted_slice(user.groups)}) is attempting to grant RBAC permissions "
            f"not currently held:\n{lines}"
        )
        if faults:
            why += f"; resolution errors: [{' '.join(faults)}]"
        raise errors.forbidden(resource, name, why)


def _missing(held: Sequence[PolicyRule], rules: Sequence[PolicyRule]) -> str:
    """The rules that are not held, a line each."""
    return "\n".join(sorted({describe(rule) for rule in compact(uncovered(held, rules))}))


def only_lifecycle_changes(new: T, old: T) -> bool:
    """True if an update touches nothing but what the garbage collector needs to let an object go."""
    metadata = old.metadata
    unchanged: T = replace_metadata(
        new,
        owner_references=metadata.owner_references,
        finalizers=metadata.finalizers,
        managed_fields=metadata.managed_fields,
    )
    return unchanged == old
