"""Policies that are in force, the bindings that put them there, and their parameters.

    Misconfigured         the policy or the binding cannot be used as it is

Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kubevouch.admission.dynamic.matching import Matcher, NamespaceGetter
from kubevouch.admission.dynamic.review import Tree, object_tree
from kubevouch.admission.interface import Request
from kubevouch.api.admissionregistration_v1.matching import ANY, MatchResources
from kubevouch.api.admissionregistration_v1.policies import DENY, ParamKind, ParamRef
from kubevouch.api.catalog import (
    LOCAL_SUBJECT_ACCESS_REVIEWS,
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    NAMESPACES,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from kubevouch.machinery import errors
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.scheme import GroupVersion, GroupVersionKind, Resource
from kubevouch.machinery.text.selectors import SelectorError, label_selector_of

# Policies are not the subject of policies: else a bad one could not be taken back. Nor are the reviews on which
# authentication and authorization stand (pkg/kubeapiserver/admission/exclusion, Kubernetes 1.36).
EXEMPT = frozenset(
    resource.group_resource
    for resource in (
        MUTATING_ADMISSION_POLICIES,
        MUTATING_ADMISSION_POLICY_BINDINGS,
        VALIDATING_ADMISSION_POLICIES,
        VALIDATING_ADMISSION_POLICY_BINDINGS,
        SELF_SUBJECT_REVIEWS,
        TOKEN_REVIEWS,
        LOCAL_SUBJECT_ACCESS_REVIEWS,
        SELF_SUBJECT_ACCESS_REVIEWS,
        SELF_SUBJECT_RULES_REVIEWS,
        SUBJECT_ACCESS_REVIEWS,
    )
)


class Objects(Protocol):
    """The objects of one kind, from a cache; those of a custom kind may have to be brought to its version.

    Methods raise ``APIStatusError`` when that fails.
    """

    resource: Resource[Any]

    async def get(self, namespace: str, name: str) -> Any | None: ...

    async def list(self, namespace: str) -> Sequence[Any]: ...


ObjectsOf = Callable[[GroupVersionKind], Awaitable[Objects | None]]


class Misconfigured(Exception):
    """The policy or the binding cannot be used as it is."""


class PolicySpec(Protocol):
    """What policies have in common."""

    @property
    def match_constraints(self) -> MatchResources | None: ...

    @property
    def param_kind(self) -> ParamKind | None: ...


class Policy(Protocol):
    """A policy."""

    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def spec(self) -> PolicySpec: ...


class BindingSpec(Protocol):
    """What bindings have in common."""

    @property
    def policy_name(self) -> str: ...

    @property
    def param_ref(self) -> ParamRef | None: ...

    @property
    def match_resources(self) -> MatchResources | None: ...


class Binding(Protocol):
    """A binding."""

    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def spec(self) -> BindingSpec: ...


P = TypeVar("P", bound=Policy)
B = TypeVar("B", bound=Binding)
R = TypeVar("R")


class Bound(msgspec.Struct, Generic[B], frozen=True):
    """A binding, and what it narrows the policy to."""

    binding: B
    matcher: Matcher | None


class PolicyHook(msgspec.Struct, Generic[P, B, R], frozen=True):
    """A policy with the bindings that put it in force."""

    policy: P
    matcher: Matcher
    rules: R
    bindings: tuple[Bound[B], ...]


class PolicySource(Generic[P, B, R]):
    """The policies that are in force, sorted by name.

    Args:
        rules_of: the expressions of a policy.
    """

    def __init__(self, rules_of: Callable[[P], R]) -> None:
        self._rules_of = rules_of
        self._policies: dict[str, tuple[P, R]] = {}
        self._bindings: dict[str, B] = {}
        self._hooks: tuple[PolicyHook[P, B, R], ...] = ()
        # Of the hooks, those for any resource, and where those are that name one.
        self._for_any: tuple[PolicyHook[P, B, R], ...] = ()
        self._by_plural: dict[str, list[int]] = {}

    def hooks(self, request: Request) -> tuple[PolicyHook[P, B, R], ...]:
        """Those that may match, in their order; their matchers still have to be asked."""
        plurals = {each.resource.plural for each in request.versions}
        if len(plurals) != 1:
            return self._hooks
        named = self._by_plural.get(plurals.pop())
        if named is None:
            return self._for_any
        return tuple(self._hooks[at] for at in sorted({*named, *self._by_plural.get(ANY, ())}))

    def load_policies(self, policies: Iterable[P]) -> None:
        """Replace all."""
        self._policies = {policy.metadata.name: (policy, self._rules_of(policy)) for policy in policies}
        self._rebuild()

    def load_bindings(self, bindings: Iterable[B]) -> None:
        """Replace all."""
        self._bindings = {binding.metadata.name: binding for binding in bindings}
        self._rebuild()

    def policy_changed(self, name: str, policy: P | None) -> None:
        """A policy was written, or None: it has gone."""
        if policy is None:
            self._policies.pop(name, None)
        else:
            self._policies[name] = (policy, self._rules_of(policy))
        self._rebuild()

    def binding_changed(self, name: str, binding: B | None) -> None:
        """As :meth:`policy_changed`."""
        if binding is None:
            self._bindings.pop(name, None)
        else:
            self._bindings[name] = binding
        self._rebuild()

    def _rebuild(self) -> None:
        bound: dict[str, list[Bound[B]]] = {}
        for _, binding in sorted(self._bindings.items()):
            match = binding.spec.match_resources
            matcher = None if match is None else Matcher.of(match)
            bound.setdefault(binding.spec.policy_name, []).append(Bound(binding, matcher))
        self._hooks = tuple(
            PolicyHook(policy, Matcher.of(policy.spec.match_constraints), rules, tuple(bound[name]))
            for name, (policy, rules) in sorted(self._policies.items())
            if name in bound and policy.spec.match_constraints is not None
        )
        # Mostly policies are about few resources, and every write asks for those about its own.
        self._by_plural = {}
        for at, hook in enumerate(self._hooks):
            for plural in hook.matcher.plurals:
                self._by_plural.setdefault(plural, []).append(at)
        self._for_any = tuple(self._hooks[at] for at in self._by_plural.get(ANY, ()))


async def params_of(policy: Policy, objects_of: ObjectsOf) -> Objects | None:
    """Where the policy's parameters are; None when it has none.

    Raises:
        Misconfigured: their kind is not served.
    """
    kind = policy.spec.param_kind
    if kind is None:
        return None
    group, version = GroupVersion.parse(kind.api_version)
    gvk = GroupVersionKind(group, version, kind.kind)
    objects = await objects_of(gvk)
    if objects is None:
        raise Misconfigured(f"failed to find resource referenced by paramKind: '{gvk}'")
    return objects


async def collect(objects: Objects | None, ref: ParamRef | None, namespace: str) -> Sequence[Tree | None]:
    """The parameters of a binding; ``[None]`` evaluates once without any.

    Raises:
        Misconfigured: none are found and that is a failure, or the reference cannot be meant.
    """
    if objects is None or ref is None:
        return [None]
    if objects.resource.namespaced:
        where = ref.namespace or namespace
        if not where:
            raise Misconfigured(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif ref.namespace:
        raise Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    else:
        where = ""
    if ref.name:
        only = await objects.get(where, ref.name)
        found = [] if only is None else [only]
    else:
        try:
            selector = label_selector_of(ref.selector)
        except SelectorError as err:
            raise Misconfigured(str(err)) from err
        found = [obj for obj in await objects.list(where) if selector.matches(obj.metadata.labels)]
    if not found and ref.parameter_not_found_action == DENY:
        raise Misconfigured("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [object_tree(obj, objects.resource) for obj in found]


def namespace_tree(request: Request, namespace_named: NamespaceGetter) -> Tree | None:
    """The namespace of the object as expressions see it; None without one. Raises ``APIStatusError``: 404."""
    if not request.namespace:
        return None
    namespace = namespace_named(request.namespace)
    if namespace is None:
        raise errors.not_found(NAMESPACES.group_resource, request.namespace)
    return object_tree(namespace, NAMESPACES)
