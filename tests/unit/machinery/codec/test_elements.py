"""machinery/codec/elements.py: what counts, in every form, and that counting is cheap."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevouch.api.authentication_v1 import TokenReview, TokenReviewSpec
from kubevouch.api.authorization_v1 import SubjectAccessReview, SubjectAccessReviewSpec
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.codec import elements, json_codec, protobuf
from kubevouch.machinery.declaration import RawJSON
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ManagedFieldsEntry, ObjectMeta, OwnerReference
from kubevouch.machinery.schema import schema_of

MOST = elements.MAX_BODY_ELEMENTS


def refused(check: Any, *args: Any) -> bool:
    try:
        check(*args)
    except APIStatusError as err:
        status = err.status
    else:
        return False
    assert status.code == 413
    assert len(status.message) < 200
    return True


@pytest.mark.parametrize("item", [b"1", b"[]", b"{}", b'""', b'"\\""', b'"\\\\"', b"null"])
@pytest.mark.parametrize(("count", "too_many"), [(MOST // 2, False), (MOST + 2, True)])
def test_items_count_once_whatever_they_are(item: bytes, count: int, too_many: bool) -> None:
    assert refused(elements.check_json, b"[" + b",".join([item] * count) + b"]") is too_many


@pytest.mark.parametrize("text", [",", '",', "[{,", '\\",[', "\\\\", '"' * 7])
def test_what_stands_in_strings_does_not_count(text: str) -> None:
    document = json.dumps({"data": {"a": text * 400_000, "b": "x"}}).encode()
    assert not refused(elements.check_json, document)


def test_a_string_without_an_end_is_read_once() -> None:
    assert not refused(elements.check_json, b'{"a":"' + b'\\"' * 1_500_000)


_TREES = st.recursive(
    st.none() | st.text(alphabet='a",[{\\') | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a",[{\\'), inner),
)


def _marks(tree: Any) -> int:
    if not isinstance(tree, (list, dict)):
        return 0
    inside = list(tree.values()) if isinstance(tree, dict) else tree
    return 1 + max(len(inside) - 1, 0) + sum(map(_marks, inside))


@given(_TREES)
def test_the_count_is_that_of_the_tree(tree: Any) -> None:
    expected, limit = _marks(tree), elements.MAX_BODY_ELEMENTS
    text = json.dumps(tree).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elements, "_WINDOW", 3)
        for most in (expected, expected - 1):
            patch.setattr(elements, "MAX_BODY_ELEMENTS", most)
            # Short texts are not looked at: they have no room for too many.
            assert refused(elements.check_json, text + b" " * limit) is (most < expected)


@pytest.mark.parametrize(
    "obj",
    [
        ConfigMap(data={str(number): "" for number in range(MOST)}),
        ConfigMap(metadata=ObjectMeta(finalizers=["a"] * (MOST + 1))),
        ConfigMap(metadata=ObjectMeta(owner_references=[OwnerReference()] * (MOST // 4))),
        TokenReview(spec=TokenReviewSpec(token="t", audiences=["a"] * (MOST + 1))),
        SubjectAccessReview(spec=SubjectAccessReviewSpec(extra={"a": ["b"] * (MOST + 1)})),
    ],
    ids=["map", "strings", "messages", "in a message", "wrapped"],
)
def test_protobuf_is_counted_before_it_is_read(obj: Any) -> None:
    schema = schema_of(type(obj))
    assert refused(elements.check_protobuf, protobuf.codec_for(type(obj)).encode(obj), schema)


def test_json_inside_of_protobuf_counts() -> None:
    raw = json.dumps({f"f:{number}": {} for number in range(MOST)}).encode()
    entries = [ManagedFieldsEntry(fields_v1=RawJSON(raw))]
    obj = ConfigMap(metadata=ObjectMeta(managed_fields=entries))
    assert refused(elements.check_protobuf, protobuf.codec_for(ConfigMap).encode(obj), schema_of(ConfigMap))
    assert refused(elements.check, obj)


@given(st.binary(max_size=200), st.integers(0, 3))
def test_bytes_that_are_no_protobuf_are_left_to_the_decoder(data: bytes, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elements, "MAX_BODY_ELEMENTS", most)
        refused(elements.check_protobuf, data, schema_of(ConfigMap))


def test_a_large_real_object_passes_in_every_form() -> None:
    """A ConfigMap of a megabyte from a folder with thousands of files, with the fields of two managers."""
    names = {f"file-{number}.conf": "x" * 200 for number in range(4000)}
    raw = RawJSON(json.dumps({"f:data": {f"f:{name}": {} for name in names}}).encode())
    meta = ObjectMeta(name="big", managed_fields=[ManagedFieldsEntry(manager=each, fields_v1=raw) for each in "ab"])
    obj = ConfigMap(metadata=meta, data=names)
    assert not refused(elements.check, obj)
    assert not refused(elements.check_json, json_codec.encode(obj))
    assert not refused(elements.check_protobuf, protobuf.codec_for(ConfigMap).encode(obj), schema_of(ConfigMap))


def test_an_object_is_counted_without_its_managed_fields() -> None:
    data = {str(number): "" for number in range(elements.MAX_ELEMENTS - 10)}
    raw = RawJSON(json.dumps({f"f:{name}": {} for name in data}).encode())
    entries = [ManagedFieldsEntry(fields_v1=raw)] * 2
    assert not refused(elements.check, ConfigMap(metadata=ObjectMeta(managed_fields=entries), data=data))
    assert refused(elements.check, ConfigMap(data={str(n): "" for n in range(elements.MAX_ELEMENTS + 1)}))
