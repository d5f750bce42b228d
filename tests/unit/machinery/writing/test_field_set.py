"""machinery/writing/field_set.py: FieldsV1, read and written as Kubernetes does, and the algebra of sets."""

from __future__ import annotations

import pytest

from kubevouch.machinery.writing import field_set
from kubevouch.machinery.writing.field_set import FieldSetError

A, B = field_set.of_paths(("a",)), field_set.of_paths(("b",))
AB = field_set.of_paths(("a", "b"))


@pytest.mark.parametrize(
    ("raw", "canonical", "paths"),
    [
        (b"{}", b"{}", []),
        (b"null", b"{}", []),
        (b'{"f:a":{}}', b'{"f:a":{}}', [".a"]),
        (b'{"f:b":{},"f:a":{}}', b'{"f:a":{},"f:b":{}}', [".a", ".b"]),
        (b'{"f:a":{"f:b":{}}}', b'{"f:a":{"f:b":{}}}', [".a.b"]),
        (b'{"f:a":{"f:b":{},".":{}}}', b'{"f:a":{".":{},"f:b":{}}}', [".a", ".a.b"]),
        (b'{"k:{\\"type\\":\\"A\\"}":{}}', b'{"k:{\\"type\\":\\"A\\"}":{}}', ['[type="A"]']),
        (b'{"v:\\"x\\"":{}}', b'{"v:\\"x\\"":{}}', ['[="x"]']),
        (b'{"v:10":{},"v:9":{}}', b'{"v:9":{},"v:10":{}}', ["[=9]", "[=10]"]),
        (b'{"i:3":{}}', b'{"i:3":{}}', ["[3]"]),
    ],
)
def test_reading_and_writing(raw: bytes, canonical: bytes, paths: list[str]) -> None:
    found = field_set.from_fields_v1(raw)
    assert field_set.to_fields_v1(found) == canonical
    assert [field_set.path_text(path) for path in field_set.paths(found)] == paths
    assert field_set.from_fields_v1(canonical) == found


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b"1", b"{", b'{"a":{}}', b'{"f:a":1}', b'{"k:x":{}}', b'{"v:":{}}', b'{"i:x":{}}', b'{"f:\xff":{}}'],
)
def test_what_is_no_set(raw: bytes) -> None:
    with pytest.raises(FieldSetError):
        field_set.from_fields_v1(raw)


def test_a_set_too_deep_is_none() -> None:
    deep = b'{"f:a":' * 5000 + b"{}" + b"}" * 5000
    with pytest.raises(FieldSetError):
        field_set.from_fields_v1(deep)


def texts(fields: field_set.FieldSet) -> list[str]:
    return [field_set.path_text(path) for path in field_set.paths(fields)]


def test_union() -> None:
    assert texts(field_set.union(A, B)) == [".a", ".b"]
    assert texts(field_set.union(A, AB)) == [".a", ".a.b"]
    assert field_set.union(A, field_set.EMPTY) == A


def test_difference_leaves_what_lies_below() -> None:
    assert texts(field_set.difference(field_set.union(A, AB), A)) == [".a.b"]
    assert texts(field_set.difference(AB, AB)) == []
    assert texts(field_set.difference(A, B)) == [".a"]


def test_without_takes_what_lies_below_too() -> None:
    assert texts(field_set.without(field_set.union(AB, B), A)) == [".b"]
    assert texts(field_set.without(A, AB)) == [".a"]


def test_intersection_and_membership() -> None:
    both = field_set.union(field_set.union(A, AB), B)
    assert texts(field_set.intersection(both, field_set.union(AB, B))) == [".b", ".a.b"]
    assert field_set.has(AB, ("f:a", "f:b"))
    assert not field_set.has(AB, ("f:a",))
    assert not field_set.has(AB, ("f:b",))
