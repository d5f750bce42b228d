"""matchConditions: expressions that decide whether a webhook or a policy has a say.

    ConditionError        a condition cannot be evaluated, and the failure policy is Fail

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from kubevouch.admission.dynamic.questions import CONDITIONS_BUDGET, Asking, Inquiry, Work
from kubevouch.api.admissionregistration_v1.expressions import compile_expression
from kubevouch.api.admissionregistration_v1.matching import IGNORE, MatchCondition
from kubevouch.authentication.aggregate import aggregate
from kubevouch.cel.environment import BOOL, EvaluationError, ExpressionError, OutOfBudget, Program


class ConditionError(Exception):
    """The texts of all errors."""


class MatchConditions:
    """The conditions of one webhook or policy, compiled when they are first asked for."""

    def __init__(
        self, conditions: Sequence[MatchCondition], failure_policy: str | None, *, params: bool = False
    ) -> None:
        self._conditions = conditions
        self._ignores = failure_policy == IGNORE
        self._params = params

    def __bool__(self) -> bool:
        return bool(self._conditions)

    @cached_property
    def _programs(self) -> list[Program | str]:
        return [self._compile(condition.expression.strip()) for condition in self._conditions]

    def _compile(self, source: str) -> Program | str:
        try:
            return compile_expression(source, (BOOL,), params=self._params)
        except ExpressionError as err:
            return f"compilation error: {err}"

    def hold(self, variables: Mapping[str, Any]) -> Asking[bool]:
        """One that is false settles it, whatever the others come to. Raises :class:`ConditionError`."""
        if "_programs" not in self.__dict__:
            compiling = Work(lambda _turn, _whole: self._programs, is_long=True)
            yield compiling
            compiling.result()
        found: list[str] = []
        inquiry = Inquiry(dict(variables), CONDITIONS_BUDGET)
        for program in self._programs:
            try:
                if isinstance(program, str):
                    found.append(program)
                elif not (yield from inquiry.holds(program)):
                    return False
            except EvaluationError as err:
                found.append(evaluation_text(program, err))
            except OutOfBudget as err:
                found = [str(err)]
                break
        if found and not self._ignores:
            raise ConditionError(aggregate(found))
        return not found


def evaluation_text(program: Program | str, err: EvaluationError | str) -> str:
    """Kubernetes' sentence about an expression that gave no value."""
    source = program.source if isinstance(program, Program) else program
    return f"expression '{source}' resulted in error: {err}"
