"""Every kind of the scheme survives JSON and protobuf, whatever its fields hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubevouch.api.catalog import SCHEME
from kubevouch.machinery.codec import gojson, json_codec, protobuf
from kubevouch.machinery.schema import ListSchema, MapSchema, StructSchema, TypeSchema, schema_of
from property.strategies import described_kinds, struct_strategy

STRUCTS = sorted(described_kinds(), key=lambda struct: (struct.__module__, struct.__name__))


def canonical(value: Any) -> Any:
    """``value`` with nil and empty lists made alike where a list may be nil: protobuf cannot tell them apart."""
    schema = schema_of(type(value))
    changes = {}
    for field in schema.fields:
        inner = getattr(value, field.attribute)
        changes[field.attribute] = _canonical_value(inner, field.type, pointer=field.pointer)
    return msgspec.structs.replace(value, **changes)


def _canonical_value(value: Any, schema: TypeSchema, *, pointer: bool) -> Any:
    if value is None or (pointer and value == []):
        return None
    if isinstance(schema, StructSchema):
        return canonical(value)
    if isinstance(schema, ListSchema):
        return [_canonical_value(item, schema.item, pointer=False) for item in value]
    if isinstance(schema, MapSchema):
        return {key: _canonical_value(item, schema.value, pointer=False) for key, item in value.items()}
    return value


lenient = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: f"{struct.__module__.split('.')[-1]}.{struct.__name__}")
@lenient
@given(data=st.data())
def test_json(struct: type[msgspec.Struct], data: st.DataObject) -> None:
    value = data.draw(struct_strategy(struct))
    written = json_codec.encode(value)
    assert json_codec.decode(written, struct) == value
    strict = json_codec.from_tree(gojson.loads(written), struct)
    assert strict.value == value
    assert strict.strict_errors == []


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: f"{struct.__module__.split('.')[-1]}.{struct.__name__}")
@lenient
@given(data=st.data())
def test_protobuf(struct: type[msgspec.Struct], data: st.DataObject) -> None:
    value = data.draw(struct_strategy(struct))
    codec = protobuf.codec_for(struct)
    assert canonical(codec.decode(codec.encode(value))) == canonical(value)


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: f"{struct.__module__.split('.')[-1]}.{struct.__name__}")
@lenient
@given(data=st.data())
def test_defaults_are_set_once(struct: type[msgspec.Struct], data: st.DataObject) -> None:
    defaulted = SCHEME.default(data.draw(struct_strategy(struct)))
    assert SCHEME.default(defaulted) == defaulted
