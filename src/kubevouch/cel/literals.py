"""Literals that can be seen to be wrong before anything is evaluated.

Source: cel-go cel/validator.go, ext/formatting.go (0.26), as k8s.io/apiserver/pkg/cel/environment/base.go uses them
(Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kubevouch.cel.issues import Issue
from kubevouch.cel.library.formatting import FORMATTED, Clause, clauses, wrong
from kubevouch.cel.regular_expressions import compiled_pattern
from kubevouch.cel.standard import to_duration, to_timestamp
from kubevouch.cel.tree import Call, ListLiteral, Literal, MapLiteral, Node, children
from kubevouch.cel.types import DYN, Type, unwrapped
from kubevouch.cel.values import EvaluationError

_CHECKS: dict[str, Callable[[str], Any]] = {
    "matches": compiled_pattern, "duration": to_duration, "timestamp": to_timestamp,
}  # fmt: skip
_SEARCHES = ("find", "findAll")
_RUNTIME_NAMES = {
    "duration": "google.protobuf.Duration", "null": "null_type", "timestamp": "google.protobuf.Timestamp",
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
            found += _format_issues(node)
        elif not is_formatted:
            # What is formatted may be of any types, in lists and maps alike.
            found += _mixture_issues(node)
    return found


def _argument_issues(call: Call) -> list[Issue]:
    argument = call.args[0] if call.args else None
    if call.function in _CHECKS and isinstance(argument, Literal):
        try:
            _CHECKS[call.function](argument.value)
        except EvaluationError:
            return [Issue(argument.offset, f"invalid {call.function} argument")]
    return []


def _format_issues(call: Call) -> list[Issue]:
    """At most one, of a template whose arguments are listed."""
    template, arguments = call.target, call.args[0] if call.args else None
    if call.function != "format" or not isinstance(template, Literal) or not isinstance(arguments, ListLiteral):
        return []
    given, seen = arguments.elements, 0
    try:
        for part in clauses(template.value, len(given)):
            if isinstance(part, Clause):
                seen += 1
                node = _unformattable(part.letter, given[part.index])
                if node is not None:
                    return [Issue(node.offset, wrong(part.letter, _runtime_name(node.type or DYN)))]
    except EvaluationError as err:
        return [Issue(call.offset, str(err))]
    if len(given) > seen:
        text = f"too many arguments supplied to string.format (expected {seen}, got {len(given)})"
        return [Issue(call.offset, text)]
    return []


def _unformattable(letter: str, node: Node) -> Node | None:
    """What of an argument has not a type that such a clause takes."""
    if node.type is not None and node.type.kind not in ("dyn", *FORMATTED[letter]):
        return node
    if letter == "s" and isinstance(node, ListLiteral | MapLiteral):
        return next((found for each in children(node) if (found := _unformattable(letter, each))), None)
    return None


def _runtime_name(kind: Type) -> str:
    return _RUNTIME_NAMES.get(kind.kind, kind.name)


def instantiation_error(tree: Node) -> str:
    """What keeps a program from being made of a tree that has no issues, or nothing."""
    for node, _ in _nodes(tree):
        pattern = node.args[0] if isinstance(node, Call) and node.target and node.args else None
        if isinstance(node, Call) and node.function in _SEARCHES and isinstance(pattern, Literal):
            try:
                compiled_pattern(pattern.value)
            except EvaluationError as err:
                return str(err)
    return ""


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
