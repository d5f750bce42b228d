"""Lists in pieces: others have their turn between two of them, and a client takes them as fast as it can.

A list that is not long is one piece. Joined, the pieces are the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from kubevouch.machinery.codec import gojson, json_codec, protobuf, yamltext
from kubevouch.server.negotiation import Negotiated

T = TypeVar("T")
Body = Callable[[T], bytes]

# A piece ends after so many items or bytes: 1 to 7 ms, whether the items have been encoded before or not.
PIECE_ITEMS = 250
PIECE_BYTES = 256 * 1024
# YAML is some hundred times slower.
YAML_ITEMS = 5
_NEXT_LINE = re.compile(r"\n(?=[^\n])")


def document(head: bytes, name: str, items: Sequence[T], body: Body[T], how: Negotiated) -> Iterator[bytes]:
    """A JSON object as JSON or YAML.

    Args:
        head: the object without its last member, the array ``name``.
        body: makes the JSON of an item.
    """
    if how.encoding == "yaml":
        return _yaml(head, name, items, body)
    member = b'"' + name.encode() + b'":'
    if not how.pretty:
        return _framed(head[:-1] + b"," + member + b"[", b",", b"]}\n", len(items), _slices(items, body))
    if not items:
        return iter((json_codec.indent(head[:-1] + b"," + member + b"[]}") + b"\n",))
    opening = json_codec.indent(head)[: -len("\n}")] + b",\n  " + member + b" [\n    "
    bodies = _slices(items, lambda item: _indented(body(item)))
    return _framed(opening, b",\n    ", b"\n  ]\n}\n", len(items), bodies)


def message(api_version: str, kind: str, head: bytes, items: Sequence[T], body: Body[T]) -> Iterator[bytes]:
    """A list in its protobuf envelope; ``head`` is the field in front of the items.

    Lengths stand first, so every item is encoded before anything can be sent: the first pieces are empty.
    """
    fields: list[bytes] = []
    size = len(head)
    for part in _slices(items, body):
        for each in part:
            start = protobuf.field_head(2, len(each))
            fields += start, each
            size += len(start) + len(each)
        if len(fields) < 2 * len(items):
            yield b""
    opening, closing = protobuf.seal_around(api_version, kind, size)
    yield from _framed(opening + head, b"", closing, len(fields), _slices(fields, lambda each: each, 2 * PIECE_ITEMS))


def _slices(items: Sequence[T], body: Body[T], most: int = PIECE_ITEMS) -> Iterator[list[bytes]]:
    """The bodies, as many together as make up a piece; at least one list."""
    part: list[bytes] = []
    size = 0
    for item in items:
        if len(part) == most or size >= PIECE_BYTES:
            yield part
            part, size = [], 0
        made = body(item)
        part.append(made)
        size += len(made)
    yield part


def _framed(
    opening: bytes, separator: bytes, closing: bytes, count: int, slices: Iterator[list[bytes]]
) -> Iterator[bytes]:
    """``count`` bodies with what stands around and between them."""
    before = opening
    for part in slices:
        count -= len(part)
        yield before + separator.join(part) + (b"" if count else closing)
        before = separator


def _indented(body: bytes) -> bytes:
    return json_codec.indent(body).replace(b"\n", b"\n    ")


def _yaml(head: bytes, name: str, items: Sequence[T], body: Body[T]) -> Iterator[bytes]:
    """Keys are sorted, so the array may stand in the middle."""
    tree = gojson.loads(head)
    before, after = (_mapping({key: tree[key] for key in tree if test(key)}) for test in (name.__gt__, name.__lt__))
    if not items:
        return iter((before + _mapping({name: []}) + after,))
    entries = _slices(items, lambda item: _entry(body(item)), YAML_ITEMS)
    return _framed(before + name.encode() + b":\n", b"", after, len(items), entries)


def _mapping(tree: dict[str, object]) -> bytes:
    return yamltext.dumps(tree).encode() if tree else b""


def _entry(body: bytes) -> bytes:
    """An item of a block sequence. A line without text stays so: it is in a block scalar."""
    text = yamltext.dumps(gojson.loads(body))
    return b"- " + _NEXT_LINE.sub("\n  ", text).encode()
