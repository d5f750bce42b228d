"""Expressions over typed objects: what cel-go takes, what they give, and what it says of what it does not take."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kubevouch.cel.compiler import MAX_SOURCE, compile_expression
from kubevouch.cel.environment import EvaluationError, ExpressionError
from kubevouch.cel.types import BYTES, DOUBLE, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of, optional_of, struct
from kubevouch.cel.values import NONE


class Members:
    """A declared struct."""

    def __init__(self, **types: Type) -> None:
        self._types = types

    def member(self, name: str) -> tuple[str, Type] | None:
        # A name with two underscores stands for one with a dash.
        key = name.replace("__", "-")
        return (key, self._types[name]) if name in self._types else None


OBJECT = struct(
    "thing",
    Members(
        size=INT, name=STRING, ratio=DOUBLE, at=TIMESTAMP, raw=BYTES, any=DYN, list=list_of(STRING),
        map=map_of(STRING, INT), moments=list_of(TIMESTAMP), a__b=STRING, ratios=map_of(STRING, DOUBLE),
    ),
)  # fmt: skip
VARIABLES = {"self": OBJECT, "oldSelf": optional_of(OBJECT)}
VALUE = {
    "size": 3, "name": "web", "ratio": 1, "at": "2026-01-02T03:04:05Z", "raw": "YWI=", "any": 5, "list": ["a", "b"],
    "map": {"x": 1}, "moments": ["2026-01-02"], "a-b": "dash", "ratios": {"x": 2},
}  # fmt: skip


def value_of(source: str) -> Any:
    return compile_expression(source, VARIABLES).program.evaluate({"self": VALUE, "oldSelf": NONE})


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("self.size + 1", 4),
        ("-self.size * 2 - -1 % 2", -5),
        ("self.ratio / 2.0", 0.5),
        ("self.at.getFullYear()", 2026),
        ("self.at > timestamp('2026-01-01T00:00:00Z')", True),
        ("self.moments[0] < self.at", True),
        ("self.raw == b'ab' && self.raw.size() == 2", True),
        ("self.a__b", "dash"),
        ("has(self.a__b) && !has(self.any.deeper)", True),
        ("self.?a__b.orValue('')", "dash"),
        ("self.?at.optMap(x, x.getFullYear()).orValue(1)", 2026),
        ("self.ratios.x / 4.0", 0.5),
        ("oldSelf.?at.hasValue()", False),
        ("1.0 < 2 && 1u < 2 && 2 >= 1.5", True),
        ("[1, 2, 3].all(i, v, i < v)", True),
        ("self.map.exists(k, v, k == 'x' && v == 1)", True),
        ("[1, 1].existsOne(i, v, i == 0 && v == 1)", True),
        ("[1, 2, 3].transformList(i, v, i > 0, v * 2)", [4, 6]),
        ("self.map.transformMap(k, v, v + 1)", {"x": 2}),
        ("[5, 6].transformMap(i, v, v > 5, v)", {1: 6}),
        ("self.list.transformMapEntry(i, v, {v: i})", {"a": 0, "b": 1}),
        ("[3, 1, 2].sort() + ['b', 'a'].sort().map(x, x.size())", [1, 2, 3, 1, 1]),
        ("[3, 1, 2].sortBy(x, -x)", [3, 2, 1]),
        ("[1, 2, 2, 1].distinct()", [1, 2]),
        ("[[1], [2, 3]].flatten().slice(1, 3)", [2, 3]),
        ("[dyn([[1], [2]]), dyn(3)].flatten(2)", [1, 2, 3]),
        ("lists.range(3).reverse()", [2, 1, 0]),
        ("string(ip('::1')) == '::1' && type(ip('::1')) == net.IP", True),
        ("self.any == 5 && self.any + 1 == 6", True),
        ("'\\u00e9\\x41\\101\\n' + r'\\n' + '''a'b'''", "éAA\n\\na'b"),
        ("b'\\xff' + b'é'", b"\xff\xc3\xa9"),
        ("0x10 + 1", 17),
        ("-9223372036854775808", -(1 << 63)),
        ("18446744073709551615u > 1u", True),
        ("1e3 + .5", 1000.5),
        ("true ? 'a' : 'b'", "a"),
        ("!!true && !false", True),
        ("{'a': 1, ?'b': optional.none()}.size() + [?optional.of(1)].size()", 2),
        (".self.size == 3", True),
        ("self.list.indexOf('b') == 1 && 'abc'.indexOf('c') == 2", True),
        ("format.named('dns1123Label').value().validate('A_').value().size() > 0", True),
        ("// a comment\n1", 1),
        ("((((((((((1))))))))))", 1),
    ],
)
def test_values(source: str, value: object) -> None:
    assert value_of(source) == value


def test_members_that_json_has_as_text_are_values() -> None:
    assert value_of("self.at") == dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    assert value_of("self.moments.map(x, x.getDate())") == [2]
    assert value_of("type(self.ratio) == double")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("self.colour", "ERROR: <input>:1:5: undefined field 'colour'\n | self.colour\n | ....^"),
        ("has(self.colour)", "ERROR: <input>:1:4: undefined field 'colour'\n | has(self.colour)\n | ...^"),
        ("self.?colour", "undefined field 'colour'"),
        ("nothing", "ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')"),
        ("nothing.deeper", "undeclared reference to 'nothing' (in container '')"),
        ("self.name.nothing()", "ERROR: <input>:1:18: undeclared reference to 'nothing' (in container '')"),
        ("nothing(1)", "ERROR: <input>:1:8: undeclared reference to 'nothing' (in container '')"),
        ("1 + 'a'", "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'"),
        ("self.size == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.size == null", "found no matching overload for '_==_' applied to '(int, null)'"),
        ("self.name.startsWith(1)", "found no matching overload for 'startsWith' applied to 'string.(int)'"),
        ("self.size.x", "type 'int' does not support field selection"),
        ("ip('::1').x", "type 'net.IP' does not support field selection"),
        ("quantity('1').x", "unexpected failed resolution of 'kubernetes.Quantity'"),
        ("[1, 'a']", "ERROR: <input>:1:5: expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': 'c'}", "expected type 'int' but found 'string'"),
        ("[?1]", "expected type 'optional_type(int)' but found 'int'"),
        ("true && 1", "ERROR: <input>:1:9: expected type 'bool' but found 'int'"),
        ("self.list.all(x, 1)", "expected type 'bool' but found 'int'"),
        ("self.size.all(x, true)", "expression of type 'int' cannot be range of a comprehension"),
        ("self.list.all(1, true)", "ERROR: <input>:1:15: argument must be a simple name"),
        ("self.list.map(1, 2)", "argument is not an identifier"),
        ("self.list.all(__result__, true)", "iteration variable overwrites accumulator variable"),
        ("self.?at.optMap(1, 2)", "optMap() variable name must be a simple identifier"),
        ("has(self)", "ERROR: <input>:1:5: invalid argument to has() macro"),
        ("thing{size: 1}", "undeclared reference to 'thing' (in container '')"),
        ("int{size: 1}", "'int' is not a message type"),
        ("self{size: 1,}", "'thing' is not a type"),
        ("for", "reserved identifier: for"),
        ("9223372036854775808", "invalid int literal"),
        ("18446744073709551616u", "invalid uint literal"),
        ("b'\\u00ff'", "invalid bytes literal"),
        ("duration('x')", "ERROR: <input>:1:10: invalid duration argument"),
        ("'a'.matches('(')", "invalid matches argument"),
        ("timestamp(-62135596801)", "ERROR: <input>:1:11: invalid timestamp argument"),
        ("'a'.find(')')", "error parsing regexp: unexpected ): `)`"),
        ("'a'.findAll('[')", "error parsing regexp: missing closing ]: `[`"),
        (
            "'%d'.format([self.name])",
            ("ERROR: <input>:1:18: error during formatting: decimal clause can only be used on integers, was given"
            " string"),
        ),
        (
            "'%s'.format([[1, ip('::1')]])",
            ("ERROR: <input>:1:20: error during formatting: string clause can only be used on strings, bools, bytes,"
            " ints, doubles, maps, lists, types, durations, and timestamps, was given net.IP"),
        ),
        ("'%f'.format([duration('1s')])", "was given google.protobuf.Duration"),
        ("'%d %d'.format([1])", "ERROR: <input>:1:15: index 1 out of range"),
        ("'%a'.format([1])", 'could not parse formatting clause: unrecognized formatting clause "a"'),
        (
            "'%s'.format([1, 2])",
            "ERROR: <input>:1:12: too many arguments supplied to string.format (expected 1, got 2)",
        ),
        ("self.size >", "ERROR: <input>:1:12: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.',"),
        ("self.in", "ERROR: <input>:1:6: Syntax error: no viable alternative at input '.in'"),
        ("self.list[", "expecting {'[', '{', '(', '.', '-', '!', '?', 'true'"),
        ("1 $ 2", "token recognition error at: '$'"),
        ("1 2", "Syntax error"),
        ("(1", "missing ')' at '<EOF>'"),
        ("a{b}", "Syntax error"),
        ("{1}", "Syntax error"),
        ("a.1", "Syntax error"),
        (".1.a.", "Syntax error"),
        ("..a", "Syntax error"),
        ("f(1,)", "Syntax error"),
        ("-", "Syntax error"),
        ("", "Syntax error"),
        ("[1,, 2]", "Syntax error"),
        ("{1: 2,, 3: 4}", "Syntax error"),
        ("a{b: 1,, c: 2}", "Syntax error"),
        ("'" + "x" * MAX_SOURCE + "'", "expected at most 10000"),
        ("[" * 300 + "]" * 300, "ERROR: <input>:-1:0: expression recursion limit exceeded: 250"),
        ("0" + " + 0" * 250, "ERROR: <input>:-1:0: max recursion depth exceeded"),
        ("self.any" + ".a" * 300, "max recursion depth exceeded"),
        ("self.name ==\n  é", "ERROR: <input>:2:3: Syntax error: token recognition error at: 'é'\n |   é\n | ..＾"),
        ("'é' + 1", "no matching overload for '_+_' applied to '(string, int)'\n | 'é' + 1\n | .．..^"),
    ],
)  # fmt: skip
def test_what_does_not_compile(source: str, text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(source, VARIABLES)
    assert text in str(caught.value)


def test_more_than_one_thing_can_be_wrong() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression("nothing + self.colour", VARIABLES)
    assert str(caught.value).count("ERROR: ") == 2
    with pytest.raises(ExpressionError, match="50 more errors were truncated"):
        compile_expression(f"[{', '.join(['x'] * 150)}]", {})


def test_expressions_nest_deep() -> None:
    assert value_of("(" * 200 + "1" + ")" * 200) == 1
    assert value_of("0" + " + 1" * 249) == 249
    assert value_of("true" + " == true" * 249)
    assert value_of("[" * 100 + "1" + "]" * 100 + ".size()") == 1
    assert value_of("dyn(" * 100 + "1" + ")" * 100) == 1


def test_a_long_chain_of_logic_is_a_flat_tree() -> None:
    assert value_of(" || ".join(["false"] * 999 + ["true"]))
    assert not value_of(" && ".join(["true"] * 999 + ["false"]))


def test_the_variables_that_are_used_are_known() -> None:
    assert compile_expression("self.size == 1", VARIABLES).names == {"self"}
    assert compile_expression("oldSelf.hasValue() || self.list.all(oldSelf, oldSelf == '')", VARIABLES).names == {
        "self", "oldSelf"
    }  # fmt: skip
    assert compile_expression("[1].all(self, self > 0)", VARIABLES).names == set()


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("self.absent.x == 1", "no such key: absent"),
        ("[1, 1].transformMapEntry(i, v, {v: i})", "insert failed: key 1 already exists"),
        ("[1].transformMapEntry(i, v, {dyn(1.5): i})", "unsupported key type"),
        ("[1].slice(2, 1).size() > 0", "cannot slice(2, 1), start index must be less than or equal to end index"),
        ("[1].slice(-1, 1).size() > 0", "cannot slice(-1, 1), negative indexes not supported"),
        ("[1].slice(0, 2).size() > 0", "cannot slice(0, 2), list is length 1"),
        ("[[1]].flatten(-1).size() > 0", "level must be non-negative"),
        ("lists.range(-1).size() > 0", "lists.range: size must be non-negative, got -1"),
        ("lists.range(100000000).size() > 0", "lists.range: size 100000000 exceeds maximum allowed (10000000)"),
        ("lists.range(9000000).size() > 0", "operation cancelled: actual cost limit exceeded"),
        ("[dyn(1), dyn('a')].sortBy(x, dyn(x)).size() > 0", "list elements must have the same type"),
    ],
)
def test_what_has_no_value(source: str, text: str) -> None:
    variables = {"self": DYN}
    with pytest.raises(EvaluationError) as caught:
        compile_expression(source, variables).program.evaluate({"self": {}})
    assert str(caught.value) == text


def test_a_chain_of_macros_that_use_their_receiver_twice_does_not_double() -> None:
    chain = "optional.of(1)" + ".optMap(a, a)" * 100
    assert compile_expression(chain, {}).type == optional_of(INT)
