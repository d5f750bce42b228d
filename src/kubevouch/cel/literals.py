"""Literals that can be seen to be wrong before anything is evaluated.

Source: cel-go cel/validator.go, as k8s.io/apiserver/pkg/cel/environment/base.go uses it (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kubevouch.cel.issues import Issue
from kubevouch.cel.regular_expressions import compiled_pattern
from kubevouch.cel.standard import to_duration, to_timestamp
from kubevouch.cel.tree import Call, Literal, Node, children
from kubevouch.cel.values import EvaluationError

_CHECKS: dict[str, Callable[[str], Any]] = {
    "matches": compiled_pattern, "duration": to_duration, "timestamp": to_timestamp,
}  # fmt: skip


def issues(node: Node) -> list[Issue]:
    """What the compiler would say of them."""
    found: list[Issue] = []
    for call in _calls(node, set()):
        argument = call.args[-1] if call.args else None
        if call.function in _CHECKS and isinstance(argument, Literal) and isinstance(argument.value, str):
            try:
                _CHECKS[call.function](argument.value)
            except EvaluationError:
                found.append(Issue(argument.offset, f"invalid {call.function} argument"))
    return found


def _calls(node: Node, seen: set[int]) -> Iterator[Call]:
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, Call):
        yield node
    for each in children(node):
        yield from _calls(each, seen)
