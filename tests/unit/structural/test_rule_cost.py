"""What rules are estimated to cost; the numbers are those that kube-apiserver 1.36 comes to."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.cel.compiler import compile_expression
from kubevouch.cel.tree import ListLiteral, StructLiteral
from kubevouch.structural.rule_cost import estimate
from kubevouch.structural.rule_function_costs import MOST
from kubevouch.structural.rule_types import declared_type
from kubevouch.structural.schema import compile_schema

Tree = dict[str, Any]

NUMBER: Tree = {"type": "number"}
TEXT: Tree = {"type": "string"}
BOOLEAN: Tree = {"type": "boolean"}
EITHER: Tree = {"x-kubernetes-int-or-string": True}
DURATION: Tree = {"type": "string", "format": "duration"}
DATE: Tree = {"type": "string", "format": "date"}
MOMENT: Tree = {"type": "string", "format": "date-time"}
STRUCT: Tree = {"type": "object", "properties": {"required": TEXT, "optional": TEXT}, "required": ["required"]}


def array(items: Tree, most: int | None = None) -> Tree:
    return {"type": "array", "items": items} | ({} if most is None else {"maxItems": most})


def mapping(values: Tree, most: int | None = None) -> Tree:
    return {"type": "object", "additionalProperties": values} | ({} if most is None else {"maxProperties": most})


def text(most: int | None = None, **more: Any) -> Tree:
    return TEXT | more | ({} if most is None else {"maxLength": most})


def struct(**properties: Tree) -> Tree:
    return {"type": "object", "properties": properties}


def cost_of(tree: Tree, rule: str) -> int:
    declared = declared_type(compile_schema(tree))
    assert declared is not None
    return estimate(compile_expression(rule, {"self": declared.type, "oldSelf": declared.type}).tree, declared)


ALL = "self.all(x, true)"
DEEP = 'self.all(x, x["y"].required == "z")'
REPLACE = "self.text.replace(self.before, self.after) == 'does not matter'"


@pytest.mark.parametrize(
    ("tree", "rule", "cost"),
    [
        (array(NUMBER), ALL, 4718591),
        (array(NUMBER, 10), ALL, 32),
        (array(TEXT), ALL, 3145727),
        (array(TEXT, 20), ALL, 62),
        (array(BOOLEAN), ALL, 1887437),
        (array(array(NUMBER)), ALL, 3145727),
        (array(STRUCT), ALL, 555128),
        (array(STRUCT, 50), ALL, 152),
        (array(EITHER), ALL, 4718591),
        (array(DURATION), ALL, 2359295),
        (array(DATE), ALL, 725936),
        (array(MOMENT), ALL, 428963),
        (mapping(NUMBER), ALL, 1348169),
        (mapping(TEXT), ALL, 1179647),
        (mapping(TEXT, 3), ALL, 11),
        (mapping(BOOLEAN), ALL, 943718),
        (mapping(EITHER), ALL, 1348169),
        (mapping(STRUCT), ALL, 428963),
        (mapping(mapping(NUMBER)), ALL, 1179647),
        (mapping(array(NUMBER), 25), ALL, 77),
        (mapping(DURATION), ALL, 1048577),
        (mapping(DATE), ALL, 524288),
        (mapping(MOMENT), ALL, 349526),
        (mapping(NUMBER), "has(self.x)", 1),
        (text(), "self.contains('test')", 314574),
        (text(10), "self.contains('test')", 5),
        (text(), "self.startsWith('test')", 2),
        (text(), "self.endsWith('test')", 2),
        (text(), "size(self + 'hello') > size('hello')", 314578),
        (text(4), "size(self + 'hello') > size('hello')", 7),
        (array(NUMBER), "self[1] == 0.0", 2),
        (array(TEXT), "self[1] == self[1]", 314577),
        (array(NUMBER, 10), "self.all(x, self.all(y, true))", 352),
        (array(NUMBER, 10), "self.all(x, self.all(y, self.all(z, true)))", 3552),
        (text(), "self.matches('x')", 314574),
        (text(50), "self.matches('x')", 22),
        (text(), "''.matches('(((((((((())))))))))[0-9]')", 7),
        (text(), "self.matches('')", 1),
        (mapping(TEXT), "self.all(x, x.contains(self[x]))", 2752507),
        (mapping(text(10), 10), "self.all(x, x.contains(self[x]))", 72),
        (mapping(NUMBER, 0), "self['x'] == 0.0", 2),
        (text(), "self == 'x'", 2),
        (text(0), "self == 'x'", 1),
        (text(format="byte"), "self == b'x'", 2),
        (text(0, format="byte"), "self == b'x'", 1),
        (array(NUMBER), "self.all(x, x == 0.0)", 6291454),
        (array(NUMBER, 6291456), "self.all(x, x == 0.0)", 25165826),
        (array(mapping(STRUCT)), DEEP, 7340027),
        (array(mapping(STRUCT | {"maxProperties": 10}, 10), 10), DEEP, 72),
        (array(EITHER), "self[0] == 5", 3),
        (array(BOOLEAN), "self[0] == false", 2),
        (array(STRUCT), "self[0] == null", 2),
        (array(array(NUMBER)), "self[0][0] == -1.0", 3),
        (array(mapping(NUMBER)), "self.all(x, x.y == 25.2)", 6291452),
        (array(mapping(NUMBER)), "self[0].x > 2.0", 4),
        (array(DURATION), "self[0].getHours() == 2", 4),
        (array(DATE), "self[2].getDayOfMonth() == 13", 4),
        (text(), "self.find('[0-9]+') == ''", 629147),
        (text(10), "self.find('[0-9]+') == ''", 11),
        (array(TEXT), "self.join(' ') == 'aa bb'", 329853068905),
        (array(text(10), 10), "self.join(' ') == 'aa bb'", 43),
        (array(TEXT), "self.isSorted() == true", 329854432052),
        (array(text(10), 10), "self.isSorted() == true", 52),
        (struct(text=text(), before=text(2), after=text(4)), REPLACE, 629154),
        (struct(text=text(4), before=text(2), after=text(4)), REPLACE, 12),
        (struct(text=text(), by=text()), "self.text.split(self.by) == []", 629160),
        (struct(text=text(10), by=text(10)), "self.text.split(self.by) == []", 22),
        (text(), "self.lowerAscii() == 'lower!'", 314575),
        (mapping({"type": "integer"}), "oldSelf.size() == self.size()", 5),
        (mapping(MOMENT), "self['a'] == self['b']", 8),
        (mapping(DURATION), "self['c'] == self['d']", 8),
        (text(enum=["A", "B", "C", "LongValue"]), "self.contains('A')", 2),
        (text(1000, enum=["A", "B", "C", "LongValue"]), "self.contains('A')", 401),
    ],
)
def test_kubernetes_own_numbers(tree: Tree, rule: str, cost: int) -> None:
    assert cost_of(tree, rule) == cost


@pytest.mark.parametrize("rule", ["self.all(x, self.all(y, true))", "self.all(x, self.exists(y, x == y))"])
def test_loops_over_what_has_no_bound_cost_more_than_anything_may(rule: str) -> None:
    assert cost_of(array(NUMBER), rule) > 1_000_000_000


@pytest.mark.parametrize(
    ("tree", "message", "cost"),
    [
        ({"type": "integer"}, "'x' + string(self)", MOST // 10),
        ({"type": "integer"}, "'is %d'.format([self])", 12),
        ({"type": "integer"}, "self > 1 ? 'a' : 'b'", 2),
    ],
)
def test_the_text_of_a_number_has_no_known_size(tree: Tree, message: str, cost: int) -> None:
    assert cost_of(tree, message) == pytest.approx(cost, rel=1e-9)


def test_nodes_that_no_rule_has_are_estimated_all_the_same() -> None:
    declared = declared_type(compile_schema(TEXT))
    assert declared is not None
    assert estimate(StructLiteral(0, "a", ()), declared) == 40
    assert estimate(ListLiteral(0, ()), declared) == 10
