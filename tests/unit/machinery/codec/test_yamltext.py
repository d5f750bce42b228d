"""machinery/codec/yamltext.py: YAML as sigs.k8s.io/yaml reads and writes it."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.machinery.codec import gojson, yamltext
from kubevouch.machinery.codec.yamltext import YAMLError


def one(text: str | bytes) -> Any:
    tree, duplicates = yamltext.loads(text)
    assert duplicates == []
    return tree


def complaint(text: str | bytes) -> str:
    with pytest.raises(YAMLError) as caught:
        yamltext.loads(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("# nothing", None), ("~", None), ("null", None), ("NULL", None), ("nUll", "nUll"),
        ("y", True), ("Yes", True), ("on", True), ("TRUE", True), ("n", False), ("NO", False), ("off", False),
        ("tRue", "tRue"), ('"yes"', "yes"), ("'1'", "1"),
        ("0", 0), ("-7", -7), ("+7", 7), ("1_000", 1000), ("0x1F", 31), ("-0x10", -16), ("0b101", 5), ("-0b1", -1),
        ("0o17", 15), ("017", 15), ("0777", 511), ("08", 8), ("09.5", 9.5),
        ("9223372036854775807", (1 << 63) - 1), ("18446744073709551615", (1 << 64) - 1),
        ("-9223372036854775808", -(1 << 63)), ("18446744073709551616", 18446744073709551616),
        ("1.5", 1.5), ("1.0", 1), ("1e3", 1000), (".5", 0.5), ("-1.5e-7", -1.5e-7), ("1e21", 1e21), ("1.", 1),
        (".", "."), ("-", None), ("1e999", "1e999"), ("1.2.3", "1.2.3"), ("0x", "0x"), ("1:30", "1:30"), ("_1", "_1"),
        ("2026-11-21", "2026-11-21"), ("2026-11-21T12:00:00Z", "2026-11-21T12:00:00Z"),
        ("2026-11-21 12:00:00", "2026-11-21 12:00:00"),
        ("=", "="), ("<<", "<<"), ("a: b", {"a": "b"}), ("[a, 1]", ["a", 1]), ("{a: 1}", {"a": 1}),
        ("!!str 1", "1"), ("!!int 1", 1), ("!!float 1", 1), ("!!bool yes", True), ("!!null ''", None),
        ("!!binary aGk=", "hi"), ("!custom 1", "1"), ("!!timestamp 2026-11-21", "2026-11-21"),
        ("|\n  a\n  b\n", "a\nb\n"), (">\n  a\n  b\n", "a b\n"), ("'it''s'", "it's"), (r'"\u00e9\n"', "é\n"),
        ("١", "١"), ("1١", "1١"),
    ],
)  # fmt: skip
def test_scalars_and_small_documents(text: str, value: object) -> None:
    if text == "-":
        assert one(text) == [None]
        return
    tree = one(text)
    assert tree == value
    assert type(tree) is type(value) or isinstance(tree, gojson.Number)


def test_floats_keep_the_text_that_go_would_write() -> None:
    number = one("1.50")
    assert isinstance(number, gojson.Number)
    assert number.text == "1.5"
    number = one("1e-9")
    assert isinstance(number, gojson.Number)
    assert number.text == "1e-9"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("1: a\n2.5: b\ntrue: c\n2026-11-21: d\n", ["1", "2.5", "true", "2026-11-21"]),
        ("'': a", [""]),
        ("!!binary aGk=: a", ["hi"]),
    ],
)
def test_keys_become_strings(text: str, keys: list[str]) -> None:
    tree = one(text)
    assert isinstance(tree, dict)
    assert list(tree) == keys


def test_only_the_first_document_is_read() -> None:
    assert one("a: 1\n---\nb: [\n") == {"a": 1}
    assert one("---\na: 1\n...\nxxx: [") == {"a": 1}


def test_bytes_are_read_by_their_byte_order_mark() -> None:
    assert one("\ufeffa: 1".encode("utf-16")[2:]) == {"a": 1}
    assert one("a: é".encode()) == {"a": "é"}


def test_anchors_and_merges() -> None:
    assert one("a: &x [1]\nb: *x\n") == {"a": [1], "b": [1]}
    assert one("base: &b {p: 1, q: 2}\nz:\n  <<: *b\n  r: 3\n")["z"] == {"p": 1, "q": 2, "r": 3}
    assert one("z:\n  <<: [{p: 1}, {p: 2, q: 3}]\n") == {"z": {"p": 1, "q": 3}}, "the first of a list wins"
    assert one("z: {'<<': 1}") == {"z": {"<<": 1}}, "a quoted key merges nothing"
    assert one("z: {!!merge '<<': {a: 1}}") == {"z": {"a": 1}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [1\n", "yaml: line 1: did not find expected ',' or ']'"),
        ("{", "yaml: line 1: did not find expected node content"),
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a:\n\t- b", "yaml: line 2: found character that cannot start any token"),
        ("x: *nope", "yaml: unknown anchor 'nope' referenced"),
        ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
        ("? [a]\n: b", 'yaml: invalid map key: []interface {}{"a"}'),
        ("? {a: 1}\n: b", 'yaml: invalid map key: map[string]interface {}{"a":1}'),
        ("~: a", "unsupported map key of type: %!s(<nil>), key: <nil>"),
        ("<<: 1", "yaml: map merge requires map or sequence of maps as the value"),
        ("<<: [1]", "yaml: map merge requires map or sequence of maps as the value"),
        ("!!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("!!bool 1", "yaml: cannot decode !!int `1` as a !!bool"),
        ("!!null x", "yaml: cannot decode !!str `x` as a !!null"),
        ("!!int 1.5", "yaml: cannot decode !!float `1.5` as a !!int"),
        ("!!int ~", "yaml: cannot decode !!null `~` as a !!int"),
        ("!!binary '@'", "yaml: !!binary value contains invalid base64 data"),
        (".inf", "json: unsupported value: +Inf"),
        ("-.Inf", "json: unsupported value: -Inf"),
        (".nan", "json: unsupported value: NaN"),
        ("a\x01b", "yaml: control characters are not allowed"),
        (b"\xff\xfe\x00", "yaml: incomplete UTF-16 character"),
        (b"a: \x80", "yaml: invalid leading UTF-8 octet"),
        ("a: \ud800", "yaml: control characters are not allowed"),
    ],
)
def test_complaints(text: str | bytes, sentence: str) -> None:
    assert complaint(text) == sentence


def test_repeated_keys_are_reported_with_the_line_of_their_value() -> None:
    tree, duplicates = yamltext.loads(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m1\ndata:\n  a: one\n  a: two\n"
    )
    assert tree["data"] == {"a": "two"}
    assert duplicates == ['line 7: key "a" already set in map']
    assert yamltext.loads("1: a\n1: b\n")[1] == ["line 2: key 1 already set in map"]


def test_deep_nesting_is_refused_without_harm() -> None:
    for text in ("[" * 100_000, "{a: " * 100_000, "- " * 20_000, "? " * 20_000):
        assert complaint(text) == "yaml: exceeded max depth of 10000"


def test_alias_bombs_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert complaint("\n".join(lines)) == "yaml: document contains excessive aliasing"


def test_a_stream_of_documents() -> None:
    text = "# head\n---\na: 1\n--- # second\nb: |\n  --- no\n---   \n---\nnull\n---\n[c]\n"
    assert yamltext.load_documents(text) == [{"a": 1}, {"b": "--- no\n"}, ["c"]]
    assert yamltext.load_documents(b"a: 1") == [{"a": 1}]
    assert yamltext.load_documents("") == []
    with pytest.raises(YAMLError, match="invalid leading UTF-8 octet"):
        yamltext.load_documents(b"\xff")
    with pytest.raises(YAMLError):
        yamltext.load_documents("a: [")


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"b": 1, "a": [1, {"x": None}]}, "a:\n- 1\n- x: null\nb: 1\n"),
        ({"a": "yes", "b": "1", "c": "null", "d": ""}, 'a: "yes"\nb: "1"\nc: "null"\nd: ""\n'),
        (
            {"a": "1.5", "b": "0x1f", "c": "2026-11-21", "d": "1:30"},
            'a: "1.5"\nb: "0x1f"\nc: "2026-11-21"\nd: "1:30"\n',
        ),
        ({"a": True, "b": False}, "a: true\nb: false\n"),
        ({"a": "x\ny\n"}, "a: |\n  x\n  y\n"),
        ({"a": "plain text", "b": "grün"}, "a: plain text\nb: grün\n"),
        ({"a": "# no comment", "b": "x: y"}, "a: '# no comment'\nb: 'x: y'\n"),
        ({"a": gojson.Number("1.5")}, "a: 1.5\n"),
        ({"a": {}, "b": []}, "a: {}\nb: []\n"),
    ],
)
def test_writing(tree: object, text: str) -> None:
    assert yamltext.dumps(tree) == text
    assert one(text) == tree


def test_writing_knows_no_anchors_and_takes_marked_objects() -> None:
    shared = [1]
    assert yamltext.dumps({"a": shared, "b": shared}) == "a:\n- 1\nb:\n- 1\n"
    assert yamltext.dumps(gojson.loads(b'{"a": 1, "a": 2}')) == "a: 2\n"


def test_a_document_ends_without_a_mark() -> None:
    assert yamltext.dumps({"a": "kept\n\n"}) == "a: |+\n  kept\n\n"
