"""What the suites of the expression language's libraries share."""

from __future__ import annotations

from functools import cache

from kubevouch.cel.environment import ANY, Environment, EvaluationError


@cache
def _environment() -> Environment:
    return Environment({"o": ANY})


def value_of(source: str, o: object = None) -> object:
    return _environment().compile(source).evaluate({"o": o})


def error_of(source: str, o: object = None) -> str:
    try:
        value = value_of(source, o)
    except EvaluationError as err:
        return str(err)
    raise AssertionError(f"got {value!r}, expected an error")
