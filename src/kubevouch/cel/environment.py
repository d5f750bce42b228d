"""Expressions of the Common Expression Language: compiled against declared variables, evaluated within bounds.

    ExpressionError       does not compile; ``str()`` is what a field error says, in Kubernetes' words
    EvaluationError       no value came of it: a missing key, a wrong type, too much work
    Unanswered            it asks the authorizer something to which no answer was given
    OutOfBudget           what was to be spent on a set of expressions is spent
    TurnOver              others have to have their turn before it is evaluated any further

:mod:`kubevouch.cel.compiler` parses and checks types as cel-go does, :mod:`kubevouch.cel.interpreter` evaluates.
Nothing but the boolean true ever holds.

Bounds: the length of a source and nesting of 250 levels; the cost of one evaluation and of a set of them, counted as
Kubernetes does; the size of a value. Regular expressions run on RE2, in linear time.

Source: k8s.io/apiserver/pkg/cel/environment/base.go, pkg/cel/plugin (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kubevouch.cel import struct_types, types
from kubevouch.cel.declarations import named_type
from kubevouch.cel.program import NO_ANSWERS as NO_ANSWERS
from kubevouch.cel.program import PER_CALL_LIMIT as PER_CALL_LIMIT
from kubevouch.cel.program import TURN as TURN
from kubevouch.cel.program import Budget as Budget
from kubevouch.cel.program import ExpressionError as ExpressionError
from kubevouch.cel.program import NotRunnable as NotRunnable
from kubevouch.cel.program import Program as Program
from kubevouch.cel.program import Turn as Turn
from kubevouch.cel.program import TurnOver as TurnOver
from kubevouch.cel.types import Type
from kubevouch.cel.values import EvaluationError as EvaluationError
from kubevouch.cel.values import OutOfBudget as OutOfBudget

BOOL = "bool"
STRING = "string"
NULL = "null_type"
ANY = "dyn"
MAP = "map(string, dyn)"
AUTHORIZER = "kubernetes.authorization.Authorizer"
RESOURCE_CHECK = "kubernetes.authorization.ResourceCheck"


class Members(msgspec.Struct, frozen=True):
    """The type of a map whose keys the compiler knows, with the type of each value as :class:`Program` names it.

    Types that have no name, such as those of declared structs, are any to it.
    """

    types: tuple[tuple[str, str], ...]


VariableType = str | type[msgspec.Struct] | Members | Type
"""One of the names above, a declared struct, whose fields the compiler then knows, the members of a map, or a type."""


class Environment:
    """The variables that expressions may use.

    Args:
        variables: name to type. A struct is checked by the compiler and given as a tree at run time, so that a field
            that is not set is absent, as in Kubernetes, and not empty.
        tells_found: what is said of a wrong type of result says which one it is, as admission's compiler does.
        patches: expressions may make what changes an object; see :mod:`kubevouch.cel.patches`.
        names: expressions may ask about names in certificates; see :mod:`kubevouch.cel.certificate_names`.
    """

    def __init__(
        self,
        variables: Mapping[str, VariableType],
        *,
        patches: bool = False,
        names: bool = False,
        tells_found: bool = False,
    ) -> None:
        self._tells_found = tells_found
        self._patches = patches
        self._names = names
        self._variables = {name: _variable(name, kind) for name, kind in variables.items()}

    def compile(self, source: str, result: Sequence[str] = ()) -> Program:
        """A program for ``source``.

        Args:
            result: the types that the value may have; empty takes any.

        Raises:
            ExpressionError
        """
        # Its tables take a while to make; a server without expressions never does.
        from kubevouch.cel.compiler import compile_expression

        try:
            if self._patches:
                from kubevouch.cel.patches import ADDITIONS

                program = compile_expression(source, self._variables, ADDITIONS).program
            elif self._names:
                from kubevouch.cel.certificate_names import ADDITIONS

                program = compile_expression(source, self._variables, ADDITIONS).program
            else:
                program = compile_expression(source, self._variables).program
        except NotRunnable as err:
            raise ExpressionError(f"program instantiation failed: {err}") from err
        except ExpressionError as err:
            raise ExpressionError(f"compilation failed: {err}") from err
        if result and program.result_type not in result:
            wanted = result[0] if len(result) == 1 else f"one of [{' '.join(result)}]"
            found = f" but got {program.result_type}" if self._tells_found else ""
            raise ExpressionError(f"must evaluate to {wanted}{found}")
        return program


def _variable(name: str, kind: VariableType) -> Type:
    if isinstance(kind, Members):
        members = struct_types.Members({each: named_type(text) for each, text in kind.types})
        return types.struct(f"kubernetes.{name.title()}", members)
    if isinstance(kind, str):
        return named_type(kind)
    if isinstance(kind, Type):
        return kind
    return struct_types.struct_type(kind)
