"""client/frames.py: bounds and faults; the law that cuts do not matter is in tests/property."""

from __future__ import annotations

import pytest

from kubevouch.client.frames import FrameError, JSONFramer, ProtobufFramer


def test_a_protobuf_frame_over_the_limit_is_refused_by_its_length_alone() -> None:
    with pytest.raises(FrameError, match="5 bytes, at most 4"):
        ProtobufFramer(4).feed(b"\x00\x00\x00\x05")


@pytest.mark.parametrize("chunk", [b'{"a":"xxxxxxxxxxxxxx', b'{"a":"xxxxxxxxxxxxxxxx"}'])
def test_a_json_frame_over_the_limit_is_refused(chunk: bytes) -> None:
    with pytest.raises(FrameError, match="at most 10"):
        JSONFramer(10).feed(chunk)


@pytest.mark.parametrize("stream", [b"<html>", b"[1]", b'"x"', b"  oops", b"1"])
def test_what_is_no_object_is_no_frame(stream: bytes) -> None:
    with pytest.raises(FrameError, match="no JSON object"):
        JSONFramer().feed(stream)


def test_braces_and_quotes_inside_strings_do_not_count() -> None:
    frame = rb'{"a":"}\"{\\","b":["]"]}'
    assert JSONFramer().feed(frame + frame) == [frame, frame]


def test_a_long_string_in_small_pieces_takes_linear_time() -> None:
    framer = JSONFramer()
    framer.feed(b'{"a":"')
    piece = b"x" * 1023 + b"\\"
    for _ in range(4000):
        assert framer.feed(piece + b"n") == []
    assert len(framer.feed(b'"}')[0]) == 4000 * 1025 + 8
