"""machinery/selectors.py: Kubernetes' grammar, its complaints, and what is selected."""

from __future__ import annotations

import pytest

from kubevouch.machinery import selectors
from kubevouch.machinery.meta import LabelSelector as Struct
from kubevouch.machinery.meta import LabelSelectorRequirement
from kubevouch.machinery.selectors import (
    EVERYTHING,
    NOTHING,
    FieldTerm,
    SelectorError,
    label_selector_of,
    parse_field_selector,
    parse_label_selector,
)

LABELS = {"a": "1", "b": "x", "empty": "", "example.com/key": "v"}


@pytest.mark.parametrize(
    ("text", "canonical", "matches"),
    [
        ("", "", True),
        ("a", "a", True),
        ("c", "c", False),
        ("!a", "!a", False),
        ("!c", "!c", True),
        ("a=1", "a=1", True),
        ("a==1", "a==1", True),
        (" a = 1 ", "a=1", True),
        ("a=2", "a=2", False),
        ("c=1", "c=1", False),
        ("a!=1", "a!=1", False),
        ("c!=1", "c!=1", True),
        ("a=", "a=", False),
        ("empty=", "empty=", True),
        ("c=", "c=", False),
        ("c!=", "c!=", True),
        ("b in (y, x)", "b in (x,y)", True),
        ("b in (x,x)", "b in (x)", True),
        ("b notin (x)", "b notin (x)", False),
        ("c notin (x)", "c notin (x)", True),
        ("empty in ()", "empty in ()", True),
        ("empty in (,x)", "empty in (,x)", True),
        ("empty in (x,)", "empty in (,x)", True),
        ("b in (x,,y)", "b in (,x,y)", True),
        ("a>0", "a>0", True),
        ("a>1", "a>1", False),
        ("a<2", "a<2", True),
        ("a<1", "a<1", False),
        ("b>0", "b>0", False),
        ("c>0", "c>0", False),
        ("b=x,a=1", "a=1,b=x", True),
        ("b=x,a=2", "a=2,b=x", False),
        ("a,!c,b in (x)", "a,b in (x),!c", True),
        ("example.com/key=v", "example.com/key=v", True),
        ("in in (in)", "in in (in)", False),
        ("a\t=\n1", "a=1", True),
    ],
)
def test_label_selectors(text: str, canonical: str, matches: bool) -> None:
    selector = parse_label_selector(text)
    assert str(selector) == canonical
    assert selector.matches(LABELS) is matches
    assert selector.empty is (not text)
    assert str(parse_label_selector(canonical)) == canonical


KEY_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=1 b", "found 'b', expected: ',' or 'end of string'"),
        ("a===1", "unable to parse requirement: found '=', expected: identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!a=1", "found '=', expected: ',' or 'end of string'"),
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in x", "unable to parse requirement: found 'x' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (x y)", "unable to parse requirement: found 'y', expected: ',' or ')'"),
        ("a in (x,", "unable to parse requirement: found '', expected: ',', or identifier"),
        (
            "a>x",
            (
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value "
                "must be an integer"
            ),
        ),
        ("-a", f'unable to parse requirement: <nil>: Invalid value: "-a": name part {KEY_RULE}'),
        (
            f"a={'x' * 64}",
            f'unable to parse requirement: values[0][a]: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
        ),
        ("/a", 'unable to parse requirement: <nil>: Invalid value: "/a": prefix part must be non-empty'),
    ],
)  # fmt: skip
def test_what_is_no_label_selector(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_label_selector(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "limit", "greater", "less"),
    [
        ("9223372036854775807", "9223372036854775806", True, False),
        ("-1", "0", False, True),
        ("007", "7", False, False),
        ("9223372036854775808", "1", False, False),
        ("1.5", "1", False, False),
    ],
)
def test_numbers_are_int64(value: str, limit: str, greater: bool, less: bool) -> None:
    assert parse_label_selector(f"n>{limit}").matches({"n": value}) is greater
    assert parse_label_selector(f"n<{limit}").matches({"n": value}) is less


@pytest.mark.parametrize(
    ("text", "exact"),
    [("a=1", "1"), ("a==1", "1"), ("a in (1)", "1"), ("a in (1,2)", None), ("a!=1", None), ("a", None), ("b=1", None)],
)
def test_the_one_value_that_a_label_must_have(text: str, exact: str | None) -> None:
    assert parse_label_selector(text).requires_exact("a") == exact


# ------------------------------------------------------------------ selectors in objects


def expression(operator: str, *values: str) -> Struct:
    return Struct(match_expressions=[LabelSelectorRequirement(key="a", operator=operator, values=list(values))])


def test_none_selects_nothing_and_an_empty_one_everything() -> None:
    assert label_selector_of(None) is NOTHING
    assert not NOTHING.matches({})
    assert not NOTHING.empty
    assert label_selector_of(Struct()) == EVERYTHING
    assert EVERYTHING.matches({})


@pytest.mark.parametrize(
    ("struct", "canonical"),
    [
        (Struct(match_labels={"b": "2", "a": "1"}), "a=1,b=2"),
        (expression("In", "y", "x"), "a in (x,y)"),
        (expression("NotIn", "x"), "a notin (x)"),
        (expression("Exists"), "a"),
        (expression("DoesNotExist"), "!a"),
    ],
)
def test_structs(struct: Struct, canonical: str) -> None:
    assert str(label_selector_of(struct)) == canonical


@pytest.mark.parametrize(
    ("struct", "message"),
    [
        (expression("Gt", "1"), '"Gt" is not a valid label selector operator'),
        (expression("in", "1"), '"in" is not a valid label selector operator'),
        (expression("In"), "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"),
        (
            expression("Exists", "x"),
            'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
        ),
    ],
)
def test_structs_that_are_no_selector(struct: Struct, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        label_selector_of(struct)
    assert str(caught.value) == message


# ------------------------------------------------------------------ field selectors

FIELDS = {"metadata.name": "n", "spec.x": "a,b=c\\d"}


@pytest.mark.parametrize(
    ("text", "canonical", "matches"),
    [
        ("", "", True),
        ("metadata.name=n", "metadata.name=n", True),
        ("metadata.name==n", "metadata.name=n", True),
        ("metadata.name!=n", "metadata.name!=n", False),
        ("metadata.name=m", "metadata.name=m", False),
        ("absent=", "absent=", True),
        ("absent!=", "absent!=", False),
        ("absent!=x", "absent!=x", True),
        (",metadata.name=n,", "metadata.name=n", True),
        ("b=,a=", "a=,b=", True),
        (r"spec.x=a\,b\=c\\d", r"spec.x=a\,b\=c\\d", True),
    ],
)
def test_field_selectors(text: str, canonical: str, matches: bool) -> None:
    selector = parse_field_selector(text)
    assert str(selector) == canonical
    assert selector.matches(FIELDS) is matches
    assert selector.empty is (not text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=1,b", "invalid selector: 'a=1,b'; can't understand 'b'"),
        (r"a=\x", "invalid field selector: invalid escape sequence: \\x"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_what_is_no_field_selector(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)
    assert str(caught.value) == message


def test_the_one_value_that_a_field_must_have() -> None:
    selector = parse_field_selector("a!=1,a=2,b=3")
    assert selector.requires_exact("a") == "2"
    assert selector.requires_exact("c") is None


def test_terms_can_be_renamed_and_dropped() -> None:
    selector = parse_field_selector("a=1,b!=2,c=3")
    renamed = selector.transform(lambda field, value: ("", "") if field == "c" else (field.upper(), value))
    assert renamed.terms == (FieldTerm("A", "1"), FieldTerm("B", "2", negated=True))


@pytest.mark.parametrize("value", ["", "plain", "a,b", "a=b", "\\", "\\,=", "a\\\\"])
def test_escaping_is_read_back(value: str) -> None:
    text = f"f={selectors.escape_field_value(value)}"
    assert parse_field_selector(text).requires_exact("f") == value
