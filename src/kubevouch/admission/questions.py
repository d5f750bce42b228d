"""Expressions that may ask the authorizer: evaluated without I/O up to the question, and on when the answer has come.

Source: k8s.io/apiserver/pkg/admission/plugin/{cel/condition.go,policy/validating/caching_authorizer.go} (1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from kubevouch.api.wellknown import SERVICE_ACCOUNT_USER_PREFIX
from kubevouch.authentication.impersonation import service_account_groups
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Authorizer, Decision
from kubevouch.cel.environment import Budget, Program
from kubevouch.cel.library.authorizer import Answer, Question, Unanswered

# RuntimeCELCostBudget and RuntimeCELCostBudgetMatchConditions of k8s.io/apiserver/pkg/apis/cel.
POLICY_BUDGET, CONDITIONS_BUDGET = 10_000_000, 2_500_000
# About 50 ms of evaluation; after that others have a turn.
_LONG = 100_000

T = TypeVar("T")
Asking = Generator[Question | None, Answer | None, T]
"""Yields questions and is sent their answers; yields None where it may be interrupted."""


class Inquiry:
    """A set of expressions over the same variables, with what they may cost together and the answers so far."""

    def __init__(self, variables: dict[str, Any], budget: int) -> None:
        self.variables = variables
        self._budget = Budget(budget)
        self._answers: dict[Question, Answer] = {}

    def evaluate(self, program: Program) -> Asking[Any]:
        """As :meth:`Program.evaluate`."""
        return self._asking(lambda: program.evaluate(self.variables, self._answers, self._budget))

    def holds(self, program: Program) -> Asking[bool]:
        """As :meth:`Program.holds`."""
        return self._asking(lambda: program.holds(self.variables, self._answers, self._budget))

    def value(self, program: Program) -> Any:
        """As :meth:`Program.value`; an unanswered question is raised."""
        return program.value(self.variables, self._answers, self._budget)

    def _asking(self, evaluation: Callable[[], T]) -> Asking[T]:
        before = self._budget.left
        while True:
            try:
                found = evaluation()
            except Unanswered as err:
                answer = yield err.question
                assert answer is not None  # whoever is asked answers
                self._answers[err.question] = answer
                continue
            if before - self._budget.left > _LONG:
                yield None
            return found


class Interview:
    """Answers for one request; what was asked once is not asked again."""

    def __init__(self, authorizer: Authorizer, user: UserInfo) -> None:
        self._authorizer = authorizer
        self._user = user
        self._answers: dict[Question, Answer] = {}

    async def settle(self, asking: Asking[T]) -> T:
        """What comes of ``asking``, or what it raises."""
        answer: Answer | None = None
        while True:
            try:
                question = asking.send(answer)
            except StopIteration as done:
                settled: T = done.value
                return settled
            answer = None if question is None else await self._answer(question)
            if question is None:
                await asyncio.sleep(0)

    async def _answer(self, question: Question) -> Answer:
        known = self._answers.get(question)
        if known is None:
            verdict = await self._authorizer.authorize(attributes_of(question, self._user))
            known = Answer(verdict.decision is Decision.ALLOW, verdict.reason, verdict.error)
            self._answers[question] = known
        return known


def attributes_of(question: Question, user: UserInfo) -> Attributes:
    """What a question means when ``user`` sends the request."""
    if question.service_account is not None:
        namespace, name = question.service_account
        user = UserInfo(f"{SERVICE_ACCOUNT_USER_PREFIX}{namespace}:{name}", groups=service_account_groups(namespace))
    if question.path:
        return Attributes(user, question.verb, path=question.path)
    return Attributes(
        user,
        question.verb,
        question.group,
        "*",
        question.resource,
        question.subresource,
        question.namespace,
        question.name,
        field_selector=question.field_selector,
        label_selector=question.label_selector,
    )
