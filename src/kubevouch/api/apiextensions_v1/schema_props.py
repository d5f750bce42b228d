"""JSONSchemaProps: the schema of a version as people write it, kept as a JSON tree.

It is recursive, and three of its fields hold a schema or something else; so it reads and writes its own forms. What is
empty and what is unknown is not in the tree.

Sources: types_jsonschema.go and marshal.go of k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1 (Kubernetes
1.36).
"""

from __future__ import annotations

import zlib
from functools import cache, lru_cache
from typing import Any, ForwardRef

import msgspec

from kubevouch.api.apiextensions_v1.schema_fields import (
    FIELDS,
    KEPT,
    ExternalDocumentation,
    Kind,
    ValidationRule,
)
from kubevouch.machinery.codec import gojson, json_codec
from kubevouch.machinery.codec.json_codec import UnmarshalError
from kubevouch.machinery.declaration import Int64, Note, Opaque, Struct
from kubevouch.structural.equality import same
from kubevouch.structural.schema import MAX_DEPTH, TooDeep

_ORDER = {name: number for number, name in enumerate(FIELDS)}
_GO = "JSONSchemaProps"


class JSONSchemaProps(Opaque):
    """A schema; ``tree`` holds builtins and is never changed.

    What is stored keeps its message or its JSON alone, compressed. A tree takes fifty times as much memory, and few of
    hundreds of schemas are looked into at a time.

    Raises:
        ProtobufError, UnmarshalError: where ``tree`` is asked for, of a message or JSON that is none.
    """

    __slots__ = ("_is_json", "_packed", "_tree")

    def __init__(self, tree: dict[str, Any]) -> None:
        self._tree: dict[str, Any] | None = tree
        self._packed: bytes | None = None
        self._is_json = False

    @property
    def tree(self) -> dict[str, Any]:
        tree, packed = self._tree, self._packed
        if tree is not None or packed is None:
            return tree or {}
        return _unpacked(packed, self._is_json)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JSONSchemaProps):
            return False
        if self._packed is not None and (self._packed, self._is_json) == (other._packed, other._is_json):
            return True
        return same(self.tree, other.tree)

    __hash__ = None  # type: ignore[assignment]  # it holds lists

    def __repr__(self) -> str:
        return f"JSONSchemaProps({self.tree!r})"

    @classmethod
    def from_tree(cls, tree: Any, note: Note, stack: str, path: str) -> JSONSchemaProps:
        return tree if isinstance(tree, cls) else cls(_schema(tree, note, stack, path, 0))

    @classmethod
    def from_message(cls, data: bytes) -> JSONSchemaProps:
        found = cls({})
        found._packed, found._tree = zlib.compress(data, 1), None
        return found

    @classmethod
    def from_stored(cls, tree: dict[str, Any]) -> JSONSchemaProps:
        """From the JSON of a definition that was stored; looked into no further than that it is a schema.

        Raises:
            UnmarshalError
        """
        try:
            msgspec.convert(tree, _shape())
        except (msgspec.ValidationError, RecursionError) as err:
            raise UnmarshalError(str(err)) from err
        found = cls({})
        found._packed, found._tree = zlib.compress(msgspec.json.encode(tree), 1), None
        found._is_json = True
        return found

    def to_message(self) -> bytes:
        packed, tree = self._packed, self._tree
        if packed is not None and not self._is_json:
            return zlib.decompress(packed)
        from kubevouch.api.apiextensions_v1 import schema_message

        message = schema_message.pack(self.tree if tree is None else tree)
        if packed is None:
            self._packed = zlib.compress(message, 1)
            self._tree = None
        return message

    def to_stored(self) -> dict[str, Any]:
        """The tree, with values of JSON as Go writes them: it has kept their members in a map."""
        return _stored(self.tree)


@cache
def _shape() -> type[msgspec.Struct]:
    """What a schema has to be so that :func:`_schema` reads it, for a look that takes a hundredth of the time."""
    props: Any = ForwardRef("_Props")
    kinds: dict[Kind, Any] = {
        "string": str, "bool": bool, "int64": Int64, "double": float, "json": Any, "jsons": list[Any],
        "strings": list[str | None], "schema": props, "schemas": list[props | None],
        "schema_map": dict[str, props | None], "or_bool": bool | props,
        "or_array": list[props | None] | props,
        "or_strings_map": dict[str, list[str | None] | props | None],
        "documentation": ExternalDocumentation, "rules": list[ValidationRule | None],
    }  # fmt: skip
    fields = [(f"f{field.number}", kinds[field.kind] | None, None) for field in FIELDS.values()]
    names = {f"f{field.number}": name for name, field in FIELDS.items()}
    made = msgspec.defstruct("_Props", fields, module=__name__, rename=names)
    globals()["_Props"] = made  # where the type that holds itself is looked for
    return made


def _stored(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: _stored_value(value, FIELDS[name].kind) for name, value in schema.items()}


def _stored_value(value: Any, kind: Kind) -> Any:
    if kind in ("json", "jsons"):
        return msgspec.Raw(json_codec.encode_sorted(value))
    if kind == "double":
        return gojson.go_numbers(value)
    if kind in ("schema_map", "or_strings_map"):
        return {key: _stored(item) if isinstance(item, dict) else item for key, item in value.items()}
    if kind in ("schema", "or_bool", "or_array", "schemas"):
        if isinstance(value, dict):
            return _stored(value)
        return [_stored(item) for item in value] if isinstance(value, list) else value
    return value


@lru_cache(maxsize=4)
def _unpacked(packed: bytes, is_json: bool) -> dict[str, Any]:
    """Of those that a request or a change of a definition looks into, one time after another."""
    if is_json:
        return _schema(gojson.loads(zlib.decompress(packed)), _silent, "", "", 0)
    from kubevouch.api.apiextensions_v1 import schema_message

    return schema_message.unpack(zlib.decompress(packed))


# ------------------------------------------------------------------ reading JSON


def _silent(_what: str, _path: str) -> None:
    """Go's own unmarshallers read what is inside of them without strictness."""


def _misfit(value: Any, stack: str, kind: str) -> UnmarshalError:
    got = json_codec.go_kind(value)
    where = f"struct field {_GO}.{stack}" if stack else "value"
    return UnmarshalError(f"json: cannot unmarshal {got} into Go {where} of type {kind}")


def _schema(tree: Any, note: Note, stack: str, path: str, depth: int) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise _misfit(tree, stack, f"v1.{_GO}")
    if depth > MAX_DEPTH:
        raise UnmarshalError(str(TooDeep()))
    if isinstance(tree, gojson.Duplicates):
        for key in tree.repeated:
            note("duplicate", f"{path}.{key}")
    found: dict[str, Any] = {}
    for key, value in tree.items():
        field = FIELDS.get(key)
        if field is None:
            note("unknown", f"{path}.{key}")
            continue
        if value is None:
            continue
        at = f"{stack}.{key}" if stack else key
        read = _value(value, field.kind, note, at, f"{path}.{key}", depth + 1)
        if read or field.pointer or field.kind in KEPT:
            found[key] = read
    return dict(sorted(found.items(), key=lambda item: _ORDER[item[0]]))


_GO_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "string"), "bool": (bool, "bool"), "double": ((int, float), "float64"), "int64": (int, "int64"),
}  # fmt: skip


def _value(value: Any, kind: Kind, note: Note, stack: str, path: str, depth: int) -> Any:
    if kind in _GO_TYPES:
        return _scalar(value, kind, stack)
    if kind == "json":
        return gojson.plain(value)
    if kind == "schema":
        return _schema(value, note, stack, path, depth)
    if kind == "or_bool":
        return _or_bool(value, depth)
    if kind == "or_array":
        return _or_array(value, depth)
    if kind == "documentation":
        return _struct(value, ExternalDocumentation, note, stack, path)
    if kind in ("schema_map", "or_strings_map"):
        return _map(value, kind, note, stack, path, depth)
    return _list(value, kind, note, stack, path, depth)


def _scalar(value: Any, kind: Kind, stack: str) -> Any:
    accepted, name = _GO_TYPES[kind]
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind != "bool"):
        if kind == "int64" and isinstance(value, gojson.Number):
            raise UnmarshalError(
                f"json: cannot unmarshal number {value.text[:64]} into Go struct field {_GO}.{stack} of type int64"
            )
        raise _misfit(value, stack, name)
    if isinstance(value, int) and kind == "int64" and not -(1 << 63) <= value < 1 << 63:
        raise UnmarshalError(
            f"json: cannot unmarshal number {str(value)[:64]} into Go struct field {_GO}.{stack} of type int64"
        )
    return gojson.plain(value)


def _or_bool(value: Any, depth: int) -> Any:
    if isinstance(value, bool):
        return value
    if not isinstance(value, dict):
        raise UnmarshalError("boolean or JSON schema expected")
    return _schema(value, _silent, "", "", depth)


def _or_array(value: Any, depth: int) -> Any:
    if isinstance(value, dict):
        return _schema(value, _silent, "", "", depth)
    if isinstance(value, list):
        return [_schema(item or {}, _silent, "", "", depth) for item in value]
    # Neither is what Go leaves empty, and writes as null.
    return {}


def _struct(value: Any, struct: type[Struct], note: Note, stack: str, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _misfit(value, stack, f"v1.{struct.__name__}")
    decoded = json_codec.from_tree(value, struct)
    for complaint in decoded.strict_errors:
        what, _, name = complaint.partition(' field "')
        note(what, f"{path}.{name[:-1]}")
    found: dict[str, Any] = json_codec.to_builtins(decoded.value)
    return found


def _map(value: Any, kind: Kind, note: Note, stack: str, path: str, depth: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _misfit(value, stack, f"map[string]v1.{_GO}" if kind == "schema_map" else f"v1.{_GO}Dependencies")
    found: dict[str, Any] = {}
    for key in sorted(value):
        item = value[key]
        if kind == "schema_map":
            found[key] = _schema({} if item is None else item, note, stack, f"{path}.{key}", depth)
        elif isinstance(item, list):
            found[key] = [_scalar(each, "string", "") for each in item]
        else:
            found[key] = _or_array(item, depth)
    return found


def _list(value: Any, kind: Kind, note: Note, stack: str, path: str, depth: int) -> list[Any]:
    if not isinstance(value, list):
        types = {"strings": "[]string", "jsons": "[]v1.JSON", "schemas": f"[]v1.{_GO}", "rules": "v1.ValidationRules"}
        raise _misfit(value, stack, types[kind])
    found = []
    for index, item in enumerate(value):
        at = f"{path}[{index}]"
        if kind == "strings":
            found.append("" if item is None else _scalar(item, "string", stack))
        elif kind == "jsons":
            found.append(gojson.plain(item))
        elif kind == "schemas":
            found.append(_schema({} if item is None else item, note, stack, at, depth))
        else:
            found.append(_struct({} if item is None else item, ValidationRule, note, stack, at))
    return found
