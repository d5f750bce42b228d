"""The types of the values of a schema in its rules, with what an estimate of costs needs to know of their sizes.

Source: k8s.io/apiserver/pkg/cel/{types,limits,escaping}.go, pkg/cel/common/{schemas,values}.go (Kubernetes 1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

import msgspec

from kubevouch.cel import types
from kubevouch.cel.parser import KEYWORDS, RESERVED
from kubevouch.cel.types import Type
from kubevouch.cel.values import Run, same
from kubevouch.structural.schema import NO_DEFAULT, Schema

MAX_REQUEST: Final = 3 * 1024 * 1024
"""The bytes of the largest object that a request can bring."""

_STRING_MIN, _BOOL_MIN, _NUMBER_MIN, _CONTAINER_MIN = 2, 4, 1, 2
# format: type, least and greatest bytes in JSON.
_FORMATS: Final[Mapping[str, tuple[Type, int, int]]] = {
    "duration": (types.DURATION, 3, 32), "date": (types.TIMESTAMP, 12, 12), "date-time": (types.TIMESTAMP, 21, 32),
}  # fmt: skip
_RESERVED: Final = RESERVED.union(KEYWORDS)
_ESCAPES: Final = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_ESCAPABLE: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_./-]*", re.ASCII)

# In front of the names of structs; no source has it, so it can be found in what a compiler says.
_ROOT: Final = "\0"

Equality = Callable[[Any, Any, Run], bool]
Joining = Callable[[list[Any], list[Any], Run], list[Any]]


def escape(name: str) -> str | None:
    """How rules write the name of a property; None if they cannot."""
    if not _ESCAPABLE.fullmatch(name):
        return None
    if name in _RESERVED:
        return f"__{name}__"
    return re.sub(r"__|[./-]", lambda match: dict(_ESCAPES)[match[0]], name)


class Declared(msgspec.Struct, frozen=True, eq=False):
    """The type of a node.

    Args:
        path: where it is below the root, with escaped names.
        fields: of a struct, by escaped name: the property, and its type.
        elements: how many characters, bytes, items or entries there can be at most.
        least: the bytes that a value takes in JSON at least.
        equality, join: of lists that are sets or maps, and what has such inside, what ``==`` and ``+`` are.
    """

    path: str
    type: Type
    elements: int
    least: int
    fields: Mapping[str, tuple[str, Declared]] | None = None
    key: Declared | None = None
    element: Declared | None = None
    equality: Equality | None = None
    join: Joining | None = None

    def member(self, name: str) -> tuple[str, Type] | None:
        """The property behind a name in a rule, which may be a reserved word, and its type."""
        fields = self.fields or {}
        found = fields.get(name)
        if found is None and name in _RESERVED:
            found = fields.get(f"__{name}__")
        return None if found is None else (found[0], found[1].type)

    def property(self, name: str) -> Declared | None:
        """The type of a property that rules can write."""
        found = (self.fields or {}).get(escape(name) or "")
        return None if found is None else found[1]

    def readable(self, text: str) -> str:
        """What a compiler says about an expression over this type, without the names that are made up here."""
        return text.replace(f"{_ROOT}{self.path}", "selfType1").replace(_ROOT, "selfType1")


_BOOL = Declared("", types.BOOL, 0, _BOOL_MIN)
_INT = Declared("", types.INT, 0, _NUMBER_MIN)
_DOUBLE = Declared("", types.DOUBLE, 0, _NUMBER_MIN)
_KEY = Declared("", types.STRING, 0, _STRING_MIN)


def declared_type(schema: Schema, *, whole: bool = False, path: str = "") -> Declared | None:
    """The type of a node; None if rules cannot see it.

    Args:
        whole: the node is a whole object: it has a name and a kind even if the schema does not say so.
    """
    if schema.int_or_string:
        bound = schema.tree.get("maxLength")
        return Declared(path, types.DYN, MAX_REQUEST - 2 if bound is None else _bound(bound) * 4, _NUMBER_MIN)
    if schema.type == "array":
        return _list(schema, path)
    if schema.type == "object":
        return _object(schema, path, whole=whole)
    if schema.type == "string":
        return _string(schema, path)
    return {"boolean": _BOOL, "number": _DOUBLE, "integer": _INT}.get(schema.type)


def _bound(value: Any) -> int:
    return max(int(value), 0)


def _string(schema: Schema, path: str = "") -> Declared:
    kind = schema.tree.get("format") or ""
    bound = schema.tree.get("maxLength")
    if kind == "byte":
        return Declared(path, types.BYTES, MAX_REQUEST - 2 if bound is None else _bound(bound), _STRING_MIN)
    if kind in _FORMATS:
        known, least, most = _FORMATS[kind]
        return Declared(path, known, most, least)
    if bound is not None:
        # A character takes up to four bytes.
        return Declared(path, types.STRING, _bound(bound) * 4, _STRING_MIN)
    values = schema.tree.get("enum")
    if values:
        longest = max((len(each.encode()) for each in values if isinstance(each, str)), default=0)
        return Declared(path, types.STRING, longest, _STRING_MIN)
    return Declared(path, types.STRING, MAX_REQUEST - 2, _STRING_MIN)


def _list(schema: Schema, path: str) -> Declared | None:
    if schema.items is None:
        return None
    element = declared_type(schema.items, whole=schema.items.embedded, path=f"{path}.@idx")
    if element is None:
        return None
    bound = schema.tree.get("maxItems")
    most = (MAX_REQUEST - 2) // (element.least + 1) if bound is None else _bound(bound)
    equality, join = _list_semantics(schema, element)
    return _with_origin(
        Declared(path, types.list_of(element.type), most, _CONTAINER_MIN, element=element, equality=equality, join=join)
    )


def _object(schema: Schema, path: str, *, whole: bool) -> Declared | None:
    if schema.values is not None:
        element = declared_type(schema.values, whole=schema.values.embedded, path=f"{path}.@elem")
        if element is None:
            return None
        bound = schema.tree.get("maxProperties")
        most = (MAX_REQUEST - 2) // (element.least + 6) if bound is None else _bound(bound)
        kind = types.map_of(types.STRING, element.type)
        equality = None if element.equality is None else _map_equality(element.equality)
        return _with_origin(Declared(path, kind, most, _CONTAINER_MIN, key=_KEY, element=element, equality=equality))
    fields: dict[str, tuple[str, Declared]] = {}
    least, required = _CONTAINER_MIN, frozenset(schema.tree.get("required") or ())
    for name, below in _properties(schema, path, whole=whole).items():
        if below is None:
            continue
        escaped = escape(name)
        if escaped is not None:
            fields[escaped] = (name, below)
        if name in required and (name not in schema.properties or schema.properties[name].default is NO_DEFAULT):
            least += len(name.encode()) + below.least + 4
    special = {name: below.equality for name, below in fields.values() if below.equality is not None}
    equality = _struct_equality(special) if special else None
    return _with_origin(Declared(path, types.struct(f"{_ROOT}{path}"), 0, least, fields=fields, equality=equality))


def _with_origin(declared: Declared) -> Declared:
    """The same, whose type knows whose it is."""
    kind = declared.type
    msgspec.structs.force_setattr(declared, "type", Type(kind.kind, kind.name, kind.parameters, declared))
    return declared


def _properties(schema: Schema, path: str, *, whole: bool) -> dict[str, Declared | None]:
    found: dict[str, Declared | None] = {}
    own = schema.properties
    own_identity = not whole or _declares_identity(schema)
    for name, below in own.items():
        if not own_identity and name in ("apiVersion", "kind", "metadata"):
            continue
        found[name] = declared_type(below, whole=below.embedded, path=f"{path}.{escape(name)}")
    if not own_identity:
        text = Declared("", types.STRING, MAX_REQUEST - 2, _STRING_MIN)
        metadata = f"{path}.metadata"
        fields = {"name": ("name", text), "generateName": ("generateName", text)}
        found["apiVersion"] = found["kind"] = text
        found["metadata"] = _with_origin(
            Declared(metadata, types.struct(f"{_ROOT}{metadata}"), 0, _CONTAINER_MIN, fields=fields)
        )
    return found


def _declares_identity(schema: Schema) -> bool:
    properties = schema.properties
    metadata = properties.get("metadata")
    return (
        all(name in properties and properties[name].type == "string" for name in ("kind", "apiVersion"))
        and metadata is not None
        and metadata.type == "object"
        and all(
            name in metadata.properties and metadata.properties[name].type == "string"
            for name in ("name", "generateName")
        )
    )


# ------------------------------------------------------------------ equality and joining of sets and maps

_CONTAINER_WORK: Final = 3


def _list_semantics(schema: Schema, element: Declared) -> tuple[Equality | None, Joining | None]:
    alike = element.equality or same
    if schema.list_type == "set":
        return _set_equality, _join_sets
    if schema.list_type == "map":

        def key(item: Any) -> Hashable:
            return tuple(_hashable(item.get(name)) for name in schema.map_keys) if isinstance(item, dict) else None

        return _keyed_equality(key, alike), _keyed_join(key)
    return None if element.equality is None else _ordered_equality(element.equality), None


def _hashable(value: Any) -> Hashable:
    return str(value) if isinstance(value, (dict, list)) else (type(value) is bool, value)


def _set_equality(left: Any, right: Any, run: Run) -> bool:
    if not isinstance(right, list) or not isinstance(left, list):
        return same(left, right, run)
    run.work(_CONTAINER_WORK + len(left) + len(right))
    return len(left) == len(right) and {_hashable(each) for each in right} <= {_hashable(each) for each in left}


def _join_sets(left: list[Any], right: list[Any], run: Run) -> list[Any]:
    run.spend(1)
    run.work(len(left) + len(right))
    known = {_hashable(each) for each in left}
    return left + [each for each in right if _hashable(each) not in known]


def _keyed_equality(key: Callable[[Any], Hashable], alike: Equality) -> Equality:
    def keyed(left: Any, right: Any, run: Run) -> bool:
        if not isinstance(right, list) or not isinstance(left, list):
            return same(left, right, run)
        run.work(_CONTAINER_WORK + len(left) + len(right))
        known = {key(each): each for each in left}
        return len(left) == len(right) and all(
            key(each) in known and alike(known[key(each)], each, run) for each in right
        )

    return keyed


def _keyed_join(key: Callable[[Any], Hashable]) -> Joining:
    def join(left: list[Any], right: list[Any], run: Run) -> list[Any]:
        run.spend(1)
        run.work(len(left) + len(right))
        joined = {key(each): each for each in left}
        joined.update((key(each), each) for each in right)
        return list(joined.values())

    return join


def _ordered_equality(alike: Equality) -> Equality:
    def ordered(left: Any, right: Any, run: Run) -> bool:
        if not isinstance(right, list) or not isinstance(left, list):
            return same(left, right, run)
        run.work(_CONTAINER_WORK + len(left))
        return len(left) == len(right) and all(alike(*pair, run) for pair in zip(left, right, strict=True))

    return ordered


def _map_equality(alike: Equality) -> Equality:
    def mapped(left: Any, right: Any, run: Run) -> bool:
        if not isinstance(right, dict) or not isinstance(left, dict):
            return same(left, right, run)
        run.work(_CONTAINER_WORK + len(left))
        return len(left) == len(right) and all(
            name in right and alike(value, right[name], run) for name, value in left.items()
        )

    return mapped


def _struct_equality(special: Mapping[str, Equality]) -> Equality:
    def of_members(left: Any, right: Any, run: Run) -> bool:
        if not isinstance(right, dict) or not isinstance(left, dict):
            return same(left, right, run)
        run.work(_CONTAINER_WORK + len(left))
        return len(left) == len(right) and all(
            name in right and special.get(name, same)(value, right[name], run) for name, value in left.items()
        )

    return of_members
