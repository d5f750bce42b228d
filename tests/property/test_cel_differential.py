"""Our compiler and interpreter of expressions against Google's, on texts that both take.

What is known to differ is not generated: numbers of different types beside one another, elements of different types in
a list, two-variable loops, functions of Kubernetes' libraries.
"""

from __future__ import annotations

from typing import Any

from cel_expr_python import cel
from hypothesis import given
from hypothesis import strategies as st

from kubevouch.cel.environment import Environment, EvaluationError, ExpressionError

TYPES = {"i": "int", "j": "int", "s": "string", "b": "bool", "l": "list(int)"}
OURS = Environment(TYPES)
THEIRS = cel.NewEnv(
    variables={
        "i": cel.Type.INT, "j": cel.Type.INT, "s": cel.Type.STRING, "b": cel.Type.BOOL,
        "l": cel.Type.List(cel.Type.INT),
    }
)  # fmt: skip
BEYOND = 1 << 62

integers = st.one_of(st.integers(-9, 99), st.sampled_from([BEYOND, -BEYOND]))
texts = st.text("aé/.\u20ac", max_size=4)


def _joined(*parts: Any) -> st.SearchStrategy[str]:
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts)).map("".join)


def _grown(depth: int) -> dict[str, st.SearchStrategy[str]]:
    """Texts of each type; a few are of another, for what is refused."""
    quoted = texts.map(lambda text: f"'{text}'")
    if depth == 0:
        return {
            "int": st.one_of(integers.map(str), st.sampled_from(["i", "j"])),
            "string": st.one_of(quoted, st.just("s")),
            "bool": st.sampled_from(["true", "false", "b"]),
            "list": st.sampled_from(["l", "[1, 2, 3]", "[i, j]"]),
        }
    below = _grown(depth - 1)
    number, text, truth, items = below["int"], below["string"], below["bool"], below["list"]
    operand = st.one_of(number, number, number, number, number, number, text)
    return {
        "int": st.one_of(
            number,
            _joined("(", operand, st.sampled_from([" + ", " - ", " * ", " / ", " % "]), number, ")"),
            _joined("-(", number, ")"),
            _joined("(", truth, " ? ", number, " : ", number, ")"),
            _joined("size(", st.one_of(text, items), ")"),
            _joined(items, "[", number, "]"),
        ),
        "string": st.one_of(
            text, _joined("(", text, " + ", text, ")"), _joined("string(", st.one_of(number, truth), ")")
        ),
        "bool": st.one_of(
            truth,
            _joined("(", number, st.sampled_from([" < ", " <= ", " == ", " != ", " >= ", " > "]), operand, ")"),
            _joined("(", truth, st.sampled_from([" && ", " || ", " == "]), truth, ")"),
            _joined("!(", truth, ")"),
            _joined(text, st.sampled_from([".startsWith(", ".endsWith(", ".contains("]), text, ")"),
            _joined("(", number, " in ", items, ")"),
            _joined(items, st.sampled_from([".all", ".exists", ".exists_one"]), "(x, x < ", number, ")"),
            _joined(items, ".exists(x, ", number, " / x > 1)"),
        ),
        "list": st.one_of(
            items,
            _joined(items, ".map(x, x + ", number, ")"),
            _joined(items, ".filter(x, x > ", number, ")"),
            _joined("(", items, " + ", items, ")"),
        ),
    }


expressions = st.one_of(*_grown(3).values())


def ours(source: str, variables: dict[str, Any]) -> tuple[str, Any]:
    try:
        program = OURS.compile(source)
    except ExpressionError:
        return "refused", None
    try:
        return "value", program.value(variables)
    except EvaluationError:
        return "error", None


def theirs(source: str, variables: dict[str, Any]) -> tuple[str, Any]:
    try:
        program = THEIRS.compile(source)
    except RuntimeError:
        return "refused", None
    try:
        value = program.eval(data=variables)
    except (RuntimeError, ValueError):
        return "error", None
    return ("error", None) if str(value.type()) == "ERROR" else ("value", value.plain_value())


@given(
    source=expressions,
    i=integers,
    j=integers,
    s=texts,
    b=st.booleans(),
    l=st.lists(integers, max_size=3),
)
def test_what_an_expression_is(source: str, i: int, j: int, s: str, b: bool, l: list[int]) -> None:  # noqa: E741
    variables = {"i": i, "j": j, "s": s, "b": b, "l": l}

    assert ours(source, variables) == theirs(source, variables)
