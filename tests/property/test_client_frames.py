"""A watch stream gives the same frames however the network cuts it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevouch.client.frames import FrameError, Framer, JSONFramer, ProtobufFramer
from kubevouch.machinery.codec import protobuf

documents = st.lists(
    st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        )
        | st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3),
        max_size=4,
    ),
    max_size=5,
)
blanks = st.sampled_from([b"", b"\n", b" ", b"\r\n", b"\t \n"])
cuts = st.lists(st.integers(1, 40), min_size=1, max_size=30)


def fed(framer: Framer, stream: bytes, sizes: list[int]) -> list[bytes]:
    frames: list[bytes] = []
    at = turn = 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        frames += framer.feed(stream[at : at + size])
        at += size
        turn += 1
    framer.finish()
    return frames


@given(documents, st.lists(blanks, min_size=6, max_size=6), cuts, st.sampled_from([None, 2]))
def test_json(trees: list[dict[str, object]], between: list[bytes], sizes: list[int], indent: int | None) -> None:
    bodies = [json.dumps(tree, indent=indent, ensure_ascii=False).encode() for tree in trees]
    stream = b"".join(blank + body for blank, body in zip(between, bodies, strict=False)) + between[-1]
    assert fed(JSONFramer(), stream, sizes) == bodies


@given(st.lists(st.binary(max_size=60), max_size=6), cuts)
def test_protobuf(bodies: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    assert fed(ProtobufFramer(), stream, sizes) == bodies


@given(st.binary(max_size=30), cuts)
def test_events_of_the_protobuf_codec(envelope: bytes, sizes: list[int]) -> None:
    stream = protobuf.watch_frame("ADDED", envelope) + protobuf.watch_frame("DELETED", envelope)
    frames = fed(ProtobufFramer(), stream, sizes)
    assert [protobuf.open_watch_event(frame) for frame in frames] == [("ADDED", envelope), ("DELETED", envelope)]


@given(st.binary(max_size=200), cuts, st.sampled_from([JSONFramer, ProtobufFramer]))
def test_garbage_ends_in_frames_or_a_frame_error(
    stream: bytes, sizes: list[int], make: Callable[[int], Framer]
) -> None:
    try:
        frames = fed(make(100), stream, sizes)
    except FrameError:
        return
    assert all(len(frame) <= 100 for frame in frames)


@given(documents.filter(bool), st.data())
def test_a_stream_that_stops_inside_a_frame_is_told_apart(trees: list[dict[str, object]], data: st.DataObject) -> None:
    body = json.dumps(trees[0]).encode()
    framer = JSONFramer()
    framer.feed(body[: data.draw(st.integers(1, len(body) - 1))])
    with pytest.raises(FrameError, match="inside a frame"):
        framer.finish()
