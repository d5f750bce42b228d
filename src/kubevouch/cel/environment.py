"""Expressions of the Common Expression Language: compiled against declared variables, evaluated within bounds.

    ExpressionError       does not compile; ``str()`` is what a field error says, in Kubernetes' words
    EvaluationError       no value came of it: a missing key, a wrong type, too much work
    Unanswered            it asks the authorizer something to which no answer was given
    OutOfBudget           what was to be spent on a set of expressions is spent
    TurnOver              others have to have their turn before it is evaluated any further

Google's C++ compiler, through cel-expr-python, parses and checks types; :mod:`kubevouch.cel.interpreter` evaluates. The
engine's own evaluation is not used: it bounds turns of loops only, so that one comparison in a loop can take minutes,
and has no values of libraries' types. Nothing but the boolean true ever holds.

Bounds: the length of a source and nesting of 32 levels, which is the parser's; the cost of one evaluation and of a set
of them, counted as Kubernetes does; the size of a value. Regular expressions run on RE2, in linear time.

Source: k8s.io/apiserver/pkg/cel/environment/base.go, pkg/cel/plugin, pkg/apis/cel/config.go (Kubernetes 1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from kubevouch.cel.issues import display
from kubevouch.cel.message_types import MessageTypes
from kubevouch.cel.values import EvaluationError as EvaluationError
from kubevouch.cel.values import OutOfBudget as OutOfBudget
from kubevouch.cel.values import Run, plain, type_name

# The engine takes 15 MiB; a server without expressions never loads it.
if TYPE_CHECKING:
    from cel_expr_python import cel

# cel-go's parser takes 100,000 code points; a policy that needs a tenth of that is none that anybody reviews.
MAX_SOURCE = 10_000
# The parser writes the receiver of these macros twice, so that each more in a chain doubles the tree.
MAX_DOUBLING_MACROS = 8
PER_CALL_LIMIT = 1_000_000
MAX_VALUE = 1 << 20
TURN = 20_000
"""The cost of what is evaluated on an event loop before others have their turn: 5 to 20 ms."""

# An evaluation that does nothing takes as long as this many steps.
_BEGINNING = 10

BOOL = "bool"
STRING = "string"
NULL = "null_type"
ANY = "dyn"
MAP = "map(string, dyn)"
AUTHORIZER = "kubernetes.authorization.Authorizer"
RESOURCE_CHECK = "kubernetes.authorization.ResourceCheck"

NO_ANSWERS: Mapping[Any, Any] = {}


@dataclass(frozen=True, slots=True)
class Members:
    """The type of a map whose keys the compiler knows, with the type of each value as :class:`Program` names it.

    The compiler goes by booleans, numbers and texts; other types are any to it.
    """

    types: tuple[tuple[str, str], ...]


VariableType = str | type[msgspec.Struct] | Members
"""One of the names above, a declared struct, whose fields the compiler then knows, or the members of a map."""

_STATUS = re.compile(r"\A[A-Z_]+: |\s*\[[A-Z_]+\]\Z")
# What cel-go does not say: the type without the field, and what follows from an error.
_MORE = re.compile(
    r" not found in struct '[^'\n]*'|ERROR: <input>:\d+:\d+: expression of type '\*error\*' [^\n]*(?:\n \|[^\n]*)*\n?"
)


class ExpressionError(ValueError):
    """The source is no expression over the declared variables, or its type is not the one asked for."""


class Budget:
    """What a set of evaluations may cost together."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        # Pays too: what several sets may cost together.
        self.whole: Budget | None = None

    def spend(self, cost: int) -> None:
        """Raises :class:`OutOfBudget`."""
        self.left -= cost
        if self.whole is not None:
            self.whole.spend(cost)
        if self.left < 0:
            raise OutOfBudget(
                "validation failed due to running out of cost budget, no further validation rules will be run"
            )


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
        return self._limit - self._spent - sum(run.cost for run in self._running)

    def renew(self) -> None:
        """Others have had their turn."""
        self._spent = 0

    def begin(self, run: Run) -> None:
        """One more evaluation, perhaps in the course of another one."""
        self._spent += _BEGINNING
        run.limit = min(run.limit, max(self.left, 0))
        self._running.append(run)

    def end(self) -> None:
        self._spent += self._running.pop().cost


class Program:
    """A compiled expression. May be evaluated any number of times."""

    def __init__(self, source: str, result_type: str, step: Any) -> None:
        self.source = source
        self.result_type = result_type
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
        run = Run(PER_CALL_LIMIT, answers)
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
            if run.limit < own and run.cost > run.limit:
                raise TurnOver from err
            raise
        finally:
            turn.end()

    @staticmethod
    def _pay(run: Run, budget: Budget | None) -> None:
        if budget is not None:
            budget.spend(run.cost)

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


class Environment:
    """The variables that expressions may use.

    Args:
        variables: name to type. A struct is checked by the compiler and given as a tree at run time, so that a field
            that is not set is absent, as in Kubernetes, and not empty.
    """

    def __init__(self, variables: Mapping[str, VariableType]) -> None:
        messages = MessageTypes()
        self._compiler = _compiler(
            {name: _variable(messages, name, kind) for name, kind in variables.items()}, messages
        )

    def compile(self, source: str, result: Sequence[str] = ()) -> Program:
        """A program for ``source``.

        Args:
            result: the types that the value may have; empty takes any.

        Raises:
            ExpressionError
        """
        from kubevouch.cel import interpreter, literals, syntax

        if len(source) > MAX_SOURCE:
            raise ExpressionError(f"compilation failed: got {len(source)} characters, expected at most {MAX_SOURCE}")
        if source.count("optMap") + source.count("optFlatMap") > MAX_DOUBLING_MACROS:
            raise ExpressionError(f"compilation failed: got more than {MAX_DOUBLING_MACROS} of optMap and optFlatMap")
        try:
            checked = self._compiler.compile(source)
        except RuntimeError as err:
            text = _MORE.sub("", _STATUS.sub("", str(err))).rstrip("\n")
            raise ExpressionError(f"compilation failed: {text}") from err
        found = _type_name(checked.return_type())
        if result and found not in result:
            wanted = result[0] if len(result) == 1 else f"one of [{' '.join(result)}]"
            raise ExpressionError(f"must evaluate to {wanted}")
        tree = syntax.parse(checked.serialize())
        wrong = literals.issues(tree)
        if wrong:
            raise ExpressionError(f"compilation failed: {display(wrong, source)}")
        try:
            return Program(source, found, interpreter.build(tree))
        except EvaluationError as err:
            raise ExpressionError(f"compilation failed: {err}") from err


def _variable(messages: MessageTypes, name: str, kind: VariableType) -> cel.Type:
    from cel_expr_python import cel

    if isinstance(kind, str):
        return _type(kind)
    message = messages.add_members(name.title(), kind.types) if isinstance(kind, Members) else messages.add(kind)
    return cel.Type(message)


def _type(name: str) -> cel.Type:
    """The compiler's type of a name such as ``list(string)``."""
    from cel_expr_python import cel

    outer, _, inner = name.removesuffix(")").partition("(")
    if outer == "list":
        return cel.Type.List(_type(inner))
    if outer == "map":
        key, _, value = inner.partition(",")
        return cel.Type.Map(_type(key), _type(value.strip()))
    simple = {NULL: cel.Type.NULL, ANY: cel.Type.DYN}.get(name) or getattr(cel.Type, name.upper(), None)
    return simple if isinstance(simple, cel.Type) else cel.Type.AbstractType(name)


@cache
def _declarations() -> list[cel.FunctionDecl]:
    from cel_expr_python import cel

    from kubevouch.cel import library, optionals, standard, time_parts  # noqa: F401 - makes their functions known
    from kubevouch.cel.functions import FUNCTIONS

    return [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(
                    f"kubernetes_{name}_{number}",
                    _type(overload.result),
                    [_type(each) for each in overload.parameters],
                    is_member=overload.is_member,
                )
                for number, overload in enumerate(overloads)
            ],
        )
        for name, overloads in FUNCTIONS.items()
        if not any(overload.built_in for overload in overloads)
    ]


def _compiler(variables: dict[str, cel.Type], messages: MessageTypes) -> cel.Env:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional

    return cel.NewEnv(
        descriptor_pool=messages.pool,
        variables=variables,
        extensions=[ext_optional.ExtOptional()],
        functions=_declarations(),
    )


def _type_name(kind: cel.Type) -> str:
    """``list(string)`` where the engine writes ``LIST<STRING>``, ``null_type`` where it writes ``NULL``."""
    name = str(kind.name()).lower().replace("<", "(").replace(">", ")")
    return NULL if name == "null" else name
