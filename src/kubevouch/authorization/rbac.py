"""Role-based access control: who is bound to which rules.

Source: plugin/pkg/auth/authorizer/rbac, pkg/registry/rbac/validation/rule.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kubevouch.api.rbac_v1 import (
    CLUSTER_ROLE_KIND,
    GROUP_KIND,
    ROLE_KIND,
    SERVICE_ACCOUNT_KIND,
    USER_KIND,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from kubevouch.authentication.aggregate import aggregate
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Decision, Rule, Rules, Verdict
from kubevouch.authorization.rbac_rules import CompiledRules
from kubevouch.machinery.text.gotext import quote
from kubevouch.storage.watchcache.objects import CacheEvent
from kubevouch.storage.watchcache.resource_cache import ResourceCache
from kubevouch.wellknown import SERVICE_ACCOUNT_USER_PREFIX

# Bounds the memory that many users, or one with many different requests, can take. A decision is about 300 bytes.
MAX_USERS = 20_000
MAX_DECISIONS = 256
MAX_DECISIONS_IN_ALL = 50_000
# Names in a review are as long as their author likes. Longer questions, and users, are answered and not remembered.
MAX_QUESTION = 512
MAX_USER = 2048

# Namespace and name; cluster-scoped objects have no namespace.
_Key = tuple[str, str]
# Whether it is a group, and the name of user or group. A service account is the user that it acts as.
_Identity = tuple[bool, str]


class RoleNotFoundError(LookupError):
    """A binding names a role that does not exist; ``str()`` is Kubernetes' sentence."""

    def __init__(self, role_ref: RoleRef) -> None:
        kind = role_ref.kind.lower()
        super().__init__(
            f"{kind}.rbac.authorization.k8s.io {quote(role_ref.name)} not found"
            if role_ref.kind in (ROLE_KIND, CLUSTER_ROLE_KIND)
            else f"unsupported role reference kind: {quote(role_ref.kind)}"
        )
        self.role_ref = role_ref


class _Binding(msgspec.Struct, frozen=True, eq=False):
    namespace: str
    name: str
    role_ref: RoleRef
    subjects: tuple[tuple[_Identity, Subject], ...]

    @classmethod
    def of(cls, binding: RoleBinding | ClusterRoleBinding) -> _Binding:
        namespace = binding.metadata.namespace
        identities = ((_identity(subject, namespace), subject) for subject in binding.subjects)
        subjects = tuple((identity, subject) for identity, subject in identities if identity is not None)
        return cls(namespace, binding.metadata.name, binding.role_ref, subjects)

    def reason(self, identities: set[_Identity]) -> str:
        """The audit reason; of several subjects that match, the first is named."""
        subject = next(subject for identity, subject in self.subjects if identity in identities)
        who = subject.name
        if subject.kind == SERVICE_ACCOUNT_KIND:
            who = f"{subject.name}/{subject.namespace or self.namespace}"
        kind, name = "ClusterRoleBinding", self.name
        if self.namespace:
            kind, name = "RoleBinding", f"{self.name}/{self.namespace}"
        role = f"{self.role_ref.kind} {quote(self.role_ref.name)}"
        return f"RBAC: allowed by {kind} {quote(name)} of {role} to {subject.kind} {quote(who)}"


def _identity(subject: Subject, namespace: str) -> _Identity | None:
    if subject.kind == USER_KIND:
        return False, subject.name
    if subject.kind == GROUP_KIND:
        return True, subject.name
    home = subject.namespace or namespace
    if subject.kind == SERVICE_ACCOUNT_KIND and home:
        return False, f"{SERVICE_ACCOUNT_USER_PREFIX}{home}:{subject.name}"
    return None


class _Scope(msgspec.Struct):
    """What a user is granted cluster-wide or in one namespace, in the order of the bindings' names."""

    grants: list[tuple[CompiledRules, Verdict]] = msgspec.field(default_factory=list)
    faults: list[str] = msgspec.field(default_factory=list)

    def allow_resource(self, attributes: Attributes) -> Verdict | None:
        for rules, verdict in self.grants:
            if rules.allows_resource(
                attributes.verb, attributes.group, attributes.resource, attributes.subresource, attributes.name
            ):
                return verdict
        return None


class _UserGrants(msgspec.Struct):
    cluster: _Scope
    namespaces: dict[str, _Scope]
    decisions: dict[tuple[str, ...], Verdict] = msgspec.field(default_factory=dict)


class RBACPolicy:
    """All roles and bindings, indexed by who is bound.

    A change drops what was worked out for users; the next request of each works it out again from its own bindings.
    """

    def __init__(self) -> None:
        self._roles: dict[_Key, CompiledRules] = {}
        self._bindings: dict[_Key, _Binding] = {}
        self._by_subject: dict[_Identity, dict[_Key, _Binding]] = {}
        self._users: dict[tuple[str, tuple[str, ...]], _UserGrants] = {}
        self._decisions = 0  # of all users; too high rather than too low

    # -------------------------------------------------------------- changes

    def put_role(self, role: Role | ClusterRole) -> None:
        """A role was made or changed. A ClusterRole is told by its type."""
        self._roles[_role_key(role)] = CompiledRules(role.rules or ())
        self._forget()

    def remove_role(self, role: Role | ClusterRole) -> None:
        self._roles.pop(_role_key(role), None)
        self._forget()

    def put_binding(self, binding: RoleBinding | ClusterRoleBinding) -> None:
        self._unindex(_binding_key(binding))
        indexed = _Binding.of(binding)
        self._bindings[_binding_key(binding)] = indexed
        for identity, _ in indexed.subjects:
            self._by_subject.setdefault(identity, {})[_binding_key(binding)] = indexed
        self._forget()

    def remove_binding(self, binding: RoleBinding | ClusterRoleBinding) -> None:
        self._unindex(_binding_key(binding))
        self._forget()

    def _unindex(self, key: _Key) -> None:
        indexed = self._bindings.pop(key, None)
        if indexed is None:
            return
        for identity, _ in indexed.subjects:
            same = self._by_subject.get(identity)
            if same is not None:
                same.pop(key, None)
                if not same:
                    del self._by_subject[identity]

    def clear(self) -> None:
        """Forget everything, before all of it is put in again."""
        for table in (self._roles, self._bindings, self._by_subject):
            table.clear()
        self._forget()

    def _forget(self) -> None:
        """What was worked out is not true any more."""
        self._users.clear()
        self._decisions = 0

    # -------------------------------------------------------------- questions

    def decide(self, attributes: Attributes) -> Verdict:
        """ALLOW with the binding that allows, else NO_OPINION with the roles that bindings of the user miss."""
        user = attributes.user
        grants = self._users.get((user.name, user.groups))
        if grants is None:
            grants = self._remember(user)
        question = (
            (attributes.verb, attributes.path)
            if attributes.path
            else (
                attributes.verb,
                attributes.group,
                attributes.resource,
                attributes.subresource,
                attributes.namespace,
                attributes.name,
            )
        )
        verdict = grants.decisions.get(question)
        if verdict is None:
            verdict = _decide(grants, attributes)
            if sum(map(len, question)) <= MAX_QUESTION:
                self._remember_decision(grants, question, verdict)
        return verdict

    def _remember_decision(self, grants: _UserGrants, question: tuple[str, ...], verdict: Verdict) -> None:
        if self._decisions >= MAX_DECISIONS_IN_ALL:
            self._forget()
        if len(grants.decisions) >= MAX_DECISIONS:
            self._decisions -= len(grants.decisions)
            grants.decisions.clear()
        grants.decisions[question] = verdict
        self._decisions += 1

    def rules_of(self, user: UserInfo, namespace: str) -> tuple[list[PolicyRule], list[str]]:
        """All rules of ``user`` in a namespace, or cluster-wide for an empty one, and why some could not be found."""
        rules: list[PolicyRule] = []
        faults: list[str] = []
        for binding in self._bindings_of(_identities(user)):
            if binding.namespace in ("", namespace):
                try:
                    rules += self.role_rules(binding.role_ref, binding.namespace).rules
                except RoleNotFoundError as err:
                    faults.append(str(err))
        return rules, faults

    def role_rules(self, role_ref: RoleRef, namespace: str) -> CompiledRules:
        """The rules of the role that a binding in ``namespace`` refers to.

        Raises:
            RoleNotFoundError: there is no such role.
        """
        key = None
        if role_ref.kind == CLUSTER_ROLE_KIND:
            key = ("", role_ref.name)
        elif role_ref.kind == ROLE_KIND and namespace:
            key = (namespace, role_ref.name)
        role = self._roles.get(key) if key is not None else None
        if role is None:
            raise RoleNotFoundError(role_ref)
        return role

    # -------------------------------------------------------------- working out a user

    def _remember(self, user: UserInfo) -> _UserGrants:
        grants = self._grants_of(user)
        if len(user.name) + sum(map(len, user.groups)) <= MAX_USER:
            if len(self._users) >= MAX_USERS:
                self._decisions -= len(self._users.pop(next(iter(self._users))).decisions)
            self._users[user.name, user.groups] = grants
        return grants

    def _grants_of(self, user: UserInfo) -> _UserGrants:
        identities = _identities(user)
        scopes: dict[str, _Scope] = {"": _Scope()}
        for binding in self._bindings_of(identities):
            scope = scopes.setdefault(binding.namespace, _Scope())
            try:
                rules = self.role_rules(binding.role_ref, binding.namespace)
            except RoleNotFoundError as err:
                scope.faults.append(str(err))
                continue
            # A second binding of the same role in the same place adds nothing.
            if all(known is not rules for known, _ in scope.grants):
                scope.grants.append((rules, Verdict(Decision.ALLOW, binding.reason(identities))))
        return _UserGrants(scopes.pop(""), scopes)

    def _bindings_of(self, identities: set[_Identity]) -> Iterator[_Binding]:
        """ClusterRoleBindings first, then by namespace; by name within."""
        bindings: dict[_Key, _Binding] = {}
        for identity in identities:
            bindings.update(self._by_subject.get(identity, {}))
        return (bindings[key] for key in sorted(bindings))


def _identities(user: UserInfo) -> set[_Identity]:
    return {(False, user.name), *((True, group) for group in user.groups)}


def _role_key(role: Role | ClusterRole) -> _Key:
    return ("" if isinstance(role, ClusterRole) else role.metadata.namespace, role.metadata.name)


def _binding_key(binding: RoleBinding | ClusterRoleBinding) -> _Key:
    return binding.metadata.namespace, binding.metadata.name


def _decide(grants: _UserGrants, attributes: Attributes) -> Verdict:
    if attributes.path:
        for rules, verdict in grants.cluster.grants:
            if rules.allows_url(attributes.verb, attributes.path):
                return verdict
        return _no_opinion(grants.cluster.faults)
    allowed = grants.cluster.allow_resource(attributes)
    if allowed is not None:
        return allowed
    scope = grants.namespaces.get(attributes.namespace)
    if scope is None:
        return _no_opinion(grants.cluster.faults)
    return scope.allow_resource(attributes) or _no_opinion(grants.cluster.faults + scope.faults)


_NO_OPINION = Verdict(Decision.NO_OPINION)


def _no_opinion(faults: list[str]) -> Verdict:
    if not faults:
        return _NO_OPINION
    return Verdict(Decision.NO_OPINION, f"RBAC: {aggregate(faults)}")


class RBACAuthorizer:
    """Answers from a policy that somebody else keeps in step with the store (:func:`follow`)."""

    def __init__(self, policy: RBACPolicy) -> None:
        self.policy = policy

    async def authorize(self, attributes: Attributes) -> Verdict:
        return self.policy.decide(attributes)

    async def rules_for(self, user: UserInfo, namespace: str) -> Rules:
        rules, faults = self.policy.rules_of(user, namespace)
        return Rules(tuple(listed for rule in rules for listed in _listed(rule)), error=aggregate(faults))


def _listed(rule: PolicyRule) -> Iterator[Rule]:
    verbs = tuple(rule.verbs or ())
    if rule.resources:
        yield Rule(verbs, tuple(rule.api_groups), tuple(rule.resources), tuple(rule.resource_names))
    if rule.non_resource_urls:
        yield Rule(verbs, non_resource_urls=tuple(rule.non_resource_urls))


# ------------------------------------------------------------------ in step with the store


class RBACCaches(msgspec.Struct, frozen=True):
    """Where the four kinds are read."""

    roles: ResourceCache[Role]
    cluster_roles: ResourceCache[ClusterRole]
    role_bindings: ResourceCache[RoleBinding]
    cluster_role_bindings: ResourceCache[ClusterRoleBinding]


def follow(policy: RBACPolicy, caches: RBACCaches) -> None:
    """Fill ``policy`` from the caches, and change it with every event from now on."""
    reload(policy, caches)
    for roles in (caches.roles, caches.cluster_roles):
        roles.on_event(_handler(policy.put_role, policy.remove_role))
    for bindings in (caches.role_bindings, caches.cluster_role_bindings):
        bindings.on_event(_handler(policy.put_binding, policy.remove_binding))


def reload(policy: RBACPolicy, caches: RBACCaches) -> None:
    """Fill ``policy`` anew, because the caches were loaded without events."""
    policy.clear()
    for roles in (caches.roles, caches.cluster_roles):
        for stored in roles.values():
            policy.put_role(stored.obj)
    for bindings in (caches.role_bindings, caches.cluster_role_bindings):
        for bound in bindings.values():
            policy.put_binding(bound.obj)


def _handler(put: Callable[[Any], None], remove: Callable[[Any], None]) -> Callable[[CacheEvent[Any]], None]:
    def handle(event: CacheEvent[Any]) -> None:
        if event.current is not None:
            put(event.current.obj)
        elif event.previous is not None:
            remove(event.previous.obj)

    return handle
