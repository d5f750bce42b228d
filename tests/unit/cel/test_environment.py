"""The one suite of the expression language: whatever engine is behind the door has to pass it."""

from __future__ import annotations

import pytest

from kubevouch.api.authorization_v1 import SubjectAccessReviewSpec
from kubevouch.cel.compiler import MAX_SOURCE
from kubevouch.cel.environment import (
    ANY,
    BOOL,
    MAP,
    PER_CALL_LIMIT,
    STRING,
    Budget,
    Environment,
    EvaluationError,
    ExpressionError,
    OutOfBudget,
)
from kubevouch.cel.values import PausingRun

ENVIRONMENT = Environment({"claims": MAP, "object": ANY, "request": SubjectAccessReviewSpec, "name": STRING})
OBJECT = {
    "metadata": {"name": "web", "namespace": "prod", "labels": {"app": "web"}},
    "spec": {"replicas": 3, "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}], "empty": None},
}
VARIABLES = {
    "claims": {"sub": "jane", "roles": ["a", "b"], "admin": True},
    "object": OBJECT,
    "name": "n",
    "request": {},
}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("claims.sub", "jane"),
        ("'x:' + claims.sub", "x:jane"),
        ("claims.roles", ["a", "b"]),
        ("claims.?absent.orValue('none')", "none"),
        ("object.metadata.namespace", "prod"),
        ("object.spec.replicas * 2", 6),
        ("object.spec.replicas <= 5.5", True),
        ("object.spec.ports.map(p, p.port)", [80, 443]),
        ("object.spec.ports.map(p, p.port).sum()", 523),
        ("object.spec.ports.all(p, p.port < 1024)", True),
        ("object.spec.ports.exists_one(p, p.name == 'http')", True),
        ("object.spec.empty == null", True),
        ("has(object.spec.missing)", False),
        ("object.absent.deeper == 1 || true", True),
        ("'a,b'.split(',')", ["a", "b"]),
        ("'%s has %d'.format([name, 3])", "n has 3"),
        ("name.matches('^n+$')", True),
        ("[1, 2, 3].isSorted() && [3, 1].max() == 3 && [3, 1].min() == 1", True),
        ("'abc'.indexOf('c') == 2", True),
        ("sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])", True),
        ("{'a': 1}.all(k, k == 'a')", True),
        ("type(object.spec.replicas) == int", True),
        ("b'abc'", b"abc"),
        ("timestamp('2026-01-01T00:00:00Z') - duration('1h') < timestamp('2026-01-01T00:00:00Z')", True),
    ],
)
def test_values(source: str, value: object) -> None:
    assert ENVIRONMENT.compile(source).evaluate(VARIABLES) == value


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("true ||", "Syntax error"),
        ("undeclared", "ERROR: <input>:1:1: undeclared reference to 'undeclared' (in container '')"),
        ("1 + 'a'", "found no matching overload for '_+_' applied to '(int, string)'"),
        ("request.resourceAttributes.colour", "undefined field 'colour'"),
        ("has(request.colour)", "undefined field 'colour'"),
        ("(" * 300 + "1" + ")" * 300, "recursion"),
        ("'" + "x" * MAX_SOURCE + "'", "expected at most 10000"),
        ("", "Syntax error"),
        ("name.nothing()", "undeclared reference"),
        (
            "name == 'x' ||\n name.matches('(')",
            "ERROR: <input>:2:15: invalid matches argument\n |  name.matches('(')\n | ..............^",
        ),
        ("duration('1x') > duration('1s')", "ERROR: <input>:1:10: invalid duration argument"),
        ("object.all(a, timestamp('yesterday') > a)", "invalid timestamp argument"),
    ],
)
def test_what_does_not_compile(source: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        ENVIRONMENT.compile(source)
    assert str(caught.value).startswith("compilation failed: ")
    assert message in str(caught.value)


def test_the_type_is_checked() -> None:
    with pytest.raises(ExpressionError, match=r"^must evaluate to bool$"):
        ENVIRONMENT.compile("name", [BOOL])
    with pytest.raises(ExpressionError, match=r"^must evaluate to one of \[bool string\]$"):
        ENVIRONMENT.compile("1", [BOOL, STRING])
    assert ENVIRONMENT.compile("request.user", [STRING]).result_type == STRING


@pytest.mark.parametrize(
    "source",
    [
        "claims.absent == 'x'",
        "claims.absent",
        "!claims.absent",
        "object.spec.replicas.deeper == 1",
        "1 / (object.spec.replicas - 3) == 1",
        "object.spec.replicas + 9223372036854775807 > 0",
        "request.user == ''",
        "object.metadata.name > 1",
        "claims",
        "claims.sub",
        "'true'",
        "1",
        "['x']",
    ],
)
def test_only_a_boolean_true_holds(source: str) -> None:
    with pytest.raises(EvaluationError):
        ENVIRONMENT.compile(source).holds(VARIABLES)


def test_errors_are_no_values() -> None:
    with pytest.raises(EvaluationError, match=r"^no such key: absent$"):
        ENVIRONMENT.compile("claims.absent").evaluate(VARIABLES)
    with pytest.raises(EvaluationError, match="division by zero"):
        ENVIRONMENT.compile("1 / 0").evaluate({})
    with pytest.raises(EvaluationError):
        ENVIRONMENT.compile("name").evaluate({})


def test_true_and_false() -> None:
    program = ENVIRONMENT.compile("claims.admin")
    assert program.holds({"claims": {"admin": True}}) is True
    assert program.holds({"claims": {"admin": False}}) is False
    with pytest.raises(EvaluationError, match="got string, expected bool"):
        program.holds({"claims": {"admin": "yes"}})


ELEMENTS = list(range(9000))
DOUBLED = "['aaaaaaaaaa']" + ".map(x, x + x)" * 24
NESTED = "[['a']]" + ".map(x, [x, x])" * 24


@pytest.mark.parametrize(
    "source",
    [
        "object.all(a, object.all(b, object.all(c, a + b + c >= 0)))",
        "object.all(a, object == object)",
        "object.all(a, a in object || true)",
        "object.all(a, sets.equivalent(object, object))",
        "object.all(a, object.indexOf(-1) < 0)",
        "object.map(a, object.map(b, object)).size() > 0",
        "object.all(a, '%.900f'.format([1.0]) != '')",
        f"{DOUBLED}.size() > 0",
        f"{NESTED}.map(x, x == x).size() > 0",
        "object.all(a, object.map(b, 'x').join().replace('', '0123456789').size() > 0)",
        "object.all(a, !object.map(b, 'x').join().matches('(x|xx|xxx)*y'))",
    ],
)
def test_work_is_bounded(source: str) -> None:
    with pytest.raises(EvaluationError, match=r"^operation cancelled: actual cost limit exceeded$"):
        ENVIRONMENT.compile(source).holds({"object": ELEMENTS})


def test_a_value_that_shares_its_parts_is_bounded() -> None:
    with pytest.raises(EvaluationError, match="expected at most"):
        ENVIRONMENT.compile(NESTED).evaluate({})


def test_a_large_list_is_no_trouble() -> None:
    assert ENVIRONMENT.compile("object.all(a, a >= 0) && object.map(a, a * 2).size() == 9000").holds(
        {"object": ELEMENTS}
    )


def test_a_budget_pays_for_several() -> None:
    program, budget = ENVIRONMENT.compile("object.all(a, a >= 0)"), Budget(200_000)
    assert program.holds({"object": ELEMENTS}, budget=budget)
    budget.left = 100
    with pytest.raises(OutOfBudget, match="running out of cost budget"):
        program.holds({"object": ELEMENTS}, budget=budget)


def test_deep_values_are_an_error() -> None:
    deep: object = 1
    for _ in range(5000):
        deep = [deep]
    program = ENVIRONMENT.compile("object == claims")
    other: object = 1
    for _ in range(5000):
        other = [other]
    with pytest.raises(EvaluationError, match="nested too deeply"):
        program.holds({"object": deep, "claims": other})


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("[1, 2].exists(x, x / 0 == 1 || x == 2)", True),
        ("[0, 2].all(x, 1 / x == 1)", False),
        ("[1, 2, 3].filter(x, x > 1).map(x, x * 2)", [4, 6]),
        ("[1, 2, 3].map(x, x > 1, x * 2)", [4, 6]),
        ("[1, 2].exists_one(x, x > 1)", True),
        ("dyn({'a': 1}).?a.?b.orValue(3)", 3),
        ("{'a': {'b': 1}}.?a.?b.orValue(3)", 1),
        ("[1, 2][?5].hasValue()", False),
        ("optional.of(1).optMap(y, y + 1).value()", 2),
        ("optional.none().or(optional.of(2)).value()", 2),
        ("{?'a': optional.none(), ?'b': optional.of(1)}", {"b": 1}),
        ("[?optional.none(), 2]", [2]),
        ("optional.ofNonZeroValue('').hasValue()", False),
        ("{1: 'a'}[1]", "a"),
        ("{true: 'a'}[?dyn(1)].hasValue()", False),
        ("dyn(1) == 1.0 && dyn(1u) == 1 && dyn(1) != '1' && dyn(true) != 1", True),
        ("dyn(1) < 1.5 && 2.5 > dyn(2u)", True),
        ("0.0 / 0.0 == 0.0 / 0.0", False),
        ("-7 / 2 == -3 && -7 % 2 == -1 && 7 % -2 == 1", True),
        ("int('-5') + int(2.9) + int(3u)", 0),
        ("string(1.5) + string(true) + string(b'a') + string(2u) + string(3.0)", "1.5truea23"),
        ("double('1.5') + double(1)", 2.5),
        ("uint(3) == 3u", True),
        ("bool('true') && !bool('0')", True),
        ("bytes('é').size()", 2),
        ("'é'.size()", 1),
        ("string(1000000.0) + ' ' + string(-0.0) + ' ' + string(0.00001)", "1e+06 -0 1e-05"),
        ("string(123456.5) + ' ' + string(1234567.5)", "123456.5 1.2345675e+06"),
        ("duration('1h30m').getMinutes()", 90),
        ("duration('1h2m3.004s').getMilliseconds()", 3_723_004),
        ("string(duration('1us')) + ' ' + string(duration('-1.5s'))", "0.000001s -1.5s"),
        ("optional.ofNonZeroValue(duration('0s')).hasValue()", False),
        ("optional.ofNonZeroValue(timestamp('0001-01-01T00:00:00Z')).hasValue()", False),
        ("string(duration('90m'))", "5400s"),
        ("string(timestamp('2026-01-02T03:04:05.500Z') + duration('1s'))", "2026-01-02T03:04:06.5Z"),
        ("timestamp('2026-01-02T03:04:05Z').getHours('America/New_York')", 22),
        ("timestamp('2026-01-02T03:04:05Z').getHours('-01:30')", 1),
        ("string(timestamp('2026-01-02T03:04:05+05:30'))", "2026-01-02T03:04:05+05:30"),
        ("timestamp('2026-01-02T03:04:05+05:30').getHours()", 21),
        ("timestamp('2026-01-02T03:04:05+05:30') == timestamp('2026-01-01T21:34:05Z')", True),
        ("timestamp('2026-01-04T03:04:05Z').getDayOfWeek()", 0),
        ("timestamp('2026-03-01T00:00:00Z').getDayOfYear()", 59),
        ("type(1) == int && type('') != type(1) && type(null) == null_type && type([]) == list", True),
    ],
)
def test_the_language(source: str, value: object) -> None:
    assert ENVIRONMENT.compile(source).evaluate(VARIABLES) == value


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("[1, 2][5]", "index out of bounds: 5"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("-9223372036854775808 - 1", "integer overflow"),
        ("-(-9223372036854775807 - 1)", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("int('1_0')", "type conversion error from 'string' to 'int'"),
        ("int(1e300)", "integer overflow"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
        ("duration(string(name) + 'x')", 'time: invalid duration "nx"'),
        ("timestamp('2026-01-02T03:04:05Z').getHours('Nowhere/None')", "unknown time zone Nowhere/None"),
        ("{'a': 1, 'a': 2}", "Failed with repeated key: a"),
        ("optional.none().value()", "optional.none() dereference"),
        ("[0, 1].all(x, 1 / x == 1)", "division by zero"),
        ("true && dyn(1)", "no such overload"),
    ],
)
def test_what_has_no_value(source: str, text: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        ENVIRONMENT.compile(source).evaluate(VARIABLES)
    assert str(caught.value) == text


def test_values_are_bounded() -> None:
    program = ENVIRONMENT.compile("name + name")
    with pytest.raises(EvaluationError, match="expected at most"):
        program.evaluate({"name": "x" * (1 << 20)})


def test_numbers_beyond_64_bits_are_an_error() -> None:
    with pytest.raises(EvaluationError):
        ENVIRONMENT.compile("object.big > 1").holds({"object": {"big": 1 << 70}})


def test_a_struct_is_checked_but_absent_fields_stay_absent() -> None:
    program = ENVIRONMENT.compile("has(request.resourceAttributes) && request.resourceAttributes.verb == 'get'", [BOOL])
    assert not program.holds({"request": {"user": "jane"}})
    assert program.holds({"request": {"resourceAttributes": {"verb": "get"}}})
    extra = ENVIRONMENT.compile("'x' in request.extra['example.com/key']", [BOOL])
    assert extra.holds({"request": {"extra": {"example.com/key": ["x"]}}})


@pytest.mark.parametrize(
    "source", ["isImage('a:b')", "'ab'.reverse()", "math.abs(-1) == 1", "jsonpatch.escapeKey('a')"]
)
def test_functions_that_there_are_not(source: str) -> None:
    with pytest.raises(ExpressionError):
        ENVIRONMENT.compile(source)


def test_a_long_evaluation_pauses_again_and_again_and_keeps_its_bounds() -> None:
    pauses: list[int] = []
    ten = "[0,1,2,3,4,5,6,7,8,9]"
    long = ENVIRONMENT.compile(f"{ten}.all(a,{ten}.all(b,{ten}.all(c,{ten}.all(d,a+b+c+d>=0))))", [BOOL])
    budget = Budget(PER_CALL_LIMIT, lambda: pauses.append(1))
    assert long.holds({}, budget=budget)
    spent = PER_CALL_LIMIT - budget.left
    assert spent // PausingRun.SLICE - 1 <= len(pauses) <= spent // PausingRun.SLICE + 1
    without = Budget(PER_CALL_LIMIT)
    assert long.holds({}, budget=without)
    assert without.left == budget.left
    pauses.clear()
    assert ENVIRONMENT.compile("1 == 1").holds({}, budget=budget)
    assert not pauses
    endless = ENVIRONMENT.compile(f"{ten}.all(x,{ten}.all(y,{long.source}))", [BOOL])
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        endless.holds({}, budget=Budget(10 * PER_CALL_LIMIT, lambda: pauses.append(1)))
    assert len(pauses) <= PER_CALL_LIMIT // PausingRun.SLICE
