"""The syntax tree of an expression: what parsers make, the checker annotates and the interpreter runs.

``offset`` is the place in the source, in characters, that an error about the node points at; what a macro made points
at the macro. Nodes compare by identity, since a macro may use one of them twice; whoever walks the tree goes through
such a one once, or a chain of macros would double the work with each link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubevouch.cel.types import Type


@dataclass(slots=True, eq=False)
class Node:
    """One expression. ``type`` is what the checker found, ``step`` what the interpreter made of it."""

    offset: int
    type: Type | None = attribute(default=None, init=False)
    step: Any = attribute(default=None, init=False)


@dataclass(slots=True, eq=False)
class Literal(Node):
    """A constant, in the language's types."""

    value: Any


@dataclass(slots=True, eq=False)
class Ident(Node):
    name: str


@dataclass(slots=True, eq=False)
class Select(Node):
    """A member; ``key`` is its key in a value where the checker knows one that differs from its name."""

    operand: Node
    field: str
    test_only: bool = False
    key: str | None = attribute(default=None, init=False)


@dataclass(slots=True, eq=False)
class Call(Node):
    """A call of a function or, with a target, of a method. ``overloads`` are the signatures that the checker found."""

    function: str
    target: Node | None
    args: Sequence[Node]
    overloads: tuple[str, ...] = attribute(default=(), init=False)


@dataclass(slots=True, eq=False)
class ListLiteral(Node):
    elements: Sequence[Node]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entry:
    offset: int
    key: Node
    value: Node
    optional: bool = False


@dataclass(slots=True, eq=False)
class MapLiteral(Node):
    entries: Sequence[Entry]


@dataclass(slots=True, eq=False)
class FieldEntry:
    offset: int
    name: str
    value: Node
    optional: bool = False


@dataclass(slots=True, eq=False)
class StructLiteral(Node):
    name: str
    entries: Sequence[FieldEntry]


@dataclass(slots=True, eq=False)
class Comprehension(Node):
    """A loop. With ``iter_var2`` the first variable is the index or key, the second the item or value."""

    iter_var: str
    iter_var2: str
    iter_range: Node
    accu_var: str
    accu_init: Node
    loop_condition: Node
    loop_step: Node
    result: Node


def children(node: Node) -> Sequence[Node]:
    """The nodes right below, in the order of the source."""
    if isinstance(node, Select):
        return (node.operand,)
    if isinstance(node, Call):
        return (node.target, *node.args) if node.target is not None else node.args
    if isinstance(node, ListLiteral):
        return node.elements
    if isinstance(node, MapLiteral):
        return [each for entry in node.entries for each in (entry.key, entry.value)]
    if isinstance(node, StructLiteral):
        return [entry.value for entry in node.entries]
    if isinstance(node, Comprehension):
        return (node.iter_range, node.accu_init, node.loop_condition, node.loop_step, node.result)
    return ()
