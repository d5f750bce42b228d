"""CSV by Go's rules."""

import pytest

from kubevouch.machinery.text.gocsv import CSVError, records


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("\n\n", []),
        ("a,b", [["a", "b"]]),
        ("a,b\r\n\r\nc\n", [["a", "b"], ["c"]]),
        (" a , b\n", [[" a ", " b"]]),
        (" \n", [[" "]]),
        (",\n", [["", ""]]),
        ('"a,b",c\n', [["a,b", "c"]]),
        ('"a ""b""",""\n', [['a "b"', ""]]),
        ('"a\nb",c\nd\n', [["a\nb", "c"], ["d"]]),
        ("é,\U0001f600\n", [["é", "\U0001f600"]]),
        ("a\u2028b,c\x0bd\n", [["a\u2028b", "c\x0bd"]]),
    ],
)
def test_records(text: str, found: list[list[str]]) -> None:
    assert list(records(text)) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a"b,c\n', 'parse error on line 1, column 2: bare " in non-quoted-field'),
        ('x\ny, "z"\n', 'parse error on line 2, column 4: bare " in non-quoted-field'),
        ('"a"b,c\n', 'parse error on line 1, column 3: extraneous or missing " in quoted-field'),
        ('"a" ,c\n', 'parse error on line 1, column 3: extraneous or missing " in quoted-field'),
        ('"a\nb"c\n', 'record on line 1; parse error on line 2, column 2: extraneous or missing " in quoted-field'),
        ('"abc', 'parse error on line 1, column 5: extraneous or missing " in quoted-field'),
    ],
)
def test_quotes_where_none_may_be(text: str, message: str) -> None:
    with pytest.raises(CSVError) as caught:
        list(records(text))
    assert str(caught.value) == message


def test_many_quotes_are_read_in_linear_time() -> None:
    # Doubling the input may not do more than double the work; a pattern that backtracks would never come back.
    for unfinished in ('"' + '""' * 200_000 + "x", '"' + "a" * 400_000, '"' + 'a""' * 200_000 + '"x'):
        with pytest.raises(CSVError):
            list(records(unfinished))
