"""What a ValidatingAdmissionPolicy says of one request; no I/O.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go, plugin/cel/composition.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import msgspec

from kubevouch.admission.dynamic.match_conditions import ConditionError, MatchConditions
from kubevouch.admission.dynamic.policy_expressions import (
    INVALID_ERROR,
    Evaluation,
    Expression,
    compiled,
    compiled_variables,
    error_of,
    type_of,
)
from kubevouch.admission.dynamic.questions import Asking, Work
from kubevouch.admission.dynamic.review import Tree
from kubevouch.admission.observer import NO_ERROR, UNOBSERVED
from kubevouch.api.admissionregistration_v1.expressions import PARAMS
from kubevouch.api.admissionregistration_v1.matching import IGNORE
from kubevouch.api.admissionregistration_v1.policies import ValidatingAdmissionPolicySpec, Validation
from kubevouch.cel.environment import BOOL, NULL, STRING, EvaluationError, OutOfBudget

MAX_MESSAGE_BYTES = 5 * 1024
MAX_ANNOTATION_BYTES = 10 * 1024
INVALID = "Invalid"

Monotonic = Callable[[], float]


class Failure(msgspec.Struct, frozen=True):
    """A validation that does not hold, or cannot be evaluated.

    Args:
        index: its place in the policy.
        error: for metrics: what kind of error it is, if any.
        seconds: how long it took.
    """

    index: int
    message: str
    reason: str = INVALID
    error: str = NO_ERROR
    seconds: float = 0.0


class Findings(msgspec.Struct):
    """What one policy with one set of parameters finds.

    Args:
        failures: what the binding's actions follow from.
        errors: what refuses the request whatever the binding's actions are.
        ignored: errors that the failure policy forgives.
        annotations: for the audit event, without the policy's name.
    """

    failures: list[Failure] = msgspec.field(default_factory=list)
    errors: list[Failure] = msgspec.field(default_factory=list)
    ignored: list[Failure] = msgspec.field(default_factory=list)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class PolicyRules:
    """The expressions of a policy, compiled when they are first asked for."""

    def __init__(self, spec: ValidatingAdmissionPolicySpec) -> None:
        self._spec = spec
        self._is_compiled = False
        self._has_params = spec.param_kind is not None
        self._conditions = MatchConditions(spec.match_conditions, spec.failure_policy, params=self._has_params)

    @property
    def ignores_errors(self) -> bool:
        return self._spec.failure_policy == IGNORE

    @cached_property
    def _variables(self) -> list[tuple[str, Expression]]:
        return compiled_variables(self._spec.variables, self._has_params)

    @cached_property
    def _types(self) -> dict[str, str]:
        return {name: type_of(expression) for name, expression in self._variables}

    @cached_property
    def _validations(self) -> list[tuple[Validation, Expression, Expression | None]]:
        known = self._types
        return [
            (
                each,
                self._compile(each.expression, (BOOL,), known),
                self._compile(each.message_expression, (STRING,), known) if each.message_expression else None,
            )
            for each in self._spec.validations
        ]

    @cached_property
    def _annotations(self) -> list[tuple[str, Expression]]:
        known = self._types
        return [
            (each.key, self._compile(each.value_expression.strip(), (STRING, NULL), known))
            for each in self._spec.audit_annotations
        ]

    def _compiled(self) -> Asking[None]:
        """A policy may have as many expressions as fit into an object, and the first one loads the engine."""
        if not self._is_compiled:
            work = Work(lambda _turn, _whole: (self._variables, self._validations, self._annotations), is_long=True)
            yield work
            work.result()
            self._is_compiled = True

    def _compile(self, source: str, result: Sequence[str], variables: Mapping[str, str]) -> Expression:
        return compiled(source, result, self._has_params, variables)

    def evaluate(
        self, variables: Tree, params: Tree | None, monotonic: Monotonic = UNOBSERVED.monotonic
    ) -> Asking[Findings]:
        """What the policy finds.

        Args:
            variables: object, oldObject, request, namespaceObject, authorizer.
            params: the parameters, None when there are none.
            monotonic: tells the seconds from which durations are made.
        """
        if self._has_params:
            variables = {**variables, PARAMS: params}
        findings = Findings()
        try:
            if self._conditions and not (yield from self._conditions.hold(variables)):
                return findings
        except ConditionError as err:
            findings.failures.append(Failure(0, str(err), error=INVALID_ERROR))
            return findings
        yield from self._compiled()
        try:
            return (yield from self._findings(_Evaluation(variables, self._variables), monotonic))
        except OutOfBudget as err:
            failure = Failure(0, str(err), error=INVALID_ERROR)
            (findings.ignored if self.ignores_errors else findings.failures).append(failure)
            return findings

    def _findings(self, evaluation: _Evaluation, monotonic: Monotonic) -> Asking[Findings]:
        findings = Findings()
        for index, (validation, expression, message) in enumerate(self._validations):
            begun = monotonic()
            try:
                if (yield from evaluation.value(expression)) is not True:
                    text = (yield from evaluation.message(message)) or validation.message.strip()
                    text = text or f"failed expression: {validation.expression.strip()}"
                    reason = validation.reason or INVALID
                    findings.failures.append(Failure(index, text, reason, seconds=monotonic() - begun))
            except EvaluationError as err:
                failure = Failure(index, str(err), error=error_of(expression), seconds=monotonic() - begun)
                (findings.ignored if self.ignores_errors else findings.failures).append(failure)
        for key, expression in self._annotations:
            begun = monotonic()
            try:
                value = yield from evaluation.value(expression)
            except EvaluationError as err:
                if not self.ignores_errors:
                    failure = Failure(0, str(err), error=error_of(expression), seconds=monotonic() - begun)
                    findings.errors.append(failure)
                continue
            if isinstance(value, str) and value.strip():
                findings.annotations[key] = _cut(value.strip(), MAX_ANNOTATION_BYTES)
        return findings


def _cut(text: str, limit: int) -> str:
    return text.encode()[:limit].decode("utf-8", "ignore")


class _Evaluation(Evaluation):
    """Of validations, which have messages."""

    def message(self, expression: Expression | None) -> Asking[str]:
        """The text of a messageExpression; empty when there is none that can be used."""
        if expression is None:
            return ""
        try:
            value = yield from self.value(expression)
        except EvaluationError:
            return ""
        text = value.strip() if isinstance(value, str) else ""
        return "" if "\n" in text or len(text.encode()) > MAX_MESSAGE_BYTES else text
