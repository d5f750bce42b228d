"""What expressions cost when they run: Kubernetes' costs, and what bounds their time besides."""

from __future__ import annotations

import pytest

from kubevouch.cel.environment import ANY, STRING, Budget, Environment, EvaluationError, OutOfBudget

ENVIRONMENT = Environment({"o": ANY, "name": STRING})
ELEMENTS = list(range(9000))


def cost_of(source: str, o: object = None, name: str = "n") -> int:
    budget = Budget(1_000_000)
    ENVIRONMENT.compile(source).value({"o": o, "name": name}, budget=budget)
    return 1_000_000 - budget.left


@pytest.mark.parametrize(
    ("source", "o", "cost"),
    [
        # A variable and each member cost 1, a call mostly 1.
        ("o.a.b == 3", {"a": {"b": 3}}, 4),
        ("has(o.a.b)", {"a": {"b": 3}}, 2),
        ("type(o) == int", 1, 3),
        # Comparing costs a tenth of the shorter one, whatever is in it.
        ("o == o", "x" * 25, 5),
        ("o == o", [[1, 2, 3]] * 12, 4),
        ("o == {'a': [1, 2, 3]}", {"a": [1, 2, 3]}, 2),
        ("o + o == [1, 1]", [1], 4),
        # What is constant is made once.
        ("o == [1, 2, 3]", [1, 2, 3], 2),
        ("o == [o]", 1, 13),
        ("int('12') + 1 == 13", None, 2),
        ("o == duration('1m')", "x", 2),
        # Searching a list costs its length, but nothing if it is a constant.
        ("3 in o", [3, 4, 5, 6], 5),
        ("o in [3, 4, 5]", 4, 1),
        ("'a' in o", {"a": 1}, 2),
        # Variables cost nothing as an index, and in a choice.
        ("o[name] == 1", {"n": 1}, 3),
        ("true ? o : 1", 1, 0),
        ("true ? o.a : 1", {"a": 1}, 1),
        # Loops: what each turn costs.
        ("o.all(x, x > 0)", [1, 1, 1], 17),
        ("o.all(x, x > 0)", [1, 0, 1], 14),
        ("o.exists(x, x > 1)", [1, 1, 2], 20),
        ("o.exists_one(x, x > 1)", [1, 1, 2], 11),
        ("o.filter(x, x > 1)", [1, 1, 2], 21),
        ("o.map(x, x > 1)", [1, 1, 2], 44),
        # Texts cost a tenth of their length.
        ("o.contains('a')", "x" * 25, 5),
        ("o.indexOf('a')", "x" * 25, 3),
        ("o.lowerAscii()", "x" * 25, 4),
        ("o.replace('x', 'yyyyyyyy')", "x" * 25, 6),
        # What is optional.
        ("o.?a.orValue(1)", {"a": 1}, 2),
        ("o.?b.orValue(1)", {"a": 1}, 1),
        ("optional.of(o).or(optional.of(o)).hasValue()", 1, 3),
        ("optional.of(o).optMap(v, v + 1)", 1, 9),
    ],
)
def test_costs(source: str, o: object, cost: int) -> None:
    assert cost_of(source, o) == cost


def test_what_costs_nothing_has_a_budget_of_its_own() -> None:
    program, budget = ENVIRONMENT.compile("o == o"), Budget(20_000)
    for _ in range(2):
        assert program.holds({"o": ELEMENTS}, budget=budget)
    assert budget.left > 10_000
    with pytest.raises(OutOfBudget, match="running out of cost budget"):
        program.holds({"o": ELEMENTS}, budget=budget)


@pytest.mark.parametrize(
    "source",
    [
        "o.all(a, o == o)",
        "o.all(a, o + o != [])",
        "o.filter(a, o.filter(b, false) == [a]) == []",
        "o.filter(a, o.filter(b, o.filter(c, false) == [b]) == [a]) == []",
    ],
)
def test_turns_that_cost_nothing_end(source: str) -> None:
    with pytest.raises(EvaluationError, match=r"^operation cancelled: actual cost limit exceeded$"):
        ENVIRONMENT.compile(source).holds({"o": ELEMENTS})


def test_a_constant_stays_what_it_is() -> None:
    program = ENVIRONMENT.compile("[1, 2].map(x, x * 2) + [1, 2].filter(x, x > 1) + [3]")
    for _ in range(2):
        assert program.evaluate({}) == [2, 4, 2, 3]


def test_what_an_optional_has_not_is_looked_for_only_then() -> None:
    assert ENVIRONMENT.compile("optional.of(2).orValue(1 / 0)").evaluate({}) == 2
    assert ENVIRONMENT.compile("optional.of(2).or(optional.of(1 / 0)).value()").evaluate({}) == 2
    with pytest.raises(EvaluationError, match="division by zero"):
        ENVIRONMENT.compile("optional.none().orValue(1 / 0)").evaluate({})
    with pytest.raises(EvaluationError, match="no such overload"):
        ENVIRONMENT.compile("o.orValue(1)").evaluate({"o": 1})
