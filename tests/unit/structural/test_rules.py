"""Rules on a write: when they run, what they say, what they may cost, what may stay wrong."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.cel.environment import Turn, TurnOver
from kubevouch.machinery import field
from kubevouch.structural import rules
from kubevouch.structural.rules import UNCHECKED, InvalidPath, Rules, field_path, may_run, walked
from kubevouch.structural.schema import compile_schema

TEXT: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}


def schema_of(spec: dict[str, Any], *root_rules: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": spec}, "x-kubernetes-validations": list(root_rules)}


def with_rule(tree: dict[str, Any], rule: str, **more: Any) -> dict[str, Any]:
    return {**tree, "x-kubernetes-validations": [{"rule": rule, **more}]}


def struct(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def check(tree: dict[str, Any], new: Any, old: Any = None) -> tuple[list[str], list[str]]:
    found = Rules(compile_schema(tree)).check({"spec": new}, None if old is None else {"spec": old})
    return [str(error) for error in found.errors], found.warnings


SIZE = struct(size=INTEGER, color=TEXT)


@pytest.mark.parametrize(
    ("spec", "new", "error"),
    [
        (with_rule(SIZE, "self.size > 5"), {"size": 6}, None),
        (with_rule(SIZE, "self.size > 5"), {"size": 1}, "spec: Invalid value: failed rule: self.size > 5"),
        (with_rule(SIZE, "self.size > 5", message=" too small "), {"size": 1}, "spec: Invalid value: too small"),
        (
            with_rule(SIZE, "self.size > 5", messageExpression="'%d is small'.format([self.size])"),
            {"size": 1},
            "spec: Invalid value: 1 is small",
        ),
        (with_rule(SIZE, "false", messageExpression="' '"), {}, "spec: Invalid value: failed rule: false"),
        (
            with_rule(SIZE, "false", message="other", messageExpression="self.color"),
            {"color": "a\nb"},
            "spec: Invalid value: other",
        ),
        (
            with_rule(SIZE, "false", message="other", messageExpression="self.color"),
            {"color": "x" * 6000},
            "spec: Invalid value: other",
        ),
        (with_rule(SIZE, "false", message="other", messageExpression="self.color"), {}, "spec: Invalid value: other"),
        (with_rule(SIZE, "false", message="m", reason="FieldValueRequired"), {}, "spec: Required value: m"),
        (with_rule(SIZE, "false", message="m", reason="FieldValueForbidden"), {}, "spec: Forbidden: m"),
        (with_rule(SIZE, "false", message="m", reason="FieldValueDuplicate"), {}, "spec: Duplicate value"),
        (with_rule(SIZE, "false", message="m", reason="FieldValueInvalid"), {}, "spec: Invalid value: m"),
        (with_rule(SIZE, "false", message="m", fieldPath=".color"), {}, "spec.color: Invalid value: m"),
        (
            with_rule(SIZE, "self.color == 'x'"),
            {},
            'spec: Invalid value: "object": no such key: color evaluating rule: self.color == \'x\'',
        ),
        (
            with_rule(SIZE, "self.color == 'x'", message="must be x"),
            {},
            'spec: Invalid value: "object": no such key: color evaluating rule: must be x',
        ),
        (
            with_rule(SIZE, "1 / self.size == 1"),
            {"size": 0},
            'spec: Invalid value: "object": division by zero evaluating rule: 1 / self.size == 1',
        ),
        (
            with_rule(struct(a={"x-kubernetes-int-or-string": True}), "self.a > 1"),
            {"a": "x"},
            ("spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, "
            "function or macro signature for rule: self.a > 1"),
        ),
        (struct(n=with_rule(INTEGER, "self < 5", message="big")), {"n": 9}, "spec.n: Invalid value: 9: big"),
        (struct(n=with_rule(TEXT, "self == ''", message="m")), {"n": "a"}, 'spec.n: Invalid value: "a": m'),
        (
            struct(n=with_rule(TEXT, "self == ''", message="m", reason="FieldValueDuplicate")),
            {"n": "a"},
            'spec.n: Duplicate value: "a"',
        ),
        (struct(n=with_rule(TEXT | {"nullable": True}, "self == ''")), {"n": None}, None),
        (
            struct(n={"type": "array", "items": with_rule(INTEGER, "self < 5", message="big")}),
            {"n": [1, 9]},
            "spec.n[1]: Invalid value: 9: big",
        ),
        (
            struct(n={"type": "object", "additionalProperties": with_rule(INTEGER, "self < 5", message="big")}),
            {"n": {"a.b": 9}},
            "spec.n[a.b]: Invalid value: 9: big",
        ),
        (struct(**{"1n": with_rule(INTEGER, "self < 5", message="big")}), {"1n": 9}, "spec.1n: Invalid value: 9: big"),
        (
            struct(at=with_rule(TEXT | {"format": "date-time"}, "self.getFullYear() == 2026", message="m")),
            {"at": "2025-01-01T00:00:00Z"},
            'spec.at: Invalid value: "2025-01-01T00:00:00Z": m',
        ),
        (
            struct(at=with_rule(TEXT | {"format": "byte"}, "self.size() == 1")),
            {"at": "?"},
            'spec.at: Invalid value: "string": invalid byte string ?',
        ),
        (
            with_rule(struct(m=struct(), n={"type": "object", "additionalProperties": TEXT}), "false",
                      message="m", fieldPath=".n['x.y']"),
            {},
            "spec.n[x.y]: Invalid value: m",
        ),
    ],
)  # fmt: skip
def test_what_a_rule_says(spec: dict[str, Any], new: Any, error: str | None) -> None:
    assert check(schema_of(spec), new) == ([] if error is None else [error], [])


ITEMS: dict[str, Any] = {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}
LENGTHS: dict[str, Any] = {"type": "array", "items": {"type": "string", "format": "duration"}}


@pytest.mark.parametrize(
    ("rule", "new"),
    [
        ("!has(self.color)", {"color": None}),
        ("self.?color.orValue('none') == 'none'", {"color": None}),
        ("self.set + ['c'] == ['c', 'b', 'a']", {"set": ["a", "b"]}),
        ("self.set + ['c'] + ['d'] == ['d', 'c', 'b', 'a']", {"set": ["a", "b"]}),
        ("self.lengths.sum() == duration('0s')", {"lengths": []}),
        ("self.lengths.sum() == duration('90s')", {"lengths": ["1m", "30s"]}),
        ("self.doubles.sum() == 0.0", {"doubles": []}),
    ],
)
def test_what_rules_see(rule: str, new: dict[str, Any]) -> None:
    doubles = {"type": "array", "items": {"type": "number"}}
    spec = struct(color={**TEXT, "nullable": True}, set=ITEMS, lengths=LENGTHS, doubles=doubles)
    assert check(schema_of(with_rule(spec, rule)), new) == ([], [])


def test_rules_of_the_root_have_no_path() -> None:
    tree = schema_of(SIZE, {"rule": "self.metadata.name.size() < 3", "message": "too long"})
    found = Rules(compile_schema(tree)).check({"metadata": {"name": "long"}, "spec": {}})
    assert [str(error) for error in found.errors] == ["<nil>: Invalid value: too long"]
    pointing = schema_of(SIZE, {"rule": "false", "message": "m", "fieldPath": ".spec.size"})
    assert check(pointing, {})[0] == ["spec.size: Invalid value: m"]


def test_rules_run_in_order_and_before_those_below() -> None:
    spec = struct(a=with_rule(TEXT, "false", message="3"))
    spec["x-kubernetes-validations"] = [{"rule": "false", "message": "1"}, {"rule": "false", "message": "2"}]
    errors, _ = check(schema_of(spec), {"a": ""})
    assert [error[-1] for error in errors] == ["1", "2", "3"]


KEYED = {
    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
    "items": struct(k=TEXT, v=with_rule(INTEGER, "self == oldSelf", message="fixed")),
}  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "new", "old", "errors"),
    [
        (struct(v=with_rule(INTEGER, "self == oldSelf")), {"v": 1}, None, 0),
        (struct(v=with_rule(INTEGER, "self == oldSelf")), {"v": 1}, {}, 0),
        (struct(v=with_rule(INTEGER, "self == oldSelf")), {"v": 1}, {"v": 2}, 1),
        (struct(v=with_rule(INTEGER, "self == oldSelf")), {}, {"v": 2}, 0),
        (struct(l=KEYED), {"l": [{"k": "b", "v": 3}, {"k": "c", "v": 9}]}, {"l": [{"k": "a"}, {"k": "b", "v": 2}]}, 1),
        (struct(m={"type": "object", "additionalProperties": with_rule(INTEGER, "self == oldSelf")}),
         {"m": {"a": 1, "b": 2}}, {"m": {"a": 2}}, 1),
        (with_rule(SIZE, "oldSelf.hasValue() || self.size > 5", optionalOldSelf=True), {"size": 1}, None, 1),
        (with_rule(SIZE, "oldSelf.hasValue() || self.size > 5", optionalOldSelf=True), {"size": 1}, {"size": 2}, 0),
        (with_rule(SIZE, "oldSelf.value().size == self.size", optionalOldSelf=True), {"size": 1}, {"size": 2}, 1),
    ],
)  # fmt: skip
def test_transitions(spec: dict[str, Any], new: Any, old: Any, errors: int) -> None:
    assert len(check(schema_of(spec), new, old)[0]) == errors


def test_what_was_wrong_and_did_not_change_is_a_warning() -> None:
    spec = struct(a=with_rule(TEXT, "self != 'bad'", message="is bad"), b=TEXT)
    assert check(schema_of(spec), {"a": "bad", "b": "new"}, {"a": "bad"}) == (
        [],
        ['spec.a: Invalid value: "bad": is bad'],
    )
    assert check(schema_of(spec), {"a": "bad"}, {"a": "good"})[0] == ['spec.a: Invalid value: "bad": is bad']
    below = with_rule(spec, "self.a != 'bad'", message="bad spec")
    assert check(schema_of(below), {"a": "bad", "b": "new"}, {"a": "bad"})[0] == ["spec: Invalid value: bad spec"]


def test_transitions_are_never_kept() -> None:
    spec = struct(a=with_rule(TEXT, "self != oldSelf", message="must change"))
    assert check(schema_of(spec), {"a": "x"}, {"a": "x"})[0] == ['spec.a: Invalid value: "x": must change']


LONG = {"n": list(range(2000))}
DEAR = "self.n.all(x, self.n.all(y, x >= 0 && y >= 0))"


def test_one_rule_may_cost_so_much() -> None:
    spec = struct(n={"type": "array", "items": INTEGER})
    spec["x-kubernetes-validations"] = [{"rule": DEAR}, {"rule": "false"}]
    assert check(schema_of(spec), LONG)[0] == [
        (
            "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation "
            f"rules will be run due to call cost exceeds limit for rule: {DEAR}"
        )
    ]


def test_all_rules_together_may_cost_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "BUDGET", 10_000)
    spec = struct(n={"type": "array", "items": INTEGER})
    spec["x-kubernetes-validations"] = [{"rule": "self.n.all(x, x >= 0)"}, {"rule": "self.n.all(x, x >= 0)"}]
    assert check(schema_of(spec), LONG)[0] == [
        (
            'spec: Invalid value: "object": validation failed due to running out of cost budget, no further validation '
            "rules will be run"
        )
    ]
    message = "self.n.all(x, x >= 0) ? 'a' : 'b'"
    spec["x-kubernetes-validations"] = [{"rule": "!self.n.all(x, x >= 0)", "messageExpression": message}]
    monkeypatch.setattr(rules, "BUDGET", 15_000)
    assert check(schema_of(spec), LONG)[0] == [
        (
            'spec: Invalid value: "object": messageExpression evaluation failed due to running out of cost budget, no '
            "further validation rules will be run"
        )
    ]


def test_a_message_may_cost_so_much() -> None:
    spec = with_rule(struct(n={"type": "array", "items": INTEGER}), "false", messageExpression=f"{DEAR} ? 'a' : 'b'")
    assert check(schema_of(spec), LONG)[0] == [
        (
            'spec: Invalid value: "object": no further validation rules will be run due to call cost exceeds limit for '
            f"messageExpression: \"{DEAR} ? 'a' : 'b'\""
        )
    ]


def test_long_work_gives_way_where_others_wait() -> None:
    tree = schema_of(with_rule(struct(n={"type": "array", "items": INTEGER}), "self.n.all(x, x >= 0)"))
    compiled = Rules(compile_schema(tree))
    with pytest.raises(TurnOver):
        # It has to be compiled first.
        compiled.check({"spec": {}}, turn=Turn(1000))
    assert compiled.check({"spec": LONG}).errors == []
    assert compiled.check({"spec": {"n": [1]}}, turn=Turn(1000)).errors == []
    with pytest.raises(TurnOver):
        compiled.check({"spec": LONG}, turn=Turn(1000))


def test_a_stored_rule_that_does_not_compile_refuses() -> None:
    errors, _ = check(schema_of(with_rule(SIZE, "self.nothing")), {})
    assert errors[0].startswith('spec: Invalid value: "object": rule compile error: compilation failed: ERROR: <input>')
    assert check(schema_of(with_rule(SIZE, "1")), {})[0]
    assert check(schema_of(with_rule(SIZE, " ")), {})[0] == []
    broken = with_rule(SIZE, "false", message="m", messageExpression="1")
    assert check(schema_of(broken), {})[0] == ["spec: Invalid value: m"]


def test_a_schema_without_rules() -> None:
    compiled = Rules(compile_schema(schema_of(SIZE)))
    assert not compiled
    assert compiled.check({"spec": {}}).errors == []
    assert not check(schema_of({"x-kubernetes-preserve-unknown-fields": True} | with_rule({}, "true")), {})[0]


def test_rules_do_not_see_what_has_another_shape() -> None:
    assert may_run([field.invalid("spec", 1, "too small")])
    assert not may_run([field.required("spec")])
    assert str(UNCHECKED).startswith("<nil>: Invalid value: null: some validation rules were not checked")


PATHS = compile_schema(
    struct(a=struct(b=TEXT), m={"type": "object", "additionalProperties": struct(x=TEXT)}, l={"type": "array"})
    | {"additionalProperties": True}
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", "a.b"),
        (".a['b']", "a.b"),
        (".m['x.y'].x", "m[x.y].x"),
        (".m.k", "m[k]"),
        (".m['it\\'s']", "m[it's]"),
        (".m['\\n']", "m[\n]"),
        ("", ""),
    ],
)
def test_field_paths(path: str, found: str) -> None:
    assert field_path(path, PATHS) == found


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a", "expected [ or . but got: a"),
        (".", "unexpected end of JSON path"),
        (".c", "does not refer to a valid field"),
        (".a.b.c", "does not refer to a valid field"),
        (".l[0]", "expected single quoted string but got 0"),
        (".a['b'", "unexpected end of JSON path"),
        (".a['b'.", "expected ] but got ."),
        (".a[", "unexpected end of JSON path"),
        (".a['\\q']", "invalid string literal: invalid escape char \\q"),
    ],
)
def test_field_paths_that_lead_nowhere(path: str, why: str) -> None:
    assert field_path(path, PATHS) is None
    with pytest.raises(InvalidPath) as caught:
        walked(path, PATHS)
    assert str(caught.value) == why


def test_a_path_may_have_to_do_without_brackets() -> None:
    with pytest.raises(InvalidPath, match="array notation is not allowed"):
        walked(".a['b']", PATHS, brackets=False)
    assert walked(".a.b", PATHS, brackets=False)[1].type == "string"
