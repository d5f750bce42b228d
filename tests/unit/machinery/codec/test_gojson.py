"""machinery/codec/gojson.py: JSON as Go reads it, and Go's complaints."""

from __future__ import annotations

import pytest

from kubevouch.machinery.codec import gojson


@pytest.mark.parametrize(
    ("data", "tree"),
    [
        (b"null", None),
        (b" \t\r\n true \n", True),
        (b"[1, -2, 0]", [1, -2, 0]),
        (b'{"a": {"b": []}}', {"a": {"b": []}}),
        (rb'"\u00e9\n\/\ud83d\ude00"', "é\n/\U0001f600"),
        (b'"a\xffb"', "a\ufffdb"),
        (rb'"x\ud800y"', "x\ufffdy"),
        (rb'{"\udc00": ["\udc00\ud800"]}', {"\ufffd": ["\ufffd\ufffd"]}),
        (b"9223372036854775808", 9223372036854775808),
    ],
)
def test_documents(data: bytes, tree: object) -> None:
    assert gojson.loads(data) == tree


@pytest.mark.parametrize("text", ["1.0", "1e3", "-0.5E-7", "1e999"])
def test_numbers_that_are_no_integers_keep_their_text(text: str) -> None:
    number = gojson.loads(text.encode())
    assert isinstance(number, gojson.Number)
    assert number.text == text
    assert number == float(text)


def test_an_integer_of_any_length_is_read() -> None:
    digits = "9" * 20_000
    number = gojson.loads(b'{"a": ' + digits.encode() + rb', "b": 1, "c": "\ud800"}')
    assert number["a"].text == digits
    assert number["b"] == 1
    assert number["c"] == "\ufffd"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "unexpected end of JSON input"),
        (b"  ", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b"[1", "unexpected end of JSON input"),
        (b'"abc', "unexpected end of JSON input"),
        (b'"\\', "unexpected end of JSON input"),
        (b'"\\u12', "unexpected end of JSON input"),
        (b"tr", "unexpected end of JSON input"),
        (b"-", "unexpected end of JSON input"),
        (b"1.", "unexpected end of JSON input"),
        (b"1e", "unexpected end of JSON input"),
        (b"1e+", "unexpected end of JSON input"),
        (b'{"a"', "unexpected end of JSON input"),
        (b'{"a":1,', "unexpected end of JSON input"),
        (b"xyz", "invalid character 'x' looking for beginning of value"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b"[,1]", "invalid character ',' looking for beginning of value"),
        (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"[1}", "invalid character '}' after array element"),
        (b"1 2", "invalid character '2' after top-level value"),
        (b"01", "invalid character '1' after top-level value"),
        (b"{}}", "invalid character '}' after top-level value"),
        (b"-a", "invalid character 'a' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1ex", "invalid character 'x' in exponent of numeric literal"),
        (b"1e+x", "invalid character 'x' in exponent of numeric literal"),
        (b"trux", "invalid character 'x' in literal true (expecting 'e')"),
        (b"fa1se", "invalid character '1' in literal false (expecting 'l')"),
        (b"nul\n", "invalid character '\\n' in literal null (expecting 'l')"),
        (b'"a\nb"', "invalid character '\\n' in string literal"),
        (b'"a\x00b"', "invalid character '\\x00' in string literal"),
        (b'"\\x"', "invalid character 'x' in string escape code"),
        (b'"\\uXYZW"', "invalid character 'X' in \\u hexadecimal character escape"),
        (b"'a'", "invalid character '\\'' looking for beginning of value"),
        (b'[1"', "invalid character '\"' after array element"),
        (b"\\", "invalid character '\\\\' looking for beginning of value"),
        (b"\x07", "invalid character '\\a' looking for beginning of value"),
        (b"\x7f", "invalid character '\\x7f' looking for beginning of value"),
        (b"\xef\xbb\xbf{}", "invalid character 'ï' looking for beginning of value"),
        (b"\x80", "invalid character '\\u0080' looking for beginning of value"),
        (b"\xa0", "invalid character '\\u00a0' looking for beginning of value"),
        (b"\xad", "invalid character '\\u00ad' looking for beginning of value"),
        (b"NaN", "invalid character 'N' looking for beginning of value"),
        (b"Infinity", "invalid character 'I' looking for beginning of value"),
        (b"-Infinity", "invalid character 'I' in numeric literal"),
    ],
)
def test_go_says_why_a_text_is_no_json(data: bytes, sentence: str) -> None:
    with pytest.raises(gojson.JSONSyntaxError) as caught:
        gojson.loads(data)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_deep_nesting_is_refused(opening: bytes) -> None:
    with pytest.raises(gojson.JSONSyntaxError, match="exceeded max depth"):
        gojson.loads(opening * 200_000)
    with pytest.raises(gojson.JSONSyntaxError, match="exceeded max depth"):
        gojson.scan(opening * 10_001)
    with pytest.raises(gojson.JSONSyntaxError, match="exceeded max depth"):
        gojson.loads(b"[" + b"9" * 5000 + b"," + b"[" * 5000 + b"]" * 5001)


def test_nesting_as_deep_as_go_takes_is_well_formed() -> None:
    gojson.scan(b"[" * 10_000 + b"]" * 10_000)


def test_repeated_keys_are_marked_and_the_last_counts() -> None:
    tree = gojson.loads(b'{"a": 1, "b": {"c": 1, "c": 2, "c": 3}, "a": 4}')
    assert tree == {"a": 4, "b": {"c": 3}}
    assert isinstance(tree, gojson.Duplicates)
    assert tree.repeated == ["a"]
    assert tree["b"].repeated == ["c", "c"]


def test_keys_that_become_equal_without_their_surrogates() -> None:
    tree = gojson.loads(rb'{"\ud800": 1, "\ud801": 2, "a": 3, "a": 4}')
    assert tree == {"\ufffd": 2, "a": 4}
    assert isinstance(tree, gojson.Duplicates)


def test_duplicate_fields_have_paths() -> None:
    tree = gojson.loads(b'{"a": [{"x": 1, "x": 2}], "b": {"c": {"d": 1, "d": 2}}, "b2": 1, "b2": 2}')
    assert gojson.duplicate_fields(tree) == [
        'duplicate field "b2"',
        'duplicate field "a[0].x"',
        'duplicate field "b.c.d"',
    ]
    assert gojson.duplicate_fields(gojson.loads(b'[[{"x": 1, "x": 2}]]')) == ['duplicate field "[0][0].x"']
    assert gojson.duplicate_fields({"a": 1}) == []


def test_duplicate_fields_stop_at_a_hundred() -> None:
    tree = gojson.loads(b"[" + b",".join([b'{"x":1,"x":2}'] * 500) + b"]")
    assert len(gojson.duplicate_fields(tree)) == gojson.MAX_STRICT_ERRORS
