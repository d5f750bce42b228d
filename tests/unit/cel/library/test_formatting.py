"""cel/library/formatting.py"""

from __future__ import annotations

import pytest

from cel_cases import error_of, value_of


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("'%s is %d%% of %.1f, %x'.format(['a', 3, 2.25, 255])", "a is 3% of 2.2, ff"),
        ("'%d %d'.format([-5, 5u])", "-5 5"),
        ("'%b %b %b'.format([5, 6u, true])", "101 110 1"),
        ("'%o %o'.format([8, 9u])", "10 11"),
        ("'%x %X %x %X'.format([-255, 255u, 'hi', b'\\xff'])", "-ff FF 6869 FF"),
        ("'%f %.0f %.2f'.format([1234567.5, 2.5, 1.005])", "1,234,567.500000 2 1.00"),
        ("'%e %.1e'.format([314.0, 0.00123])", "3.140000\u202f×\u202f10⁰² 1.2\u202f×\u202f10⁻⁰³"),
        ("'%f %e %f %e'.format(['NaN', 'Infinity', '-Infinity', 1.0 / 0.0])", "NaN ∞ -∞ ∞"),
        ("'%s %s %s %s'.format([1.5, true, null, b'x'])", "1.5 true null x"),
        ("'%s %s'.format([duration('1m'), timestamp('2026-01-02T03:04:05Z')])", "60s 2026-01-02T03:04:05Z"),
        ("'%s %s'.format([type(1), type('')])", "int string"),
        (
            "'%s'.format([[1, 2u, 'x', 2.5, b'y', null, duration('1m'), 0.0 / 0.0]])",
            '[1, 2, "x", 2.500000, b"y", null, duration("60s"), "NaN"]',
        ),
        ("'%s'.format([[timestamp('2026-01-02T03:04:05Z')]])", '[timestamp("2026-01-02T03:04:05Z")]'),
        ("'%s'.format([{'b': [1], 'a': {true: 'x'}}])", '{"a":{true:"x"}, "b":[1]}'),
        ("'%d é %s'.format([1, 'ü'])", "1 é ü"),
        ("'%s %s'.format(o)", "x y"),
    ],
)
def test_clauses(source: str, text: str) -> None:
    assert value_of(source, ["x", "y"]) == text


PRECISION = "could not parse formatting clause: error while parsing precision"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("'%s %s %s'.format(o)", "index 2 out of range"),
        ("'%'.format(o)", "unexpected end of string"),
        ("'%a'.format(o)", 'could not parse formatting clause: unrecognized formatting clause "a"'),
        ("'%.'.format(o)", f"{PRECISION}: could not find end of precision specifier"),
        ("'%.3'.format(o)", f"{PRECISION}: could not find end of precision specifier"),
        (
            "'%.f'.format(o)",
            f'{PRECISION}: error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax',
        ),
        (
            "'%.9223372036854775808f'.format(o)",
            (
                f"{PRECISION}: error while converting precision to integer: strconv.Atoi: parsing"
                ' "9223372036854775808": value out of range'
            ),
        ),
        ("'%.99999999f'.format([1.0])", "operation cancelled: actual cost limit exceeded"),
        ("'%d'.format(o)", "error during formatting: decimal clause can only be used on integers, was given string"),
        ("'%o'.format(o)", "error during formatting: octal clause can only be used on integers, was given string"),
        (
            "'%f'.format(o)",
            "error during formatting: fixed-point clause can only be used on doubles, was given string",
        ),
        ("'%e'.format(o)", "error during formatting: scientific clause can only be used on doubles, was given string"),
        (
            "'%b'.format(o)",
            "error during formatting: only integers and bools can be formatted as binary, was given string",
        ),
        (
            "'%X'.format([dyn(null)])",
            (
                "error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given"
                " null_type"
            ),
        ),
        (
            "'%s'.format([dyn(ip('::1'))])",
            (
                "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps,"
                " lists, types, durations, and timestamps, was given net.IP"
            ),
        ),
    ],
)
def test_what_has_no_text(source: str, text: str) -> None:
    assert error_of(source, ["x", "y"]) == text
