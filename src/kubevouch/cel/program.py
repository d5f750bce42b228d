"""Compiled expressions, and what bounds them: their own limit, the budget of a set, the turn of a thread.

Source: k8s.io/apiserver/pkg/cel/environment/base.go, pkg/apis/cel/config.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubevouch.cel.values import EvaluationError, OutOfBudget, PausingRun, Run, plain, type_name

PER_CALL_LIMIT = 1_000_000
MAX_VALUE = 1 << 20
TURN = 20_000
"""The cost of what is evaluated on an event loop before others have their turn: 5 to 20 ms."""

# An evaluation that does nothing takes as long as this many steps.
_BEGINNING = 10

NO_ANSWERS: Mapping[Any, Any] = {}


class ExpressionError(ValueError):
    """The source is no expression over the declared variables, or its type is not the one asked for."""


class NotRunnable(ExpressionError):
    """An expression that compiles, but no program can be made of it."""


class Budget:
    """What a set of evaluations may cost together.

    Args:
        pause: is called again and again in the course of long ones, on a thread on which they may wait for others.
    """

    def __init__(self, limit: int, pause: Callable[[], None] | None = None) -> None:
        self.left = limit
        self.pause = pause
        # For work that costs nothing, but takes as long.
        self._work_left = limit
        # Pays too: what several sets may cost together.
        self.whole: Budget | None = None

    def spend(self, cost: int) -> None:
        """Raises :class:`OutOfBudget`."""
        self.left -= cost
        if self.whole is not None:
            self.whole.spend(cost)
        if self.left < 0:
            raise _no_budget()

    def work(self, steps: int) -> None:
        """Raises :class:`OutOfBudget`."""
        self._work_left -= steps
        if self.whole is not None:
            self.whole.work(steps)
        if self._work_left < 0:
            raise _no_budget()


def _no_budget() -> OutOfBudget:
    return OutOfBudget("validation failed due to running out of cost budget, no further validation rules will be run")


class TurnOver(Exception):
    """The evaluation is too long for the thread that others wait for. It left nothing behind and may begin again."""


class Turn:
    """What evaluations may cost together until others have their turn.

    An expression cannot stop half-way, so one that is over the limit ends with :class:`TurnOver`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._spent = 0
        self._running: list[Run] = []

    @property
    def left(self) -> int:
        return self._limit - self._spent - sum(run.cost + run.unpaid for run in self._running)

    def renew(self) -> None:
        """Others have had their turn."""
        self._spent = 0

    def spend(self, cost: int) -> None:
        """For work that is no evaluation. Raises :class:`TurnOver`."""
        self._spent += cost
        if self.left < 0:
            raise TurnOver

    def begin(self, run: Run) -> None:
        """One more evaluation, perhaps in the course of another one."""
        self._spent += _BEGINNING
        run.limit = min(run.limit, max(self.left, 0))
        self._running.append(run)

    def end(self) -> None:
        run = self._running.pop()
        self._spent += run.cost + run.unpaid


class Program:
    """A compiled expression. May be evaluated any number of times.

    ``names`` are the variables that it uses.
    """

    def __init__(self, source: str, result_type: str, step: Any, names: frozenset[str] = frozenset()) -> None:
        self.source = source
        self.result_type = result_type
        self.names = names
        self._step = step

    def evaluate(
        self,
        variables: Mapping[str, Any],
        answers: Mapping[Any, Any] = NO_ANSWERS,
        budget: Budget | None = None,
        turn: Turn | None = None,
    ) -> Any:
        """The value, in Python's types.

        Args:
            variables: a JSON-like tree for each declared variable, or a value of :mod:`kubevouch.cel.library`.
            answers: what the authorizer says, by :class:`kubevouch.cel.library.authorizer.Question`.
            budget: pays for it.
            turn: bounds it where others wait for this thread.

        Raises:
            EvaluationError
            Unanswered: ``answers`` has not what it asks.
            OutOfBudget: the budget is spent; never for the evaluation's own limit, which is an error.
            TurnOver: only with ``turn``.
        """
        value = self.value(variables, answers, budget, turn)
        try:
            return self._within(Run(MAX_VALUE, NO_ANSWERS), turn, lambda run: plain(value, run))
        except (OutOfBudget, RecursionError) as err:
            raise EvaluationError(f"got a value of more than {MAX_VALUE} parts, expected at most that many") from err

    def value(
        self,
        variables: Mapping[str, Any],
        answers: Mapping[Any, Any] = NO_ANSWERS,
        budget: Budget | None = None,
        turn: Turn | None = None,
    ) -> Any:
        """As :meth:`evaluate`, in the language's types, for use by other expressions."""
        pause = None if budget is None else budget.pause
        run = Run(PER_CALL_LIMIT, answers) if pause is None else PausingRun(PER_CALL_LIMIT, answers, pause)
        try:
            found = self._within(run, turn, lambda run: self._step(run, dict(variables)))
        except OutOfBudget as err:
            self._pay(run, budget)
            raise EvaluationError(str(err)) from err
        except EvaluationError:
            self._pay(run, budget)
            raise
        except RecursionError as err:
            raise EvaluationError("nested too deeply") from err
        self._pay(run, budget)
        return found

    @staticmethod
    def _within(run: Run, turn: Turn | None, work: Callable[[Run], Any]) -> Any:
        """What ``work`` gives, or :class:`TurnOver` where the run's own limit would have allowed more."""
        if turn is None:
            return work(run)
        own = run.limit
        turn.begin(run)
        try:
            return work(run)
        except OutOfBudget as err:
            if run.limit < own and max(run.cost, run.unpaid) > run.limit:
                raise TurnOver from err
            raise
        finally:
            turn.end()

    @staticmethod
    def _pay(run: Run, budget: Budget | None) -> None:
        if budget is not None:
            budget.spend(run.cost)
            budget.work(run.unpaid)

    def holds(
        self,
        variables: Mapping[str, Any],
        answers: Mapping[Any, Any] = NO_ANSWERS,
        budget: Budget | None = None,
        turn: Turn | None = None,
    ) -> bool:
        """True if the value is the boolean true, False if it is false. Arguments as :meth:`evaluate`.

        Raises:
            EvaluationError: it is neither.
        """
        value = self.value(variables, answers, budget, turn)
        if type(value) is not bool:
            raise EvaluationError(f"got {type_name(value)}, expected bool")
        return value
