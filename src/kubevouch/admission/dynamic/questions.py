"""Expressions that may ask the authorizer: evaluated without I/O up to the question, and on when the answer has come.

Source: k8s.io/apiserver/pkg/admission/plugin/{cel/condition.go,policy/validating/caching_authorizer.go} (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from kubevouch.authentication.impersonation import service_account_groups
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Authorizer, Decision
from kubevouch.cel.environment import TURN, Budget, EvaluationError, OutOfBudget, Program, Turn, TurnOver
from kubevouch.cel.library.authorizer import Answer, Question, Unanswered
from kubevouch.util.turns import give_way
from kubevouch.util.worker import elsewhere
from kubevouch.wellknown import SERVICE_ACCOUNT_USER_PREFIX

# RuntimeCELCostBudget and RuntimeCELCostBudgetMatchConditions of k8s.io/apiserver/pkg/apis/cel.
POLICY_BUDGET, CONDITIONS_BUDGET = 10_000_000, 2_500_000
REQUEST_BUDGET = 2 * POLICY_BUDGET
"""What all policies and conditions may cost for one request; Kubernetes has no such bound."""

T = TypeVar("T")


class Work:
    """A part of an inquiry that computes."""

    def __init__(self, compute: Callable[[Turn | None, Budget | None], Any], *, is_long: bool = False) -> None:
        self.is_long = is_long
        self._compute = compute
        self._found: Any = None
        self._failure: Exception | None = None

    def run(self, turn: Turn | None = None, whole: Budget | None = None) -> bool:
        """False if ``turn`` was over before it was done; then it has to be run without one."""
        try:
            self._found = self._compute(turn, whole)
        except TurnOver:
            return False
        except (EvaluationError, OutOfBudget, Unanswered) as err:
            self._failure = err
        return True

    def result(self) -> Any:
        """Raises what the computation raised."""
        if self._failure is not None:
            raise self._failure
        return self._found


Asking = Generator[Question | Work, Answer | None, T]
"""Yields questions, and is sent their answers, and work that somebody has to run."""


class Inquiry:
    """A set of expressions over the same variables, with what they may cost together and the answers so far."""

    def __init__(self, variables: dict[str, Any], budget: int) -> None:
        self.variables = variables
        self._budget = Budget(budget)
        self._answers: dict[Question, Answer] = {}
        # Of the evaluation that runs, for the expressions that it needs.
        self._turn: Turn | None = None

    def evaluate(self, program: Program) -> Asking[Any]:
        """As :meth:`Program.evaluate`."""
        return self._asking(lambda turn: program.evaluate(self.variables, self._answers, self._budget, turn))

    def made(self, program: Program) -> Asking[Any]:
        """As :meth:`Program.value`."""
        return self._asking(lambda turn: program.value(self.variables, self._answers, self._budget, turn))

    def holds(self, program: Program) -> Asking[bool]:
        """As :meth:`Program.holds`."""
        return self._asking(lambda turn: program.holds(self.variables, self._answers, self._budget, turn))

    def value(self, program: Program) -> Any:
        """As :meth:`Program.value`, in the course of another evaluation; an unanswered question is raised."""
        return program.value(self.variables, self._answers, self._budget, self._turn)

    def _asking(self, evaluation: Callable[[Turn | None], T]) -> Asking[T]:
        def compute(turn: Turn | None, whole: Budget | None) -> T:
            self._turn, self._budget.whole = turn, whole
            return evaluation(turn)

        while True:
            work = Work(compute)
            yield work
            try:
                found: T = work.result()
            except Unanswered as err:
                answer = yield err.question
                assert answer is not None  # whoever is asked answers
                self._answers[err.question] = answer
                continue
            return found


class Interview:
    """Answers for one request; what was asked once is not asked again. All that it settles shares turns and budget."""

    def __init__(self, authorizer: Authorizer, user: UserInfo) -> None:
        self._authorizer = authorizer
        self._user = user
        self._answers: dict[Question, Answer] = {}
        self._turn = Turn(TURN)
        self._budget = Budget(REQUEST_BUDGET)

    async def settle(self, asking: Asking[T]) -> T:
        """What comes of ``asking``, or what it raises."""
        answer: Answer | None = None
        while True:
            try:
                wanted = asking.send(answer)
            except StopIteration as done:
                settled: T = done.value
                return settled
            if isinstance(wanted, Work):
                answer = None
                await self._do(wanted)
            else:
                answer = await self._answer(wanted)

    async def _do(self, work: Work) -> None:
        if self._turn.left < TURN // 2:
            await give_way()
            self._turn.renew()
        if work.is_long or not work.run(self._turn, self._budget):
            await elsewhere(lambda: work.run(None, self._budget))

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
