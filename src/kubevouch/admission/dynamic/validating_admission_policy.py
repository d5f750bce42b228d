"""ValidatingAdmissionPolicy: rules in expressions, in force where bindings say so.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/{generic,validating} (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from kubevouch.admission.audit_annotations import VALIDATION_FAILURE, annotate
from kubevouch.admission.dynamic.matching import Matcher, NamespaceGetter, namespace_of
from kubevouch.admission.dynamic.policy_rules import Failure, Findings, PolicyRules
from kubevouch.admission.dynamic.questions import Interview
from kubevouch.admission.dynamic.review import Shown, Tree, object_tree
from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused
from kubevouch.api.admissionregistration_v1.policies import (
    AUDIT,
    DENY,
    WARN,
    ParamRef,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from kubevouch.api.catalog import (
    LOCAL_SUBJECT_ACCESS_REVIEWS,
    NAMESPACES,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from kubevouch.authorization.interface import Authorizer
from kubevouch.machinery import errors
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import StatusCause
from kubevouch.machinery.scheme import GroupResource, GroupVersion, GroupVersionKind, Resource
from kubevouch.machinery.text.selectors import SelectorError, label_selector_of

# Policies are not the subject of policies: else a bad one could not be taken back. Nor are the reviews on which
# authentication and authorization stand (pkg/kubeapiserver/admission/exclusion, Kubernetes 1.36).
_EXEMPT = frozenset(
    resource.group_resource
    for resource in (
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
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


class Objects(Protocol):
    """The objects of one kind, from a cache."""

    resource: Resource[Any]

    def get(self, namespace: str, name: str) -> Any | None: ...

    def list(self, namespace: str) -> Iterable[Any]: ...


ObjectsOf = Callable[[GroupVersionKind], Objects | None]


class _Misconfigured(Exception):
    """The policy or the binding cannot be used as it is."""


@dataclass(frozen=True, slots=True)
class _Binding:
    binding: ValidatingAdmissionPolicyBinding
    matcher: Matcher | None


@dataclass(frozen=True, slots=True)
class PolicyHook:
    """A policy with the bindings that put it in force."""

    policy: ValidatingAdmissionPolicy
    matcher: Matcher
    rules: PolicyRules
    bindings: tuple[_Binding, ...]


class PolicySource:
    """The policies that are in force, sorted by name."""

    def __init__(self) -> None:
        self._policies: dict[str, tuple[ValidatingAdmissionPolicy, PolicyRules]] = {}
        self._bindings: dict[str, ValidatingAdmissionPolicyBinding] = {}
        self.hooks: tuple[PolicyHook, ...] = ()

    def load_policies(self, policies: Iterable[ValidatingAdmissionPolicy]) -> None:
        """Replace all."""
        self._policies = {policy.metadata.name: (policy, PolicyRules(policy.spec)) for policy in policies}
        self._rebuild()

    def load_bindings(self, bindings: Iterable[ValidatingAdmissionPolicyBinding]) -> None:
        """Replace all."""
        self._bindings = {binding.metadata.name: binding for binding in bindings}
        self._rebuild()

    def policy_changed(self, name: str, policy: ValidatingAdmissionPolicy | None) -> None:
        """A policy was written, or None: it has gone."""
        if policy is None:
            self._policies.pop(name, None)
        else:
            self._policies[name] = (policy, PolicyRules(policy.spec))
        self._rebuild()

    def binding_changed(self, name: str, binding: ValidatingAdmissionPolicyBinding | None) -> None:
        """As :meth:`policy_changed`."""
        if binding is None:
            self._bindings.pop(name, None)
        else:
            self._bindings[name] = binding
        self._rebuild()

    def _rebuild(self) -> None:
        bound: dict[str, list[_Binding]] = {}
        for _, binding in sorted(self._bindings.items()):
            match = binding.spec.match_resources
            matcher = None if match is None else Matcher.of(match)
            bound.setdefault(binding.spec.policy_name, []).append(_Binding(binding, matcher))
        self.hooks = tuple(
            PolicyHook(policy, Matcher.of(policy.spec.match_constraints), rules, tuple(bound[name]))
            for name, (policy, rules) in sorted(self._policies.items())
            if name in bound and policy.spec.match_constraints is not None
        )


@dataclass(slots=True)
class _Denial:
    policy: str
    binding: str
    failure: Failure

    def __str__(self) -> str:
        bound = f" with binding '{self.binding}'" if self.binding else ""
        return f"ValidatingAdmissionPolicy '{self.policy}'{bound} denied request: {self.failure.message}"


@dataclass(slots=True)
class _Outcome:
    """What all policies found so far."""

    denials: list[_Denial] = field(default_factory=list)
    recorded: list[Tree] = field(default_factory=list)


class ValidatingAdmissionPolicyPlugin:
    """A validating plug-in."""

    name = "ValidatingAdmissionPolicy"

    def __init__(
        self, source: PolicySource, namespace_named: NamespaceGetter, objects_of: ObjectsOf, authorizer: Authorizer
    ) -> None:
        self._source = source
        self._namespace_named = namespace_named
        self._objects_of = objects_of
        self._authorizer = authorizer

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:  # noqa: ARG002
        return resource not in _EXEMPT

    async def validate(self, request: Request) -> None:
        hooks = self._source.hooks
        if not hooks:
            return
        outcome = _Outcome()
        interview = Interview(self._authorizer, request.user)
        for hook in hooks:
            await self._apply(hook, request, outcome, interview)
        if outcome.recorded:
            annotate(request, VALIDATION_FAILURE, json_codec.encode_in_order(outcome.recorded).decode())
        if outcome.denials:
            raise _refusal(request, outcome.denials[0])

    async def _apply(self, hook: PolicyHook, request: Request, outcome: _Outcome, interview: Interview) -> None:
        policy = hook.policy.metadata.name
        try:
            version = hook.matcher.match(request, self._namespace_named)
            if version is None:
                return
            objects = self._params_of(hook)
        except (APIStatusError, _Misconfigured) as err:
            if not hook.rules.ignores_errors:
                outcome.denials.append(_Denial(policy, "", Failure(0, f"failed to configure policy: {err}")))
            return
        shown = Shown(request, version)
        annotations: dict[str, list[str]] = {}
        for bound in hook.bindings:
            name = bound.binding.metadata.name
            try:
                if bound.matcher is not None and bound.matcher.match(request, self._namespace_named) is None:
                    continue
                params = _collect(objects, bound.binding.spec.param_ref, namespace_of(request))
            except (APIStatusError, _Misconfigured) as err:
                if not hook.rules.ignores_errors:
                    outcome.denials.append(_Denial(policy, name, Failure(0, f"failed to configure binding: {err}")))
                continue
            variables = shown.variables(self._namespace(request))
            for each in params:
                findings = await interview.settle(hook.rules.evaluate(variables, each, request.observer.monotonic))
                _note(policy, bound.binding, findings, request, outcome)
                for key, value in findings.annotations.items():
                    annotations.setdefault(key, []).append(value)
        for key, values in annotations.items():
            annotate(request, f"{policy}/{key}", ", ".join(dict.fromkeys(values)))

    def _namespace(self, request: Request) -> Tree | None:
        if not request.namespace:
            return None
        namespace = self._namespace_named(request.namespace)
        if namespace is None:
            raise errors.not_found(NAMESPACES.group_resource, request.namespace)
        return object_tree(namespace, NAMESPACES)

    def _params_of(self, hook: PolicyHook) -> Objects | None:
        """Where the policy's parameters are; None when it has none."""
        kind = hook.policy.spec.param_kind
        if kind is None:
            return None
        group, version = GroupVersion.parse(kind.api_version)
        gvk = GroupVersionKind(group, version, kind.kind)
        objects = self._objects_of(gvk)
        if objects is None:
            raise _Misconfigured(f"failed to find resource referenced by paramKind: '{gvk}'")
        return objects


def _collect(objects: Objects | None, ref: ParamRef | None, namespace: str) -> Sequence[Tree | None]:
    """The parameters of a binding; ``[None]`` evaluates once without any.

    Raises:
        _Misconfigured: none are found and that is a failure, or the reference cannot be meant.
    """
    if objects is None or ref is None:
        return [None]
    if objects.resource.namespaced:
        where = ref.namespace or namespace
        if not where:
            raise _Misconfigured(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif ref.namespace:
        raise _Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    else:
        where = ""
    if ref.name:
        only = objects.get(where, ref.name)
        found = [] if only is None else [only]
    else:
        try:
            selector = label_selector_of(ref.selector)
        except SelectorError as err:
            raise _Misconfigured(str(err)) from err
        found = [obj for obj in objects.list(where) if selector.matches(obj.metadata.labels)]
    if not found and ref.parameter_not_found_action == DENY:
        raise _Misconfigured("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [object_tree(obj, objects.resource) for obj in found]


def _note(
    policy: str, binding: ValidatingAdmissionPolicyBinding, findings: Findings, request: Request, outcome: _Outcome
) -> None:
    name, actions = binding.metadata.name, binding.spec.validation_actions
    report = request.observer.policy
    for failure in findings.ignored:
        report(policy, name, failure.error, "allow", failure.seconds)
    for failure in findings.failures:
        for action in actions:
            report(policy, name, failure.error, action.lower(), failure.seconds)
        if DENY in actions:
            outcome.denials.append(_Denial(policy, name, failure))
        if AUDIT in actions:
            outcome.recorded.append(
                {
                    "message": failure.message,
                    "policy": binding.spec.policy_name,
                    "binding": name,
                    "expressionIndex": failure.index,
                    "validationActions": actions,
                }
            )
        if WARN in actions:
            text = (
                f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{name}': {failure.message}"
            )
            request.warnings.append(text)
    for failure in findings.errors:
        report(policy, name, failure.error, "deny", failure.seconds)
        outcome.denials.append(_Denial(policy, name, failure))


def _refusal(request: Request, denial: _Denial) -> APIStatusError:
    """As a 403 in everything but reason and code, which are the validation's."""
    text, reason = str(denial), denial.failure.reason
    status = refused(request, text).status
    details = status.details
    assert details is not None  # errors.forbidden always says what it is about
    details = msgspec.structs.replace(details, causes=[*details.causes, StatusCause(message=text)])
    return APIStatusError(msgspec.structs.replace(status, reason=reason, code=_CODES.get(reason, 422), details=details))
