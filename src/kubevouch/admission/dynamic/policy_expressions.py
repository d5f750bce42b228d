"""The expressions of a policy, and their evaluation for one request; no I/O.

Source: k8s.io/apiserver/pkg/admission/plugin/cel/{condition,composition,mutation}.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubevouch.admission.dynamic.match_conditions import evaluation_text
from kubevouch.admission.dynamic.questions import POLICY_BUDGET, Asking, Inquiry
from kubevouch.admission.dynamic.review import Tree
from kubevouch.api.admissionregistration_v1.expressions import VARIABLES, compile_expression
from kubevouch.api.admissionregistration_v1.policies import Variable
from kubevouch.cel.environment import ANY, EvaluationError, ExpressionError, Program
from kubevouch.cel.values import Lazy
from kubevouch.machinery.text.gotext import quote

COMPILE_ERROR, INVALID_ERROR = "compile_error", "invalid_error"
"""What metrics call errors."""


class Unusable(msgspec.Struct, frozen=True):
    """An expression that was stored although it does not compile here."""

    source: str
    why: str


Expression = Program | Unusable


def compiled(
    source: str, result: Sequence[str], params: bool, variables: Mapping[str, str], *, patches: bool = False
) -> Expression:
    """Arguments as :func:`compile_expression`."""
    try:
        return compile_expression(source, result, params=params, variables=variables, patches=patches)
    except ExpressionError as err:
        return Unusable(source, f"compilation error: {err}")


def compiled_variables(variables: Sequence[Variable], params: bool) -> list[tuple[str, Expression]]:
    """Each may use those before it."""
    known: dict[str, str] = {}
    found: list[tuple[str, Expression]] = []
    for variable in variables:
        expression = compiled(variable.expression, (), params, known)
        found.append((variable.name, expression))
        known[variable.name] = type_of(expression)
    return found


def type_of(expression: Expression) -> str:
    return expression.result_type if isinstance(expression, Program) else ANY


def error_of(expression: Expression) -> str:
    """What metrics call it when the expression gives no value."""
    return COMPILE_ERROR if isinstance(expression, Unusable) else INVALID_ERROR


def usable(expression: Expression) -> Program:
    """Raises :class:`EvaluationError`."""
    if isinstance(expression, Unusable):
        raise EvaluationError(expression.why)
    return expression


class Evaluation:
    """One set of values of the variables. A variable that fails spoils only what uses it."""

    def __init__(self, variables: Tree, composed: Sequence[tuple[str, Expression]]) -> None:
        self._composed = dict(composed)
        if composed:
            variables = {**variables, VARIABLES: Lazy(self._variable)}
        self._inquiry = Inquiry(variables, POLICY_BUDGET)

    def _variable(self, name: str) -> Any:
        expression = self._composed[name]
        try:
            return self._inquiry.value(usable(expression))
        except EvaluationError as err:
            raise EvaluationError(f"composited variable {quote(name)} fails to evaluate: {err}") from err

    def value(self, expression: Expression) -> Asking[Any]:
        """Raises :class:`EvaluationError` with Kubernetes' whole sentence."""
        program = usable(expression)
        try:
            return (yield from self._inquiry.evaluate(program))
        except EvaluationError as err:
            raise EvaluationError(evaluation_text(program, err)) from err

    def made(self, expression: Expression) -> Asking[Any]:
        """As :meth:`value`, in the language's types."""
        program = usable(expression)
        try:
            return (yield from self._inquiry.made(program))
        except EvaluationError as err:
            raise EvaluationError(evaluation_text(program, err)) from err
