"""server/pieces.py: joined, the pieces are the document that would be written in one go."""

import json
from itertools import pairwise

import pytest

from kubevouch.machinery.codec import gojson, json_codec, protobuf, yamltext
from kubevouch.server import pieces
from kubevouch.server.negotiation import Negotiated
from kubevouch.server.pieces import PIECE_BYTES, PIECE_ITEMS, YAML_ITEMS

COUNTS = [0, 1, 2, YAML_ITEMS, YAML_ITEMS + 1, PIECE_ITEMS, PIECE_ITEMS + 1, 2 * PIECE_ITEMS, 2 * PIECE_ITEMS + 7]
# What YAML writes in its own ways: several lines, empty ones, leading blanks, line ends of other alphabets.
TEXTS = [
    "plain",
    "two\nlines\n",
    "\n\n",
    "  indented\n\n  more\n\n",
    "no end\nof line",
    "a\u2028b\x85c",
    "",
    "- dash\n",
]
HEAD = b'{"kind":"TestList","apiVersion":"v1","metadata":{"resourceVersion":"7"}}'
TABLE = b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[{"name":"Name"}]}'
HEADS = pytest.mark.parametrize(("head", "name"), [(HEAD, "items"), (TABLE, "rows")])


def _body(number: int) -> bytes:
    text = TEXTS[number % len(TEXTS)]
    return json_codec.encode({"cells": [number, text], "data": {"text": text, "empty": [], "none": {}}})


def _whole(head: bytes, name: str, count: int) -> bytes:
    bodies = b",".join(_body(number) for number in range(count))
    return head[:-1] + f',"{name}":['.encode() + bodies + b"]}"


@HEADS
@pytest.mark.parametrize("count", COUNTS)
def test_json(head: bytes, name: str, count: int) -> None:
    made = list(pieces.document(head, name, range(count), _body, Negotiated("json")))
    assert b"".join(made) == _whole(head, name, count) + b"\n"
    assert len(made) == max(1, -(-count // PIECE_ITEMS))


@HEADS
@pytest.mark.parametrize("count", COUNTS)
def test_pretty_json(head: bytes, name: str, count: int) -> None:
    made = list(pieces.document(head, name, range(count), _body, Negotiated("json", pretty=True)))
    assert b"".join(made) == json_codec.indent(_whole(head, name, count)) + b"\n"
    assert len(made) == max(1, -(-count // PIECE_ITEMS))


@HEADS
@pytest.mark.parametrize("count", [*range(12), 40])
def test_yaml(head: bytes, name: str, count: int) -> None:
    made = list(pieces.document(head, name, range(count), _body, Negotiated("yaml")))
    assert b"".join(made).decode() == yamltext.dumps(gojson.loads(_whole(head, name, count)))
    assert len(made) == max(1, -(-count // YAML_ITEMS))


@pytest.mark.parametrize("count", COUNTS)
def test_protobuf(count: int) -> None:
    head = protobuf.length_delimited(1, b"metadata")
    made = list(pieces.message("v1", "TestList", head, range(count), _body))
    items = b"".join(protobuf.length_delimited(2, _body(number)) for number in range(count))
    assert b"".join(made) == protobuf.seal("v1", "TestList", head + items)
    # As many turns for encoding as for sending; what is short is one piece.
    turns = max(1, -(-count // PIECE_ITEMS))
    assert len(made) == 2 * turns - 1
    assert made[: turns - 1] == [b""] * (turns - 1)


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_large_items_make_pieces_of_few(encoding: str) -> None:
    large = json.dumps("x" * (PIECE_BYTES // 4)).encode()
    made = (
        pieces.document(HEAD, "items", range(40), lambda _: large, Negotiated("json"))
        if encoding == "json"
        else pieces.message("v1", "TestList", b"", range(40), lambda _: large)
    )
    assert max(map(len, made)) < PIECE_BYTES + 2 * len(large)


def test_an_item_is_encoded_when_its_piece_is_asked_for() -> None:
    encoded: list[int] = []

    def body(number: int) -> bytes:
        encoded.append(number)
        return b"{}"

    made = pieces.document(HEAD, "items", range(10 * PIECE_ITEMS), body, Negotiated("json"))
    seen = [len(encoded) for _ in made]
    assert max(later - earlier for earlier, later in pairwise([0, *seen])) <= PIECE_ITEMS
    assert encoded == list(range(10 * PIECE_ITEMS))
