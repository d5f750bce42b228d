"""Literals that can be seen to be wrong before anything is evaluated.

Source: cel-go cel/validator.go, as k8s.io/apiserver/pkg/cel/environment/base.go uses it (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kubevouch.cel.issues import Issue
from kubevouch.cel.regular_expressions import compiled_pattern
from kubevouch.cel.standard import to_duration, to_timestamp
from kubevouch.cel.tree import Call, ListLiteral, Literal, MapLiteral, Node, children
from kubevouch.cel.types import DYN, Type, unwrapped
from kubevouch.cel.values import EvaluationError

_CHECKS: dict[str, Callable[[str], Any]] = {
    "matches": compiled_pattern, "duration": to_duration, "timestamp": to_timestamp,
}  # fmt: skip


def issues(tree: Node) -> list[Issue]:
    """What the compiler would say of them.

    Args:
        tree: with types.
    """
    found: list[Issue] = []
    for node, is_formatted in _nodes(tree):
        if isinstance(node, Call):
            found += _argument_issues(node)
        elif not is_formatted:
            # What is formatted may be of any types, in lists and maps alike.
            found += _mixture_issues(node)
    return found


def _argument_issues(call: Call) -> list[Issue]:
    argument = call.args[-1] if call.args else None
    if call.function in _CHECKS and isinstance(argument, Literal) and isinstance(argument.value, str):
        try:
            _CHECKS[call.function](argument.value)
        except EvaluationError:
            return [Issue(argument.offset, f"invalid {call.function} argument")]
    return []


def _mixture_issues(node: Node) -> list[Issue]:
    """At most one for the items of a list, and one for a map."""
    if isinstance(node, ListLiteral):
        found = _mixture([(each, place in node.optional) for place, each in enumerate(node.elements)])
    elif isinstance(node, MapLiteral):
        keys = _mixture([(entry.key, False) for entry in node.entries])
        found = keys or _mixture([(entry.value, entry.optional) for entry in node.entries])
    else:
        return []
    return [] if found is None else [found]


def _mixture(elements: Sequence[tuple[Node, bool]]) -> Issue | None:
    first: Type | None = None
    for element, is_optional in elements:
        kind = element.type or DYN
        kind = unwrapped(kind)[0] if is_optional else kind
        if first is None:
            first = kind
        elif kind != first:
            return Issue(element.offset, f"expected type '{first}' but found '{kind}'")
    return None


def _nodes(tree: Node) -> Iterator[tuple[Node, bool]]:
    """All nodes, and whether each is below a call that formats."""
    seen: set[int] = set()

    def walk(node: Node, is_formatted: bool) -> Iterator[tuple[Node, bool]]:
        if id(node) in seen:
            return
        seen.add(id(node))
        yield node, is_formatted
        is_formatted = is_formatted or (isinstance(node, Call) and node.function == "format")
        for each in children(node):
            yield from walk(each, is_formatted)

    return walk(tree, False)
