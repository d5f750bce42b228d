"""The 2.0 document as protobuf: gnostic's ``openapi.v2.Document``, the only form client-go asks for.

Field numbers: google/gnostic openapiv2/OpenAPIv2.proto. Maps are lists of names and values there, and a value that has
no message of its own is YAML, of which JSON is a part. Only what ``v2.py`` and ``custom.py`` write is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from struct import pack
from typing import TypeVar

from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.codec.protobuf import length_delimited, varint
from kubevouch.server.openapi.schemas import Tree

V = TypeVar("V")

_UINT64 = (1 << 64) - 1
_PATH_METHODS = (("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("head", 7), ("patch", 8))


def encode(document: Tree) -> bytes:
    """The whole document."""
    return assemble(document, [paths(document["paths"])], [definitions(document["definitions"])])


def paths(items: Mapping[str, Tree]) -> bytes:
    """A piece of the document's paths."""
    parameters = _Parameters()
    return _named(2, items, lambda item: _path_item(item, parameters))


def definitions(trees: Mapping[str, Tree]) -> bytes:
    """A piece of the document's definitions."""
    return _named(1, trees, _schema)


def assemble(frame: Tree, paths: Iterable[bytes], definitions: Iterable[bytes]) -> bytes:
    """The document of pieces, and of what ``frame`` has beside them."""
    security = (_named(1, item, lambda scopes: _texts(1, scopes)) for item in frame["security"])
    schemes = _named(1, frame["securityDefinitions"], lambda item: length_delimited(2, _api_key(item)))
    return b"".join(
        (
            _text(1, frame["swagger"]),
            length_delimited(2, _text(1, frame["info"]["title"]) + _text(2, frame["info"]["version"])),
            length_delimited(8, b"".join(paths)),
            length_delimited(9, b"".join(definitions)),
            *(length_delimited(12, item) for item in security),
            length_delimited(13, schemes),
        )
    )


# ------------------------------------------------------------------ pieces


def _text(number: int, value: str) -> bytes:
    return length_delimited(number, value.encode())


def _optional_text(number: int, tree: Tree, key: str) -> bytes:
    value = tree.get(key)
    return _text(number, value) if value else b""


def _texts(number: int, values: Iterable[str]) -> bytes:
    return b"".join(_text(number, value) for value in values)


def _true(number: int) -> bytes:
    """A bool that is set; false is not written. One byte of tag holds the numbers below 16, and no other is used."""
    return bytes((number << 3, 1))


def _flag(number: int, tree: Tree, key: str) -> bytes:
    return _true(number) if tree.get(key) else b""


def _named(number: int, values: Mapping[str, V], encode_value: Callable[[V], bytes]) -> bytes:
    """A map: messages of a name and a value."""
    return b"".join(
        length_delimited(number, _text(1, name) + length_delimited(2, encode_value(value)))
        for name, value in sorted(values.items())
    )


def _any(value: object) -> bytes:
    return length_delimited(2, json_codec.encode(value))


def _extensions(number: int, tree: Tree) -> bytes:
    return _named(number, {key: value for key, value in tree.items() if key.startswith("x-")}, _any)


# ------------------------------------------------------------------ schemas


_DOUBLES = (("multipleOf", 6), ("maximum", 7), ("minimum", 9))
_LENGTHS = (
    ("maxLength", 11), ("minLength", 12), ("maxItems", 14), ("minItems", 15), ("maxProperties", 17),
    ("minProperties", 18),
)  # fmt: skip
_FLAGS = (("exclusiveMaximum", 8), ("exclusiveMinimum", 10))


def _schema(tree: Tree) -> bytes:
    out = [
        _optional_text(1, tree, "$ref"),
        _optional_text(2, tree, "format"),
        _optional_text(3, tree, "title"),
        _optional_text(4, tree, "description"),
    ]
    out += (pack("<Bd", number << 3 | 1, tree[key]) for key, number in _DOUBLES if key in tree)
    out += (_flag(number, tree, key) for key, number in _FLAGS)
    out += (varint(number << 3) + varint(tree[key] & _UINT64) for key, number in _LENGTHS if key in tree)
    out.append(_optional_text(13, tree, "pattern"))
    out.append(_texts(19, tree.get("required", ())))
    out += (length_delimited(20, _any(value)) for value in tree.get("enum", ()))
    if "additionalProperties" in tree:
        out.append(length_delimited(21, _additional(tree["additionalProperties"])))
    if "type" in tree:
        out.append(length_delimited(22, _text(1, tree["type"])))
    if "items" in tree:
        out.append(length_delimited(23, length_delimited(1, _schema(tree["items"]))))
    if "properties" in tree:
        out.append(length_delimited(25, _named(1, tree["properties"], _schema)))
    if "externalDocs" in tree:
        documentation = tree["externalDocs"]
        out.append(
            length_delimited(
                29, _optional_text(1, documentation, "description") + _optional_text(2, documentation, "url")
            )
        )
    out.append(_extensions(31, tree))
    return b"".join(out)


def _additional(value: Tree | bool) -> bytes:
    if isinstance(value, bool):
        return bytes((2 << 3, value))
    return length_delimited(1, _schema(value))


def _api_key(tree: Tree) -> bytes:
    return _text(1, tree["type"]) + _text(2, tree["name"]) + _text(3, tree["in"]) + _text(4, tree["description"])


# ------------------------------------------------------------------ paths


class _Parameters:
    """Parameters, each encoded once: the operations share them."""

    def __init__(self) -> None:
        self._encoded: dict[int, bytes] = {}

    def encode(self, number: int, parameters: list[Tree]) -> bytes:
        return b"".join(length_delimited(number, self._one(parameter)) for parameter in parameters)

    def _one(self, parameter: Tree) -> bytes:
        found = self._encoded.get(id(parameter))
        if found is None:
            found = self._encoded[id(parameter)] = length_delimited(1, _parameter(parameter))
        return found


def _parameter(parameter: Tree) -> bytes:
    if parameter["in"] == "body":
        return length_delimited(1, _body(parameter))
    in_query = parameter["in"] == "query"
    type_number = 6 if in_query else 5  # queries may be empty, which takes number 5 there
    fields = (
        _flag(1, parameter, "required"),
        _text(2, parameter["in"]),
        _text(3, parameter["description"]),
        _text(4, parameter["name"]),
        _text(type_number, parameter["type"]),
        _optional_text(type_number + 1, parameter, "format"),
    )
    return length_delimited(2, length_delimited(3 if in_query else 4, b"".join(fields)))


def _body(parameter: Tree) -> bytes:
    return b"".join(
        (
            _text(2, parameter["name"]),
            _text(3, parameter["in"]),
            _flag(4, parameter, "required"),
            length_delimited(5, _schema(parameter["schema"])),
        )
    )


def _path_item(item: Tree, parameters: _Parameters) -> bytes:
    out = [
        length_delimited(number, _operation(item[method], parameters))
        for method, number in _PATH_METHODS
        if method in item
    ]
    out.append(parameters.encode(9, item.get("parameters", [])))
    return b"".join(out)


def _operation(operation: Tree, parameters: _Parameters) -> bytes:
    return b"".join(
        (
            _texts(1, operation["tags"]),
            _text(3, operation["description"]),
            _text(5, operation["operationId"]),
            _texts(6, operation["produces"]),
            _texts(7, operation.get("consumes", ())),
            parameters.encode(8, operation.get("parameters", [])),
            length_delimited(9, _named(1, operation["responses"], lambda item: length_delimited(1, _response(item)))),
            _texts(10, operation["schemes"]),
            _flag(11, operation, "deprecated"),
            _extensions(13, operation),
        )
    )


def _response(answer: Tree) -> bytes:
    out = _text(1, answer["description"])
    if "schema" in answer:
        out += length_delimited(2, length_delimited(1, _schema(answer["schema"])))
    return out
