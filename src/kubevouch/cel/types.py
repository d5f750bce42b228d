"""The types of the checker, and when one can stand for another.

Source: cel-go checker/{types,mapping,format}.go, common/types/types.go (0.26).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Type:
    """A type.

    Args:
        kind: which of the constructors below.
        name: what prints for it; of a struct, an opaque type and a parameter it is what makes it that one.
        origin: what whoever declared it knows of it. Two types are equal without it.
    """

    kind: str
    name: str
    parameters: tuple[Type, ...] = ()
    origin: Any = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


DYN: Final = Type("dyn", "dyn")
ERROR: Final = Type("error", "!error!")
NULL: Final = Type("null", "null")
BOOL, INT, UINT, DOUBLE, STRING, BYTES = (
    Type(each, each) for each in ("bool", "int", "uint", "double", "string", "bytes")
)
DURATION, TIMESTAMP = Type("duration", "duration"), Type("timestamp", "timestamp")
_NULLABLE: Final = frozenset({"null", "opaque", "struct", "duration", "timestamp"})
OPTIONAL: Final = "optional_type"


def list_of(element: Type, origin: Any = None) -> Type:
    return Type("list", "list", (element,), origin)


def map_of(key: Type, value: Type, origin: Any = None) -> Type:
    return Type("map", "map", (key, value), origin)


def type_of(described: Type) -> Type:
    return Type("type", "type", (described,))


def optional_of(inner: Type) -> Type:
    return Type("opaque", OPTIONAL, (inner,))


def parameter(name: str) -> Type:
    return Type("param", name)


def struct(name: str, origin: Any = None) -> Type:
    return Type("struct", name, (), origin)


def opaque(name: str) -> Type:
    return Type("opaque", name)


def unwrapped(kind: Type) -> tuple[Type, bool]:
    """The type inside an optional one, and whether it was one."""
    if kind.kind == "opaque" and kind.name == OPTIONAL:
        return kind.parameters[0], True
    return kind, False


Mappings = dict[str, Type]
"""What parameters stand for, by their names."""


def assignable(mappings: Mappings, left: Sequence[Type], right: Sequence[Type]) -> Mappings | None:
    """The mappings under which each type on the left can be what is on the right; None if there are none."""
    if len(left) != len(right):
        return None
    grown = dict(mappings)
    return grown if all(_fits(grown, *pair) for pair in zip(left, right, strict=True)) else None


def _fits(mappings: Mappings, left: Type, right: Type) -> bool:
    if right.kind == "param":
        valid, known = _substitutes(mappings, left, right)
        if valid:
            return True
        if known:
            return False
    if left.kind == "param":
        return _substitutes(mappings, right, left)[0]
    if left.kind in ("dyn", "error") or right.kind in ("dyn", "error"):
        return True
    if left.kind == "null" or right.kind == "null":
        return (right if left.kind == "null" else left).kind in _NULLABLE
    if left.kind != right.kind:
        return False
    if left.kind == "type":
        return True
    if left.kind in ("struct", "opaque") and left.name != right.name:
        return False
    return len(left.parameters) == len(right.parameters) and all(
        _fits(mappings, *pair) for pair in zip(left.parameters, right.parameters, strict=True)
    )


def _substitutes(mappings: Mappings, kind: Type, param: Type) -> tuple[bool, bool]:
    """Whether the parameter may stand for the type, and whether it stands for something already."""
    if kind == param:
        return True, True
    known = mappings.get(param.name)
    if known is not None:
        if kind == known:
            return True, True
        if _fits(mappings, kind, known):
            general = most_general(kind, known)
            if not _occurs(mappings, param, general):
                mappings[param.name] = general
            return True, True
        return False, True
    if _occurs(mappings, param, kind):
        return False, False
    mappings[param.name] = kind
    return True, False


def _occurs(mappings: Mappings, param: Type, within: Type) -> bool:
    if within == param:
        return True
    if within.kind == "param":
        known = mappings.get(within.name)
        return known is not None and _occurs(mappings, param, known)
    return any(_occurs(mappings, param, each) for each in within.parameters)


def most_general(left: Type, right: Type) -> Type:
    return left if _no_more_specific(left, right) else right


def _no_more_specific(left: Type, right: Type) -> bool:
    if left.kind in ("dyn", "param"):
        return True
    if right.kind in ("dyn", "param") or left.kind != right.kind:
        return False
    if left.kind == "type":
        return True
    return (
        left.name == right.name
        and len(left.parameters) == len(right.parameters)
        and all(_no_more_specific(*pair) for pair in zip(left.parameters, right.parameters, strict=True))
    )


def substitute(mappings: Mapping[str, Type], kind: Type, *, free_to_dyn: bool = False) -> Type:
    """The type with what its parameters stand for; those that stand for nothing become any if asked so."""
    if kind.kind == "param":
        known = mappings.get(kind.name)
        if known is not None:
            return substitute(mappings, known, free_to_dyn=free_to_dyn)
        return DYN if free_to_dyn else kind
    if not kind.parameters:
        return kind
    parameters = tuple(substitute(mappings, each, free_to_dyn=free_to_dyn) for each in kind.parameters)
    return kind if parameters == kind.parameters else replace(kind, parameters=parameters)
