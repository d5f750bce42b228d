"""ValidatingAdmissionPolicy: rules in expressions, in force where bindings say so.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/{generic,validating} (Kubernetes 1.36).
"""

from __future__ import annotations

import msgspec

from kubevouch.admission.audit_annotations import VALIDATION_FAILURE, annotate
from kubevouch.admission.dynamic.matching import NamespaceGetter, namespace_of
from kubevouch.admission.dynamic.policy_rules import Failure, Findings, PolicyRules
from kubevouch.admission.dynamic.policy_source import (
    EXEMPT,
    Misconfigured,
    ObjectsOf,
    PolicyHook,
    PolicySource,
    collect,
    namespace_tree,
    params_of,
)
from kubevouch.admission.dynamic.questions import Interview
from kubevouch.admission.dynamic.review import Shown, Tree
from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused
from kubevouch.api.admissionregistration_v1.policies import (
    AUDIT,
    DENY,
    WARN,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from kubevouch.authorization.interface import Authorizer
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import StatusCause
from kubevouch.machinery.scheme import GroupResource

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


Policies = PolicySource[ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, PolicyRules]
_Hook = PolicyHook[ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, PolicyRules]


def policies() -> Policies:
    """None yet."""
    return PolicySource(lambda policy: PolicyRules(policy.spec))


class _Denial(msgspec.Struct):
    policy: str
    binding: str
    failure: Failure

    def __str__(self) -> str:
        bound = f" with binding '{self.binding}'" if self.binding else ""
        return f"ValidatingAdmissionPolicy '{self.policy}'{bound} denied request: {self.failure.message}"


class _Outcome(msgspec.Struct):
    """What all policies found so far."""

    denials: list[_Denial] = msgspec.field(default_factory=list)
    recorded: list[Tree] = msgspec.field(default_factory=list)


class ValidatingAdmissionPolicyPlugin:
    """A validating plug-in."""

    name = "ValidatingAdmissionPolicy"

    def __init__(
        self, source: Policies, namespace_named: NamespaceGetter, objects_of: ObjectsOf, authorizer: Authorizer
    ) -> None:
        self._source = source
        self._namespace_named = namespace_named
        self._objects_of = objects_of
        self._authorizer = authorizer

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:  # noqa: ARG002
        return resource not in EXEMPT

    async def validate(self, request: Request) -> None:
        hooks = self._source.hooks(request)
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

    async def _apply(self, hook: _Hook, request: Request, outcome: _Outcome, interview: Interview) -> None:
        policy = hook.policy.metadata.name
        try:
            version = hook.matcher.match(request, self._namespace_named)
            if version is None:
                return
            objects = await params_of(hook.policy, self._objects_of)
            shown = await Shown(request, version).converted()
        except (APIStatusError, Misconfigured) as err:
            if not hook.rules.ignores_errors:
                outcome.denials.append(_Denial(policy, "", Failure(0, f"failed to configure policy: {err}")))
            return
        annotations: dict[str, list[str]] = {}
        for bound in hook.bindings:
            name = bound.binding.metadata.name
            try:
                if bound.matcher is not None and bound.matcher.match(request, self._namespace_named) is None:
                    continue
                params = await collect(objects, bound.binding.spec.param_ref, namespace_of(request))
            except (APIStatusError, Misconfigured) as err:
                if not hook.rules.ignores_errors:
                    outcome.denials.append(_Denial(policy, name, Failure(0, f"failed to configure binding: {err}")))
                continue
            variables = shown.variables(namespace_tree(request, self._namespace_named))
            for each in params:
                findings = await interview.settle(hook.rules.evaluate(variables, each, request.observer.monotonic))
                _note(policy, bound.binding, findings, request, outcome)
                for key, value in findings.annotations.items():
                    annotations.setdefault(key, []).append(value)
        for key, values in annotations.items():
            annotate(request, f"{policy}/{key}", ", ".join(dict.fromkeys(values)))


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
