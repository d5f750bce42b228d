"""util/uuids.py: as the standard library's, drawn many at a time."""

from __future__ import annotations

import uuid

from kubevouch.util.uuids import random_uuid


def test_each_is_new_and_of_version_4() -> None:
    drawn = [random_uuid() for _ in range(1000)]
    assert len(set(drawn)) == len(drawn)
    for text in drawn:
        read = uuid.UUID(text)
        assert str(read) == text
        assert (read.version, read.variant) == (4, uuid.RFC_4122)
    # Every digit that is free takes every value.
    assert {text[19] for text in drawn} == set("89ab")
    assert {text[0] for text in drawn} == {text[35] for text in drawn} == set("0123456789abcdef")
