"""machinery/text/selectors.py: Kubernetes' grammar, its complaints, and what is selected."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubevouch.machinery.meta import LabelSelector as Struct
from kubevouch.machinery.meta import LabelSelectorRequirement
from kubevouch.machinery.text import selectors
from kubevouch.machinery.text.selectors import (
    EVERYTHING,
    NOTHING,
    FieldTerm,
    Operator,
    Requirement,
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


# ------------------------------------------------------------------ bounds and costs


class _Counting(dict[str, str]):
    """Labels that count how often they are asked for."""

    asked = 0

    def get(self, key: str, default: object = None) -> Any:
        self.asked += 1
        return super().get(key, default)


@pytest.mark.parametrize("form", ["k{}!=v", "!k{}", "k{} notin (v)", "k{}", "k{}=v", "same!=v{}", "same notin (v{})"])
def test_to_ask_about_an_object_takes_no_longer_with_more_terms(form: str) -> None:
    selector = parse_label_selector(",".join(form.format(number) for number in range(500)))
    labels = _Counting(same="x", k7="w", other="y")
    selector.matches(labels)
    assert labels.asked <= len(labels)


@pytest.mark.parametrize("form", ["metadata.name!=v{}", "metadata.name=v{}"])
def test_terms_about_one_field_are_one_question(form: str) -> None:
    selector = parse_field_selector(",".join(form.format(number) for number in range(500)))
    values = _Counting({"metadata.name": "x"})
    selector.matches(values)
    assert values.asked <= 1
    assert selector.fields == {"metadata.name"}


_TEXTS_OVER_THE_BOUND = [
    ",".join(f"k{number}!=v" for number in range(501)),
    ",".join(f"k{number}" for number in range(1001)),
    f"k in ({','.join(f'v{number}' for number in range(1000))})",
    f"k={'v' * selectors.MAX_TEXT}",
]


@pytest.mark.parametrize("text", _TEXTS_OVER_THE_BOUND, ids=["terms", "keys", "values", "text"])
def test_a_selector_over_the_bound_is_refused_in_few_words(text: str) -> None:
    with pytest.raises(SelectorError) as refused:
        parse_label_selector(text)
    assert len(str(refused.value)) < 100


@pytest.mark.parametrize(
    "text", [",".join(["a=b"] * 1001), f"a={'b' * selectors.MAX_TEXT}"], ids=["terms", "text"]
)  # fmt: skip
def test_a_field_selector_over_the_bound_is_refused_in_few_words(text: str) -> None:
    with pytest.raises(SelectorError) as refused:
        parse_field_selector(text)
    assert len(str(refused.value)) < 100


def test_a_struct_over_the_bound_is_refused() -> None:
    values = [f"v{number}" for number in range(500)]
    expressions = [LabelSelectorRequirement(key=f"k{number}", operator="In", values=values) for number in range(2)]
    assert selectors.terms_of(Struct(match_expressions=expressions)) == 1002
    with pytest.raises(SelectorError, match="too many"):
        label_selector_of(Struct(match_expressions=expressions))
    label_selector_of(Struct(match_expressions=expressions[:1]))


def _holds(one: selectors.Requirement, labels: dict[str, str]) -> bool:
    """What Kubernetes asks of each requirement by itself (labels.Requirement.Matches)."""
    value = labels.get(one.key)
    if one.operator in (Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS):
        return value in one.values
    if one.operator in (Operator.NOT_IN, Operator.NOT_EQUALS):
        return value not in one.values
    if one.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        return (value is not None) is (one.operator is Operator.EXISTS)
    if value is None or not re.fullmatch("-?[0-9]+", value, re.ASCII):
        return False
    limit = int(one.values[0])
    return int(value) > limit if one.operator is Operator.GREATER_THAN else int(value) < limit


_NUMBERS = st.sampled_from(["1", "2", "3"])
_KEYS = st.sampled_from("abc")
_REQUIREMENTS = st.one_of(
    st.builds(Requirement, _KEYS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(
        lambda key, operator, value: Requirement(key, operator, (value,)),
        _KEYS,
        st.sampled_from([Operator.EQUALS, Operator.NOT_EQUALS, Operator.GREATER_THAN, Operator.LESS_THAN]),
        _NUMBERS,
    ),
    st.builds(
        lambda key, operator, values: Requirement(key, operator, tuple(sorted(values))),
        _KEYS,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.sets(_NUMBERS, min_size=1),
    ),
)


@example([Requirement("a", Operator.EQUALS, ("1",)), Requirement("a", Operator.GREATER_THAN, ("1",))], {"a": "1"})
@given(st.lists(_REQUIREMENTS, max_size=6), st.dictionaries(_KEYS, st.sampled_from(["1", "2", "3", "x"])))
def test_requirements_put_together_select_what_each_by_itself_does(
    requirements: list[Requirement], labels: dict[str, str]
) -> None:
    assert selectors.LabelSelector(tuple(requirements)).matches(labels) is all(_holds(r, labels) for r in requirements)


@given(
    st.lists(st.builds(FieldTerm, _KEYS, st.sampled_from(["", "1", "2"]), st.booleans()), max_size=5),
    st.dictionaries(_KEYS, st.sampled_from(["", "1", "2"])),
)
def test_field_terms_put_together_select_what_each_by_itself_does(
    terms: list[FieldTerm], values: dict[str, str]
) -> None:
    expected = all((values.get(term.field, "") == term.value) is not term.negated for term in terms)
    assert selectors.FieldSelector(tuple(terms)).matches(values) is expected
