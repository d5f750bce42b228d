"""What a ValidatingAdmissionPolicy says of one request; no I/O.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go, plugin/cel/composition.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kubevouch.admission.dynamic.match_conditions import ConditionError, MatchConditions, evaluation_text
from kubevouch.admission.dynamic.questions import POLICY_BUDGET, Asking, Inquiry, Work
from kubevouch.admission.dynamic.review import Tree
from kubevouch.admission.observer import NO_ERROR, UNOBSERVED
from kubevouch.api.admissionregistration_v1.expressions import PARAMS, VARIABLES, compile_expression
from kubevouch.api.admissionregistration_v1.matching import IGNORE
from kubevouch.api.admissionregistration_v1.policies import ValidatingAdmissionPolicySpec, Validation
from kubevouch.cel.environment import (
    ANY,
    BOOL,
    NULL,
    STRING,
    EvaluationError,
    ExpressionError,
    OutOfBudget,
    Program,
)
from kubevouch.cel.values import Lazy
from kubevouch.machinery.text.gotext import quote

MAX_MESSAGE_BYTES = 5 * 1024
MAX_ANNOTATION_BYTES = 10 * 1024
INVALID = "Invalid"

_COMPILE_ERROR, _INVALID_ERROR = "compile_error", "invalid_error"

Monotonic = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Failure:
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


@dataclass(slots=True)
class Findings:
    """What one policy with one set of parameters finds.

    Args:
        failures: what the binding's actions follow from.
        errors: what refuses the request whatever the binding's actions are.
        ignored: errors that the failure policy forgives.
        annotations: for the audit event, without the policy's name.
    """

    failures: list[Failure] = field(default_factory=list)
    errors: list[Failure] = field(default_factory=list)
    ignored: list[Failure] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Unusable:
    """An expression that was stored although it does not compile here."""

    source: str
    why: str


_Expression = Program | _Unusable


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
    def _variables(self) -> list[tuple[str, _Expression]]:
        known: dict[str, str] = {}
        found: list[tuple[str, _Expression]] = []
        for variable in self._spec.variables:
            expression = self._compile(variable.expression, (), known)
            found.append((variable.name, expression))
            known[variable.name] = _type(expression)
        return found

    @cached_property
    def _types(self) -> dict[str, str]:
        return {name: _type(expression) for name, expression in self._variables}

    @cached_property
    def _validations(self) -> list[tuple[Validation, _Expression, _Expression | None]]:
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
    def _annotations(self) -> list[tuple[str, _Expression]]:
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

    def _compile(self, source: str, result: Sequence[str], variables: Mapping[str, str]) -> _Expression:
        try:
            return compile_expression(source, result, params=self._has_params, variables=variables)
        except ExpressionError as err:
            return _Unusable(source, f"compilation error: {err}")

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
            findings.failures.append(Failure(0, str(err), error=_INVALID_ERROR))
            return findings
        yield from self._compiled()
        try:
            return (yield from self._findings(_Evaluation(variables, self._variables), monotonic))
        except OutOfBudget as err:
            failure = Failure(0, str(err), error=_INVALID_ERROR)
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
                failure = Failure(index, str(err), error=_error_of(expression), seconds=monotonic() - begun)
                (findings.ignored if self.ignores_errors else findings.failures).append(failure)
        for key, expression in self._annotations:
            begun = monotonic()
            try:
                value = yield from evaluation.value(expression)
            except EvaluationError as err:
                if not self.ignores_errors:
                    failure = Failure(0, str(err), error=_error_of(expression), seconds=monotonic() - begun)
                    findings.errors.append(failure)
                continue
            if isinstance(value, str) and value.strip():
                findings.annotations[key] = _cut(value.strip(), MAX_ANNOTATION_BYTES)
        return findings


def _error_of(expression: _Expression) -> str:
    return _COMPILE_ERROR if isinstance(expression, _Unusable) else _INVALID_ERROR


def _usable(expression: _Expression) -> Program:
    if isinstance(expression, _Unusable):
        raise EvaluationError(expression.why)
    return expression


def _type(expression: _Expression) -> str:
    return expression.result_type if isinstance(expression, Program) else ANY


def _cut(text: str, limit: int) -> str:
    return text.encode()[:limit].decode("utf-8", "ignore")


class _Evaluation:
    """One set of values of the variables. A variable that fails spoils only what uses it."""

    def __init__(self, variables: Tree, composed: Sequence[tuple[str, _Expression]]) -> None:
        self._composed = dict(composed)
        if composed:
            variables = {**variables, VARIABLES: Lazy(self._variable)}
        self._inquiry = Inquiry(variables, POLICY_BUDGET)

    def _variable(self, name: str) -> Any:
        expression = self._composed[name]
        try:
            return self._inquiry.value(_usable(expression))
        except EvaluationError as err:
            raise EvaluationError(f"composited variable {quote(name)} fails to evaluate: {err}") from err

    def value(self, expression: _Expression) -> Asking[Any]:
        """Raises :class:`EvaluationError` with Kubernetes' whole sentence."""
        program = _usable(expression)
        try:
            return (yield from self._inquiry.evaluate(program))
        except EvaluationError as err:
            raise EvaluationError(evaluation_text(program, err)) from err

    def message(self, expression: _Expression | None) -> Asking[str]:
        """The text of a messageExpression; empty when there is none that can be used."""
        if expression is None:
            return ""
        try:
            value = yield from self._inquiry.evaluate(_usable(expression))
        except EvaluationError:
            return ""
        text = value.strip() if isinstance(value, str) else ""
        return "" if "\n" in text or len(text.encode()) > MAX_MESSAGE_BYTES else text
