"""Expressions of the Common Expression Language: compiled against declared variables, evaluated within bounds.

    ExpressionError       does not compile; ``str()`` is what a field error says, in Kubernetes' words
    EvaluationError       no value came of it: a missing key, a wrong type, too much work

The engine is Google's C++ runtime through cel-expr-python. It hands run-time errors back as values, whose Python form
is a text and therefore true. Nothing outside this module sees such a value: :meth:`Program.evaluate` raises, and
:meth:`Program.holds` is True for the boolean true alone.

Bounds: the length of a source (below); nesting of 32 levels and 10,000 steps of comprehensions in one evaluation, which
are the engine's own; the length of a value (below), so that chained variables cannot double a text for ever. Regular
expressions run on RE2, in linear time.

Source: k8s.io/apiserver/pkg/cel/environment/base.go, pkg/cel/plugin (Kubernetes 1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kubevouch.cel.message_types import MessageTypes

# The engine takes 15 MiB; a server without expressions never loads it.
if TYPE_CHECKING:
    from cel_expr_python import cel

# cel-go's parser takes 100,000 code points; a policy that needs a tenth of that is none that anybody reviews.
MAX_SOURCE = 10_000
MAX_VALUE = 1 << 20

BOOL = "bool"
STRING = "string"
NULL = "null_type"
ANY = "dyn"
MAP = "map(string, dyn)"


@dataclass(frozen=True, slots=True)
class Members:
    """The type of a map whose keys the compiler knows, with the type of each value as :class:`Program` names it.

    The compiler goes by booleans, numbers and texts; other types are any to it.
    """

    types: tuple[tuple[str, str], ...]


VariableType = str | type[msgspec.Struct] | Members
"""One of the names above, a declared struct, whose fields the compiler then knows, or the members of a map."""

_STATUS = re.compile(r"\A[A-Z_]+: |\s*\[[A-Z_]+\]\Z")


class ExpressionError(ValueError):
    """The source is no expression over the declared variables, or its type is not the one asked for."""


class EvaluationError(Exception):
    """The evaluation ended without a value."""


class Program:
    """A compiled expression. May be evaluated any number of times."""

    def __init__(self, source: str, result_type: str, expression: cel.Expression) -> None:
        self.source = source
        self.result_type = result_type
        self._expression = expression

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """The value, in Python's types.

        Args:
            variables: a JSON-like tree for each declared variable.

        Raises:
            EvaluationError
        """
        return _plain(self._value(variables))

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """True if the value is the boolean true, False if it is false.

        Raises:
            EvaluationError: it is neither.
        """
        from cel_expr_python import cel

        value = self._value(variables)
        if value.type() != cel.Type.BOOL:
            raise EvaluationError(f"got {value.type().name().lower()}, expected bool")
        return value.value() is True

    def _value(self, variables: Mapping[str, Any]) -> cel.Value:
        from cel_expr_python import cel

        try:
            value = self._expression.eval(data=dict(variables))
        except (RuntimeError, ValueError, TypeError) as err:
            raise EvaluationError(_STATUS.sub("", str(err))) from err
        if value.type() in (cel.Type.ERROR, cel.Type.UNKNOWN):
            raise EvaluationError(_go_words(_STATUS.sub("", str(value.value()))))
        return value


class Environment:
    """The variables that expressions may use.

    Args:
        variables: name to type. A struct is checked by the compiler and given as a tree at run time, so that a field
            that is not set is absent, as in Kubernetes, and not empty.
    """

    def __init__(self, variables: Mapping[str, VariableType]) -> None:
        from cel_expr_python import cel

        messages = MessageTypes()
        named = _types()
        typed = {
            name: named[kind] if isinstance(kind, str) else cel.Type(_message(messages, name, kind))
            for name, kind in variables.items()
        }
        plain = {name: named[kind] if isinstance(kind, str) else cel.Type.DYN for name, kind in variables.items()}
        self._checks = _environment(typed, messages) if typed != plain else None
        self._runs = _environment(plain, None)

    def compile(self, source: str, result: Sequence[str] = ()) -> Program:
        """A program for ``source``.

        Args:
            result: the types that the value may have; empty takes any.

        Raises:
            ExpressionError
        """
        if len(source) > MAX_SOURCE:
            raise ExpressionError(f"compilation failed: got {len(source)} characters, expected at most {MAX_SOURCE}")
        checked = _compiled(self._checks or self._runs, source)
        expression = _compiled(self._runs, source) if self._checks else checked
        found = _type_name(checked.return_type())
        if result and found not in result:
            wanted = result[0] if len(result) == 1 else f"one of [{' '.join(result)}]"
            raise ExpressionError(f"must evaluate to {wanted}")
        return Program(source, found, expression)


def _types() -> dict[str, cel.Type]:
    from cel_expr_python import cel

    any_map = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    return {BOOL: cel.Type.BOOL, STRING: cel.Type.STRING, ANY: cel.Type.DYN, MAP: any_map}


def _message(messages: MessageTypes, name: str, kind: type[msgspec.Struct] | Members) -> str:
    return messages.add_members(name.title(), kind.types) if isinstance(kind, Members) else messages.add(kind)


def _environment(variables: dict[str, cel.Type], messages: MessageTypes | None) -> cel.Env:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_encoders, ext_math, ext_optional, ext_strings

    from kubevouch.cel import functions

    return cel.NewEnv(
        descriptor_pool=messages.pool if messages else None,
        variables=variables,
        extensions=[
            ext_strings.ExtStrings(2),
            ext_optional.ExtOptional(),
            ext_math.ExtMath(),
            ext_encoders.ExtEncoders(),
        ],
        functions=functions.DECLARATIONS,
    )


def _compiled(environment: cel.Env, source: str) -> cel.Expression:
    try:
        return environment.compile(source)
    except RuntimeError as err:
        raise ExpressionError(f"compilation failed: {_STATUS.sub('', str(err))}") from err


def _type_name(kind: cel.Type) -> str:
    """``list(string)`` where the engine writes ``LIST<STRING>``, ``null_type`` where it writes ``NULL``."""
    name = str(kind.name()).lower().replace("<", "(").replace(">", ")")
    return NULL if name == "null" else name


def _go_words(text: str) -> str:
    found = re.fullmatch(r'Key not found in map : "(.*)"', text, re.DOTALL)
    return f"no such key: {found[1]}" if found else text


def _plain(value: cel.Value) -> Any:
    plain = value.plain_value()
    if isinstance(plain, bytearray):
        plain = bytes(plain)
    if isinstance(plain, (str, bytes)):
        size = len(plain)
    elif isinstance(plain, (list, dict)):
        size = len(str(plain))
    else:
        return plain
    if size > MAX_VALUE:
        raise EvaluationError(f"got a value of {size} characters, expected at most {MAX_VALUE}")
    return plain
