"""The one suite of the expression language: whatever engine is behind the door has to pass it."""

from __future__ import annotations

import pytest

from kubevouch.api.authorization_v1 import SubjectAccessReviewSpec
from kubevouch.cel.environment import ANY, BOOL, MAP, MAX_SOURCE, STRING, Environment, EvaluationError, ExpressionError

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
        ("(" * 200 + "1" + ")" * 200, "recursion"),
        ("'" + "x" * MAX_SOURCE + "'", "expected at most 10000"),
        ("", "Syntax error"),
        ("name.nothing()", "undeclared reference"),
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
    with pytest.raises(EvaluationError, match="divide by zero"):
        ENVIRONMENT.compile("1 / 0").evaluate({})
    with pytest.raises(EvaluationError):
        ENVIRONMENT.compile("name").evaluate({})


def test_true_and_false() -> None:
    program = ENVIRONMENT.compile("claims.admin")
    assert program.holds({"claims": {"admin": True}}) is True
    assert program.holds({"claims": {"admin": False}}) is False
    with pytest.raises(EvaluationError, match="got string, expected bool"):
        program.holds({"claims": {"admin": "yes"}})


def test_work_is_bounded() -> None:
    nested = ENVIRONMENT.compile("object.all(a, object.all(b, object.all(c, a + b + c >= 0)))")
    with pytest.raises(EvaluationError, match="budget"):
        nested.evaluate({"object": list(range(1000))})


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
