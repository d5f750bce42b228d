"""Literals that can be seen to be wrong before anything is evaluated.

Source: cel-go cel/validator.go, as k8s.io/apiserver/pkg/cel/environment/base.go uses it (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kubevouch.cel.regular_expressions import compiled_pattern
from kubevouch.cel.standard import to_duration, to_timestamp
from kubevouch.cel.values import EvaluationError

_CHECKS: dict[str, Callable[[str], Any]] = {
    "matches": compiled_pattern, "duration": to_duration, "timestamp": to_timestamp,
}  # fmt: skip


def issues(checked: Any, source: str) -> list[str]:
    """What the compiler would say of them.

    Args:
        checked: a ``CheckedExpr`` message of :mod:`kubevouch.cel.syntax`.
    """
    offsets = {each.key: each.value for each in checked.source_info.positions}
    found = []
    for call in _calls(checked.expr):
        argument = call.args[-1] if call.args else None
        if call.function in _CHECKS and argument is not None and argument.const_expr.HasField("string_value"):
            try:
                _CHECKS[call.function](argument.const_expr.string_value)
            except EvaluationError:
                text = f"invalid {call.function} argument"
                found.append(_issue(source, offsets.get(argument.id, 0), text))
    return found


def _calls(message: Any) -> Iterator[Any]:
    if message.DESCRIPTOR.name == "Call":
        yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for each in value if field.is_repeated else (value,):
                yield from _calls(each)


def _issue(source: str, offset: int, text: str) -> str:
    before = source[:offset]
    column = offset - (before.rfind("\n") + 1)
    line = before.count("\n")
    return f"ERROR: <input>:{line + 1}:{column + 1}: {text}\n | {source.splitlines()[line]}\n | {'.' * column}^"
