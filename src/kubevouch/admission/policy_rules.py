"""What a ValidatingAdmissionPolicy says of one request; no I/O.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go, plugin/cel/composition.go (1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kubevouch.admission.match_conditions import ConditionError, MatchConditions, evaluation_text
from kubevouch.admission.review import Tree
from kubevouch.api.admissionregistration_v1.expressions import PARAMS, VARIABLES, compile_expression
from kubevouch.api.admissionregistration_v1.matching import IGNORE
from kubevouch.api.admissionregistration_v1.policies import ValidatingAdmissionPolicySpec, Validation
from kubevouch.cel.environment import ANY, BOOL, NULL, STRING, EvaluationError, ExpressionError, Program
from kubevouch.machinery.gotext import quote

MAX_MESSAGE_BYTES = 5 * 1024
MAX_ANNOTATION_BYTES = 10 * 1024
INVALID = "Invalid"

_NO_SUCH_KEY = re.compile(r"no such key: (\w+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Failure:
    """A validation that does not hold, or cannot be evaluated; ``index`` is its place in the policy."""

    index: int
    message: str
    reason: str = INVALID


@dataclass(slots=True)
class Findings:
    """What one policy with one set of parameters finds.

    Args:
        failures: what the binding's actions follow from.
        errors: what refuses the request whatever the binding's actions are.
        annotations: for the audit event, without the policy's name.
    """

    failures: list[Failure] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
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

    def _compile(self, source: str, result: Sequence[str], variables: Mapping[str, str]) -> _Expression:
        try:
            return compile_expression(source, result, params=self._has_params, variables=variables)
        except ExpressionError as err:
            return _Unusable(source, f"compilation error: {err}")

    def evaluate(self, variables: Tree, params: Tree | None) -> Findings:
        """What the policy finds.

        Args:
            variables: object, oldObject, request, namespaceObject.
            params: the parameters, None when there are none.
        """
        if self._has_params:
            variables = {**variables, PARAMS: params}
        findings = Findings()
        try:
            if self._conditions and not self._conditions.hold(variables):
                return findings
        except ConditionError as err:
            findings.failures.append(Failure(0, str(err)))
            return findings
        evaluation = _Evaluation(variables, self._variables)
        for index, (validation, expression, message) in enumerate(self._validations):
            try:
                if evaluation.value(expression) is not True:
                    text = evaluation.message(message) or validation.message.strip()
                    text = text or f"failed expression: {validation.expression.strip()}"
                    findings.failures.append(Failure(index, text, validation.reason or INVALID))
            except EvaluationError as err:
                if not self.ignores_errors:
                    findings.failures.append(Failure(index, str(err)))
        for key, expression in self._annotations:
            try:
                value = evaluation.value(expression)
            except EvaluationError as err:
                if not self.ignores_errors:
                    findings.errors.append(str(err))
                continue
            if isinstance(value, str) and value.strip():
                findings.annotations[key] = _cut(value.strip(), MAX_ANNOTATION_BYTES)
        return findings


def _type(expression: _Expression) -> str:
    return expression.result_type if isinstance(expression, Program) else ANY


def _cut(text: str, limit: int) -> str:
    return text.encode()[:limit].decode("utf-8", "ignore")


class _Evaluation:
    """One set of values of the variables. A variable that fails spoils only what uses it."""

    def __init__(self, variables: Tree, composed: Sequence[tuple[str, _Expression]]) -> None:
        self._failed: dict[str, str] = {}
        values: dict[str, Any] = {}
        self._variables: Tree = {**variables, VARIABLES: values} if composed else variables
        for name, expression in composed:
            try:
                values[name] = self._evaluate(expression)
            except EvaluationError as err:
                self._failed[name] = f"composited variable {quote(name)} fails to evaluate: {err}"

    def value(self, expression: _Expression) -> Any:
        """Raises :class:`EvaluationError` with Kubernetes' whole sentence."""
        try:
            return self._evaluate(expression)
        except EvaluationError as err:
            if isinstance(expression, _Unusable):
                raise
            raise EvaluationError(evaluation_text(expression, err)) from err

    def _evaluate(self, expression: _Expression) -> Any:
        if isinstance(expression, _Unusable):
            raise EvaluationError(expression.why)
        try:
            return expression.evaluate(self._variables)
        except EvaluationError as err:
            missing = _NO_SUCH_KEY.fullmatch(str(err))
            if missing and missing[1] in self._failed:
                raise EvaluationError(self._failed[missing[1]]) from err
            raise

    def message(self, expression: _Expression | None) -> str:
        """The text of a messageExpression; empty when there is none that can be used."""
        if expression is None:
            return ""
        try:
            value = self._evaluate(expression)
        except EvaluationError:
            return ""
        text = value.strip() if isinstance(value, str) else ""
        return "" if "\n" in text or len(text.encode()) > MAX_MESSAGE_BYTES else text
