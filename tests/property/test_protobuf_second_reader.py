"""JSON, object and protobuf agree for every kind, and a second reader sees the same in the bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubevouch.machinery.codec import json_codec, protobuf
from kubevouch.machinery.scheme import GroupVersionKind
from property.second_reader import TABLE, find, read, without_zeros
from property.strategies import described_kinds, same_on_the_wire, struct_strategy


def table_group(gvk: GroupVersionKind, struct: type[Any]) -> str:
    own = f"{gvk.group or 'core'}/{gvk.version}"
    return find(own if struct.__name__ in TABLE.get(own, {}) else "meta/v1", struct.__name__)[0]


def is_numbered(gvk: GroupVersionKind, struct: type[Any]) -> bool:
    try:
        table_group(gvk, struct)
    except KeyError:
        return False
    return True


FIRST = described_kinds()
# The others' numbers are compared with those inside kubectl alone: tests/interop/test_field_numbers.py.
NUMBERED = [struct for struct, gvk in FIRST.items() if is_numbered(gvk, struct)]
# Discovery's old form exists in JSON alone for clients of today; its messages are not in the table.
few = settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@pytest.mark.parametrize("struct", FIRST, ids=lambda struct: f"{struct.__module__.split('.')[-1]}.{struct.__name__}")
@few
@given(data=st.data())
def test_json_object_protobuf_and_back(struct: type[msgspec.Struct], data: st.DataObject) -> None:
    value = data.draw(struct_strategy(struct))
    codec = protobuf.codec_for(struct)
    from_json = json_codec.decode(json_codec.encode(value), struct)
    from_protobuf = codec.decode(codec.encode(from_json))
    again = json_codec.decode(json_codec.encode(from_protobuf), struct)
    assert same_on_the_wire(again) == same_on_the_wire(value)
    assert codec.encode(again) == codec.encode(from_protobuf)


@pytest.mark.parametrize("struct", NUMBERED, ids=lambda struct: f"{struct.__module__.split('.')[-1]}.{struct.__name__}")
@few
@given(data=st.data())
def test_a_reader_with_the_published_numbers_sees_the_same(struct: type[msgspec.Struct], data: st.DataObject) -> None:
    value = data.draw(struct_strategy(struct))
    seen = read(table_group(FIRST[struct], struct), struct.__name__, protobuf.codec_for(struct).encode(value))
    assert without_zeros(seen) == without_zeros(json.loads(json_codec.encode(value)))
