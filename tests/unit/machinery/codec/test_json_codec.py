"""machinery/codec/json_codec.py: what is written, and what Kubernetes' strict decoder makes of a text."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any

import pytest

from kubevouch.machinery.codec import gojson, json_codec
from kubevouch.machinery.codec.json_codec import UnmarshalError
from kubevouch.machinery.declaration import Quantity, RawJSON, Struct, wire
from kubevouch.machinery.meta import APIResourceList, LabelSelector, ObjectMeta
from kubevouch.machinery.schema import schema_of
from kubevouch.machinery.text.times import ZERO_SECONDS, MicroTime, Time
from unit.machinery.widgets import Condition, Port, Widget, WidgetSpec, Window

NEVER = 'parsing time "never" as "2006-01-02T15:04:05Z07:00": cannot parse "never" as "2006"'
NOT_A_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
EMPTY_SPEC = b'{"request":null,"base":{},"rules":null,"ownerUid":""}'


def read(text: str, struct: type[Any] = WidgetSpec) -> json_codec.Decoded:
    return json_codec.from_tree(gojson.loads(text.encode()), struct)


def complaint(text: str, struct: type[Any] = WidgetSpec) -> str:
    with pytest.raises(UnmarshalError) as caught:
        read(text, struct)
    with pytest.raises(UnmarshalError) as fast:
        json_codec.decode(text.encode(), struct)
    assert str(fast.value) == str(caught.value)
    return str(caught.value)


# ------------------------------------------------------------------ writing


def test_what_is_empty_is_left_out_unless_declared_otherwise() -> None:
    assert json_codec.encode(WidgetSpec()) == EMPTY_SPEC
    assert json_codec.encode(Widget()) == b'{"metadata":{},"spec":' + EMPTY_SPEC + b',"status":{}}'
    assert json_codec.encode(APIResourceList()) == b'{"groupVersion":"","resources":null}'


def test_a_pointer_to_zero_is_written() -> None:
    written = json.loads(json_codec.encode(WidgetSpec(size=0, loud=False, front=Window(height=0))))
    assert written["size"] == 0
    assert written["loud"] is False
    assert written["front"] == {"height": 0}


def test_every_form_of_field() -> None:
    spec = WidgetSpec(
        blob=b"\x00\xff", request=b"", made=Time(0), seen=MicroTime(5), amount=Quantity("100m"),
        capacity={"cpu": Quantity("2")}, template=RawJSON(b'{"z":1,"a":2}'), labels={"b": "2", "a": "1"},
        extra={"k": ["v"]}, pod_cidr="10.0.0.0/8", continue_="c", blobs={"x": b"y"}, ports=[Port(port=1)],
    )  # fmt: skip
    assert json_codec.encode(spec) == (
        b'{"blob":"AP8=","request":"","made":"1970-01-01T00:00:00Z","seen":"1970-01-01T00:00:00.000005Z","amount":"100m",'
        b'"capacity":{"cpu":"2"},"template":{"z":1,"a":2},"ports":[{"port":1}],"labels":{"a":"1","b":"2"},'
        b'"extra":{"k":["v"]},"base":{},"podCIDR":"10.0.0.0/8","continue":"c","rules":null,"blobs":{"x":"eQ=="},'
        b'"ownerUid":""}'
    )


def test_zero_times_and_empty_documents_are_null() -> None:
    written = json_codec.encode(WidgetSpec(made=Time(ZERO_SECONDS), seen=MicroTime(ZERO_SECONDS * 1_000_000)))
    assert written.startswith(b'{"request":null,"made":null,"seen":null,')
    assert json_codec.encode(Condition()) == b'{"type":"","since":null}'
    assert json_codec.encode([RawJSON(b"")]) == b"[null]"
    assert json_codec.to_builtins(RawJSON(b"")) is None


def test_html_is_escaped_in_keys_and_values() -> None:
    assert (
        json_codec.encode({"<k>": "a&b\u2028\u2029\u2030"})
        == rb'{"\u003ck\u003e":"a\u0026b\u2028\u2029' + '\u2030"}'.encode()
    )
    assert json_codec.encode("plain") == b'"plain"'


def test_order_of_keys() -> None:
    assert json_codec.encode({"b": 1, "a": {"d": 1, "c": 2}}) == b'{"a":{"c":2,"d":1},"b":1}'
    assert json_codec.encode_in_order({"b": 1, "a": "<"}) == rb'{"b":1,"a":"\u003c"}'


def test_what_has_no_json_form() -> None:
    with pytest.raises(NotImplementedError, match="object"):
        json_codec.encode(object())


def test_kind_and_version_come_first() -> None:
    assert json_codec.with_type_meta(b"{}", "A", "v1") == b'{"kind":"A","apiVersion":"v1"}'
    assert json_codec.with_type_meta(b'{"a":1}', "A", "g/v1") == b'{"kind":"A","apiVersion":"g/v1","a":1}'


def test_indent() -> None:
    assert json_codec.indent(b'{"a":[1,{}],"b":"<"}') == b'{\n  "a": [\n    1,\n    {}\n  ],\n  "b": "<"\n}'


def test_builtins() -> None:
    spec = WidgetSpec(made=Time(0), amount=Quantity("1"), template=RawJSON(b'{"a":[1]}'), blob=b"a")
    tree = json_codec.to_builtins(spec)
    assert tree["made"] == "1970-01-01T00:00:00Z"
    assert tree["amount"] == "1"
    assert tree["template"] == {"a": [1]}
    assert tree["blob"] == "YQ=="


# ------------------------------------------------------------------ reading


def test_null_stands_for_the_zero_value_everywhere() -> None:
    names = list(json_codec.to_builtins(Widget()))
    assert names == ["metadata", "spec", "status"]
    text = json.dumps(dict.fromkeys(("kind", "apiVersion", *names)))
    assert read(text, Widget).value == Widget()
    fields = {field.encode_name for field in __import__("msgspec").structs.fields(WidgetSpec)}
    everything = json.dumps(dict.fromkeys(fields))
    decoded = read(everything)
    assert decoded.value == WidgetSpec()
    assert decoded.strict_errors == []
    assert json_codec.decode(everything.encode(), WidgetSpec) == WidgetSpec()
    assert read("null").value == WidgetSpec()


def test_null_items_become_zero_values() -> None:
    text = (
        '{"tags":[null],"ports":[null],"labels":{"a":null},"panes":{"p":null},"extra":{"e":null},"numbers":[null],'
        '"blobs":{"b":null}}'
    )
    expected = WidgetSpec(
        tags=[""],
        ports=[Port()],
        labels={"a": ""},
        panes={"p": Window()},
        extra={"e": []},
        numbers=[0],
        blobs={"b": b""},
    )
    assert read(text).value == expected
    assert json_codec.decode(text.encode(), WidgetSpec) == expected


def test_a_null_quantity_is_zero() -> None:
    expected = WidgetSpec(capacity={"cpu": Quantity("0")})
    assert read('{"amount":null,"capacity":{"cpu":null}}').value == expected
    assert json_codec.decode(b'{"capacity":{"cpu":null}}', WidgetSpec) == expected


def test_values_with_a_meaning() -> None:
    text = (
        '{"blob":"AP8=","made":"2026-11-21T13:00:00+01:00","seen":"2026-11-21T12:00:00.500000Z","amount":"1Ki",'
        '"template":{"b":[1.50,{"a":null}]},"weight":-9223372036854775808,"size":2147483647,"loud":false}'
    )
    for spec in (read(text).value, json_codec.decode(text.encode(), WidgetSpec)):
        assert spec.blob == b"\x00\xff"
        assert str(spec.made) == "2026-11-21T12:00:00Z"
        assert str(spec.seen) == "2026-11-21T12:00:00.500000Z"
        assert spec.amount == Quantity("1Ki")
        assert spec.template is not None
        assert json.loads(spec.template.raw) == {"b": [1.5, {"a": None}]}
        assert (spec.weight, spec.size, spec.loud) == (-(1 << 63), (1 << 31) - 1, False)


def test_quantities_may_be_numbers_and_are_written_as_kubernetes_does() -> None:
    expected = WidgetSpec(amount=Quantity("1500m"), capacity={"cpu": Quantity("7"), "memory": Quantity("1Gi")})
    text = '{"amount":1.50,"capacity":{"cpu":7,"memory":"1024Mi"}}'
    assert read(text).value == expected
    assert read(text.replace("1.50", '"1.50"').replace("7", '"7"')).value == expected
    assert json_codec.from_tree({"amount": 1.5}, WidgetSpec).value.amount == Quantity("1500m")


@pytest.mark.parametrize(
    ("text", "struct", "got", "where", "type_"),
    [
        ("1", WidgetSpec, "number", "value", "v1.WidgetSpec"),
        ("[]", WidgetSpec, "array", "value", "v1.WidgetSpec"),
        ('"x"', Widget, "string", "value", "v1.Widget"),
        ('{"size":"1"}', WidgetSpec, "string", "WidgetSpec.size", "int32"),
        ('{"size":true}', WidgetSpec, "bool", "WidgetSpec.size", "int32"),
        ('{"size":1.5}', WidgetSpec, "number 1.5", "WidgetSpec.size", "int32"),
        ('{"size":1.0}', WidgetSpec, "number 1.0", "WidgetSpec.size", "int32"),
        ('{"size":1e3}', WidgetSpec, "number 1e3", "WidgetSpec.size", "int32"),
        ('{"weight":9223372036854775808}', WidgetSpec, "number 9223372036854775808", "WidgetSpec.weight", "int64"),
        ('{"shiny":"true"}', WidgetSpec, "string", "WidgetSpec.shiny", "bool"),
        ('{"color":1}', WidgetSpec, "number", "WidgetSpec.color", "string"),
        ('{"color":{}}', WidgetSpec, "object", "WidgetSpec.color", "string"),
        ('{"blob":1}', WidgetSpec, "number", "WidgetSpec.blob", "[]uint8"),
        ('{"made":1}', WidgetSpec, "number", "WidgetSpec.made", "string"),
        ('{"tags":"a"}', WidgetSpec, "string", "WidgetSpec.tags", "[]string"),
        ('{"tags":[1]}', WidgetSpec, "number", "WidgetSpec.tags", "string"),
        ('{"labels":[]}', WidgetSpec, "array", "WidgetSpec.labels", "map[string]string"),
        ('{"labels":{"a":1}}', WidgetSpec, "number", "WidgetSpec.labels", "string"),
        ('{"front":"x"}', WidgetSpec, "string", "WidgetSpec.front", "v1.Window"),
        ('{"front":{"width":"x"}}', WidgetSpec, "string", "Window.front.width", "int32"),
        ('{"spec":{"ports":[{"port":1},{"port":"x"}]}}', Widget, "string", "Port.spec.ports.port", "int32"),
        ('{"metadata":{"labels":{"a":1}}}', Widget, "number", "ObjectMeta.metadata.labels", "string"),
        ('{"extra":{"k":"v"}}', WidgetSpec, "string", "WidgetSpec.extra", "[]string"),
        ('{"size":"1","made":1}', WidgetSpec, "number", "WidgetSpec.made", "string"),
        ('{"size":"1","blob":"@"}', WidgetSpec, "string", "WidgetSpec.size", "int32"),
        ('{"size":"1","weight":"2"}', WidgetSpec, "string", "WidgetSpec.size", "int32"),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type(text: str, struct: type[Any], got: str, where: str, type_: str) -> None:
    place = where if where == "value" else f"struct field {where}"
    assert complaint(text, struct) == f"json: cannot unmarshal {got} into Go {place} of type {type_}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"amount":[]}', NOT_A_QUANTITY),
        ('{"amount":true}', NOT_A_QUANTITY),
        ('{"amount":""}', NOT_A_QUANTITY),
        ('{"amount":"1 Gi"}', NOT_A_QUANTITY),
        ('{"amount":"1m5"}', "unable to parse quantity's suffix"),
        ('{"capacity":{"cpu":{}}}', NOT_A_QUANTITY),
        ('{"blob":"@@@"}', "illegal base64 data at input byte 0"),
        ('{"made":"never"}', NEVER),
        ('{"made":"2026-02-30T00:00:00Z"}', 'parsing time "2026-02-30T00:00:00Z": day out of range'),
        ('{"size":"1","made":"never"}', NEVER),
        ('{"blob":"@","size":"1"}', "illegal base64 data at input byte 0"),
        ('{"made":"never","size":"1"}', NEVER),
    ],
)  # fmt: skip
def test_a_text_that_is_not_what_it_should_be(text: str, sentence: str) -> None:
    assert complaint(text) == sentence


def test_a_text_that_is_no_json() -> None:
    with pytest.raises(UnmarshalError, match="unexpected end of JSON input"):
        json_codec.decode(b"{", WidgetSpec)


def test_int32_is_checked_by_the_strict_reader() -> None:
    with pytest.raises(UnmarshalError) as caught:
        read('{"size":2147483648}')
    sentence = "json: cannot unmarshal number 2147483648 into Go struct field WidgetSpec.size of type int32"
    assert str(caught.value) == sentence
    with pytest.raises(UnmarshalError) as caught:
        json_codec.from_tree({"size": 0.5}, WidgetSpec)
    assert str(caught.value) == sentence.replace("2147483648", "0.5")


def test_packages_of_types() -> None:
    class Beta(Struct):
        size: Annotated[list[dict[str, Window]], wire(1)] = []

    schema_of(Beta)  # while its annotations can be read where they stand
    Beta.__module__ = "kubevouch.api.things_v1beta1"
    with pytest.raises(UnmarshalError) as caught:
        json_codec.from_tree([], Beta)
    assert str(caught.value) == "json: cannot unmarshal array into Go value of type v1beta1.Beta"
    with pytest.raises(UnmarshalError) as caught:
        json_codec.from_tree({"size": 1}, Beta)
    assert str(caught.value) == (
        "json: cannot unmarshal number into Go struct field Beta.size of type []map[string]v1.Window"
    )


def test_unknown_and_repeated_fields_are_noted_in_order_with_their_paths() -> None:
    text = (
        '{"colour":1,"spec":{"Color":"x","ports":[{"port":1},{"port":2,"x":1,"port":3}],"panes":{"p q":'
        '{"w":1,"width":2}},"labels":{"a":"1","a":"2"},"template":{"t":1,"t":2}},"spec":{"size":1},"metadata":{"name":"a","name":"b"}}'
    )
    assert read(text, Widget).strict_errors == [
        'duplicate field "spec"',
        'unknown field "colour"',
        'duplicate field "metadata.name"',
    ]
    inner = text[text.index('"spec":') + 7 : text.index(',"spec":{"size"')]
    assert read(inner).strict_errors == [
        'unknown field "Color"',
        'duplicate field "ports[1].port"',
        'unknown field "ports[1].x"',
        'unknown field "panes.p q.w"',
        'duplicate field "labels.a"',
    ]


def test_unknown_fields_are_ignored_by_the_lenient_reader() -> None:
    assert json_codec.decode(b'{"x":1,"size":2}', WidgetSpec) == WidgetSpec(size=2)


def test_strict_errors_stop_at_a_hundred() -> None:
    text = json.dumps({f"x{n}": 1 for n in range(150)})
    assert len(read(text).strict_errors) == json_codec.MAX_STRICT_ERRORS


def test_selectors_and_metadata_are_structs_like_any_other() -> None:
    selector = read(
        '{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]}', LabelSelector
    )
    assert selector.value.match_expressions[0].values == ["v"]
    meta = read('{"creationTimestamp":null,"managedFields":[{"fieldsV1":{"f:a":{}}}]}', ObjectMeta).value
    assert meta.managed_fields[0].fields_v1 == RawJSON(b'{"f:a":{}}')


# ------------------------------------------------------------------ base64


@pytest.mark.parametrize("data", [b"", b"a", b"ab", b"abc", b"abcd", bytes(range(256))])
def test_base64_with_and_without_line_breaks(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    assert json_codec.decode_base64(text) == data
    assert json_codec.decode_base64("\r\n".join(text) + "\n") == data


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("@@@", 0), ("a", 0), ("ab", 0), ("abc", 0), ("abcde", 4), ("abcdef", 4), ("ab=", 3), ("ab==x", 4), ("ab=x", 2),
        ("ab=\n", 4), ("abc=x", 4), ("abc==", 4), ("=", 0), ("a=", 1), ("a===", 1), ("ab===", 4), ("abcd=", 4),
        ("ab-_", 2), ("ab cd", 2), ("abcd\n@", 5), ("\nab\nc", 2), ("é", 0), ("abcdé", 4), ("abcd====", 4),
    ],
)  # fmt: skip
def test_where_base64_goes_wrong(text: str, offset: int) -> None:
    with pytest.raises(UnmarshalError) as caught:
        json_codec.decode_base64(text)
    assert str(caught.value) == f"illegal base64 data at input byte {offset}"
