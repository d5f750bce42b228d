"""What functions of libraries are estimated to cost."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.cel.compiler import compile_expression
from kubevouch.structural.rule_cost import estimate
from kubevouch.structural.rule_types import declared_type
from kubevouch.structural.schema import compile_schema


def cost_of(tree: dict[str, Any], rule: str) -> int:
    declared = declared_type(compile_schema(tree))
    assert declared is not None
    return estimate(compile_expression(rule, {"self": declared.type, "oldSelf": declared.type}).tree, declared)


def text(most: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": most}


LIST = {"type": "array", "maxItems": 10, "items": text(10)}


@pytest.mark.parametrize(
    ("rule", "cost"),
    [
        # Name 1, literal 10, each with each, and the call.
        ("sets.contains(self, ['a'])", 1 + 10 + 10 * 1 + 1),
        ("sets.equivalent(self, ['a', 'b'])", 1 + 10 + 2 * 10 * 2 + 1),
        ("sets.intersects(self, self)", 1 + 1 + 10 * 10 + 1),
        # What makes a list costs 11 and its items; size() is one more.
        ("self.slice(1, 3).size()", 1 + 11 + 2 + 1),
        ("lists.range(5).size()", 11 + 5 + 1),
        ("self.reverse().size()", 1 + 11 + 10 + 1),
        ("self.distinct().size()", 1 + 11 + 2 * 100 + 1),
        ("self.sort().size()", 1 + 11 + 210 + 1),
        ("[self].flatten().size()", 1 + 10 + 11 + 1 + 1),
        ("self.min() == 'a'", 1 + 10 * (1 + 4) + 1),
        # A turn of a loop: the condition 2, the logic's sides, what they use.
        ("self.all(i, v, i < 10)", 1 + 10 * (2 + 1 + 2) + 1),
        ("self.exists_one(x, x == 'a')", 1 + 10 * (2 + 2) + 2 + 0),
        ("dyn(self).size()", 1 + 1 + 1),
        ("self.sortBy(x, x).size()", 10 + 1 + 1 + (1 + 10 + 10 * 13 + 1) + (11 + 210) + 1),
    ],
)
def test_functions_of_lists(rule: str, cost: int) -> None:
    assert cost_of(LIST, rule) == cost


@pytest.mark.parametrize(
    ("rule", "cost"),
    [
        ("ip(self).family()", 3),
        ("cidr(self).ip() == ip('::1')", 1 + 1 + 1 + 1 + 1),
        ("cidr(self).containsIP(self)", 1 + 1 + 1 + 4 + 4),
        ("cidr(self).containsIP(ip(self))", 1 + 1 + 1 + 1 + 4),
        ("cidr(self).containsCIDR(cidr(self))", 1 + 1 + 1 + 1 + 4 + 2 + 1),
        ("quantity(self) == quantity('1')", 1 + 1 + 1 + 1),
        ("semver(self) == semver('1.2.3')", 1 + 1 + 1 + 1),
        ("url(self) == url('http://a')", 1 + 4 + 1 + 1),
        ("format.named(self).value() == format.dns1123Label()", 1 + 1 + 1 + 1 + 7),
        ("format.dns1123Label().validate(self).hasValue()", 1 + 1 + 4 * 32 + 1),
        ("self.split('', 3).size()", 1 + 8 + 1),
        ("self.substring(1).size()", 1 + 4 + 1),
        ("self.replace('', 'ab').size()", 1 + 8 + 1),
        ("self.replace('aa', 'b').size()", 1 + 8 + 1),
        ("self.replace('a', 'bb') == self", 1 + 8 + 1 + 4),
        ("'aaaa'.replace('a', '') == self", 1 + 1 + 1),
        ("self.findAll('a').size()", 1 + 5 + 1),
    ],
)
def test_functions_of_texts(rule: str, cost: int) -> None:
    assert cost_of(text(10), rule) == cost


@pytest.mark.parametrize(
    "rule",
    [
        "string(bytes(self)) == self && strings.quote(self) == self",
        "[[1], [2]].flatten(1) == []",
        "{'a': 1, 'b': 2}.transformMap(k, v, v + 1).size() == 2",
        "{'a': [self]}['a'][0] == self && [self] + [self] == []",
        "optional.of(self).optMap(x, x == 'a').orValue(true)",
        "[3, 1].sortBy(x, -x) == [1, 3] && type(self) == string && type(ip(self)) == net.IP",
        "(self == '' ? [1] : [2, 3]).all(x, x > 0)",
        "self.replace('', self) == '' && self.replace(self, '') == ''",
    ],
)
def test_what_is_bounded_has_a_bounded_estimate(rule: str) -> None:
    assert 0 < cost_of(text(10), rule) < 100_000
    assert cost_of(text(20), rule) >= cost_of(text(10), rule)
