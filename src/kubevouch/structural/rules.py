"""The rules of a schema (``x-kubernetes-validations``), compiled once and run on every write.

Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/{compilation,validation}.go,
k8s.io/apiserver/pkg/apis/cel/config.go (Kubernetes 1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kubevouch.cel.compiler import Expression, compile_expression
from kubevouch.cel.environment import (
    Budget,
    EvaluationError,
    ExpressionError,
    NotRunnable,
    OutOfBudget,
    Program,
    Turn,
    TurnOver,
)
from kubevouch.cel.natives import Conversion, conversion
from kubevouch.cel.types import Type, optional_of
from kubevouch.cel.values import NONE, Optional
from kubevouch.machinery import field
from kubevouch.machinery.field import OMITTED, ErrorType, FieldError
from kubevouch.machinery.text.gotext import quote
from kubevouch.structural.correlation import Correlated, Ratchet, item_key, items_by_key
from kubevouch.structural.rule_types import Declared, declared_type
from kubevouch.structural.schema import Rule, Schema

BUDGET: Final = 10_000_000
"""What all rules of one object may cost in one write."""

_LONGEST_MESSAGE: Final = 5 * 1024
_TOO_DEAR: Final = "operation cancelled: actual cost limit exceeded"
_NO_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_TOKEN: Final = re.compile(r"[.\[\]]|'.*?(?<!\\)'|[^.\[\]]+", re.DOTALL)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}

# Rules may not see a value whose shape is wrong, or that is longer than they were estimated for.
_BLOCKING: Final = frozenset(
    {ErrorType.REQUIRED, ErrorType.NOT_SUPPORTED, ErrorType.TOO_LONG, ErrorType.TOO_MANY, ErrorType.TYPE_INVALID}
)
UNCHECKED: Final = field.invalid(
    "<nil>",
    None,
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


def may_run(errors: Sequence[FieldError]) -> bool:
    """Whether rules may see an object with these errors; if not, :data:`UNCHECKED` is one more."""
    return not any(error.type in _BLOCKING for error in errors)


# ------------------------------------------------------------------ compilation


class CompiledRule(msgspec.Struct, frozen=True):
    """A rule, ready to run.

    Args:
        message: of its ``messageExpression``, if that compiled.
        failure: why it did not compile; it never runs then.
        message_failure: why its message did not compile.
        field_path: where below the node it points at.
    """

    rule: Rule
    expression: Expression | None = None
    message: Expression | None = None
    failure: str = ""
    message_failure: str = ""
    field_path: str = ""

    @property
    def is_transition(self) -> bool:
        """Whether it compares with what was before."""
        return self.expression is not None and "oldSelf" in self.expression.names


def compile_rules(schema: Schema, declared: Declared) -> list[CompiledRule]:
    """The rules of one node, over values of its type."""
    return [_compiled(schema, rule, declared) for rule in schema.rules]


def _compiled(schema: Schema, rule: Rule, declared: Declared) -> CompiledRule:
    if not rule.rule.strip():
        return CompiledRule(rule)
    old = optional_of(declared.type) if rule.optional_old_self else declared.type
    variables = {"self": declared.type, "oldSelf": old}
    try:
        expression = compile_expression(rule.rule, variables)
    except NotRunnable as err:
        return CompiledRule(rule, failure=f"program instantiation failed: {err}")
    except ExpressionError as err:
        return CompiledRule(rule, failure=f"compilation failed: {declared.readable(str(err))}")
    if expression.type.kind != "bool":
        return CompiledRule(rule, failure="cel expression must evaluate to a bool")
    message, failure = None, ""
    if rule.message_expression:
        message, failure = _compiled_message(rule.message_expression, variables, declared)
        if message is None:
            return CompiledRule(rule, expression, message_failure=failure)
    path = field_path(rule.field_path, schema) if rule.field_path else None
    return CompiledRule(rule, expression, message, field_path=path or "")


def _compiled_message(source: str, variables: Mapping[str, Type], declared: Declared) -> tuple[Expression | None, str]:
    try:
        message = compile_expression(source, variables)
    except NotRunnable as err:
        return None, f"messageExpression instantiation failed: {err}"
    except ExpressionError as err:
        return None, f"messageExpression compilation failed: {declared.readable(str(err))}"
    if message.type.kind != "string":
        return None, "messageExpression must evaluate to a string"
    return message, ""


class InvalidPath(ValueError):
    """A field path is none, or leads nowhere in the schema; ``str()`` is what Kubernetes says."""


def field_path(path: str, schema: Schema) -> str | None:
    """The path as errors print it; None if it leads nowhere."""
    try:
        return walked(path, schema)[0]
    except InvalidPath:
        return None


def walked(path: str, schema: Schema, *, brackets: bool = True) -> tuple[str, Schema]:
    """Where a simple JSON path leads: the path as errors print it, and the schema there.

    Raises:
        InvalidPath
    """
    tokens = iter(_TOKEN.findall(path))
    printed, at = "", schema
    for token in tokens:
        if token == ".":
            name = next(tokens, None)
            if name is None:
                raise InvalidPath("unexpected end of JSON path")
        elif token == "[":
            if not brackets:
                raise InvalidPath("array notation is not allowed")
            name = _quoted(next(tokens, None))
        else:
            raise InvalidPath(f"expected [ or . but got: {token}")
        is_named = bool(at.properties)
        below = at.properties.get(name) if is_named else at.values
        if below is None:
            raise InvalidPath("does not refer to a valid field")
        printed += (f".{name}" if printed else name) if is_named else f"[{name}]"
        at = below
        if token == "[":
            closing = next(tokens, None)
            if closing != "]":
                what = "unexpected end of JSON path" if closing is None else f"expected ] but got {closing}"
                raise InvalidPath(what)
    return printed, at


def _quoted(token: str | None) -> str:
    if token is None:
        raise InvalidPath("unexpected end of JSON path")
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise InvalidPath(f"expected single quoted string but got {token}")

    def unescaped(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise InvalidPath(f"invalid string literal: invalid escape char {match[0]}")
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.)", unescaped, token[1:-1], flags=re.DOTALL)


# ------------------------------------------------------------------ running


class Checked(msgspec.Struct, frozen=True):
    """What the rules say of an object: errors, and warnings of what was wrong before and may stay so."""

    errors: list[FieldError]
    warnings: list[str]


class _Runnable(msgspec.Struct, frozen=True):
    """What is needed of a rule to run it; its tree and types take ten times as much."""

    rule: Rule
    program: Program | None
    message: Program | None
    failure: str
    field_path: str
    is_transition: bool

    @classmethod
    def of(cls, compiled: CompiledRule) -> _Runnable:
        expression, message = compiled.expression, compiled.message
        return cls(
            compiled.rule,
            None if expression is None else expression.program,
            None if message is None else message.program,
            compiled.failure,
            compiled.field_path,
            compiled.is_transition,
        )

    @property
    def shown(self) -> str:
        """What errors call it."""
        return (self.rule.message or self.rule.rule).strip()


class _Node(msgspec.Struct, frozen=True, eq=False):
    """The rules of a node of the schema, and of those below it that have some."""

    schema: Schema
    rules: Sequence[_Runnable]
    convert: Conversion | None
    properties: Mapping[str, _Node]
    values: _Node | None
    items: _Node | None


class Rules:
    """All rules of a schema, compiled when they are first run: of most kinds of a cluster nobody writes an object.

    Args:
        whole: the schema is that of a whole object, and not of a part.
    """

    def __init__(self, schema: Schema, *, whole: bool = True) -> None:
        self._schema = schema
        self._whole = whole
        self._root: _Node | None = None

    def __bool__(self) -> bool:
        return self._schema.has_rules

    def check(
        self, new: Any, old: Any = None, *, path: str = "", turn: Turn | None = None, budget: Budget | None = None
    ) -> Checked:
        """Run them.

        Args:
            new: pruned and with defaults.
            old: what was there before; None if nothing was.
            path: where ``new`` is; nowhere for a whole object.
            turn: bounds the work where others wait for this thread.
            budget: what it may cost; :data:`BUDGET` if nothing is said.

        Raises:
            TurnOver: only with ``turn``.
        """
        run = _Run(turn, budget or Budget(BUDGET))
        if self._schema.has_rules:
            correlated = None if old is None else Correlated(new, old, self._schema)
            try:
                run.walk(self._compiled(turn), path, new, old, Ratchet(correlated))
            except _NoMore:
                pass
        return Checked(run.errors, run.warnings)

    def _compiled(self, turn: Turn | None) -> _Node:
        if self._root is None:
            if turn is not None:
                # A millisecond for some rules.
                raise TurnOver
            self._root = _node(self._schema, declared_type(self._schema, whole=self._whole))
        return self._root


def _node(schema: Schema, declared: Declared | None) -> _Node:
    properties = {
        name: _node(below, below_property(declared, name, below))
        for name, below in schema.properties.items()
        if below.has_rules
    }
    element = None if declared is None else declared.element
    values, items = schema.values, schema.items
    return _Node(
        schema,
        [_Runnable.of(rule) for rule in compile_rules(schema, declared)] if declared is not None else (),
        conversion(declared.type) if declared is not None else None,
        properties,
        _node(values, element) if values is not None and values.has_rules else None,
        _node(items, element) if items is not None and items.has_rules else None,
    )


def below_property(declared: Declared | None, name: str, schema: Schema) -> Declared | None:
    """The type of a property, also of one whose name no rule can write."""
    found = None if declared is None else declared.property(name)
    return found or declared_type(schema, whole=schema.embedded)


class _NoMore(Exception):
    """The budget is spent: nothing more is run."""


class _Run:
    """One check of one object."""

    def __init__(self, turn: Turn | None, budget: Budget) -> None:
        self.errors: list[FieldError] = []
        self.warnings: list[str] = []
        self._turn = turn
        self._budget = budget

    def walk(self, node: _Node, path: str, value: Any, old: Any, ratchet: Ratchet) -> None:
        if value is None:
            return
        if node.rules:
            self._run_rules(node, path, value, old, ratchet)
        if isinstance(value, list) and node.items is not None:
            old_items = items_by_key(node.schema, old)
            for place, item in enumerate(value):
                before = old_items.get(item_key(node.schema, item)) if old_items else None
                self.walk(node.items, f"{path}[{place}]", item, before, ratchet.index(place))
        elif isinstance(value, dict):
            self._walk_members(node, path, value, old if isinstance(old, dict) else {}, ratchet)

    def _walk_members(
        self, node: _Node, path: str, value: dict[str, Any], old: Mapping[str, Any], ratchet: Ratchet
    ) -> None:
        if node.values is not None:
            for name, item in value.items():
                self.walk(node.values, f"{path}[{name}]", item, old.get(name), ratchet.key(name))
        for name, below in node.properties.items():
            if name in value:
                inner = f"{path}.{name}" if path else name
                self.walk(below, inner, value[name], old.get(name), ratchet.key(name))

    def _run_rules(self, node: _Node, path: str, value: Any, old: Any, ratchet: Ratchet) -> None:
        given: dict[str, Any] = {}
        try:
            given["self"] = value if node.convert is None else node.convert(value)
            if old is not None:
                given["oldSelf"] = old if node.convert is None else node.convert(old)
        except EvaluationError as err:
            self.errors.append(field.invalid(path or "<nil>", node.schema.type, str(err)))
            return
        for rule in node.rules:
            self._run_rule(rule, node, path, value, given, ratchet)

    def _run_rule(
        self, rule: _Runnable, node: _Node, path: str, value: Any, given: Mapping[str, Any], ratchet: Ratchet
    ) -> None:
        shown_path = path or "<nil>"
        if rule.failure:
            self._fail(shown_path, node, f"rule compile error: {rule.failure}")
            return
        if rule.program is None:
            return
        variables = given
        if rule.rule.optional_old_self:
            before = Optional(given["oldSelf"]) if "oldSelf" in given else NONE
            variables = {"self": given["self"], "oldSelf": before}
        elif rule.is_transition and "oldSelf" not in given:
            return
        try:
            found = rule.program.value(variables, budget=self._budget, turn=self._turn)
        except OutOfBudget as err:
            self._fail(shown_path, node, _NO_BUDGET)
            raise _NoMore from err
        except EvaluationError as err:
            self._fail_to_evaluate(str(err), rule, shown_path, node)
            return
        if found is not True:
            self._refuse(rule, path, node, value, given, ratchet)

    def _fail(self, path: str, node: _Node, detail: str) -> None:
        self.errors.append(field.invalid(path, node.schema.type, detail))

    def _fail_to_evaluate(self, text: str, rule: _Runnable, path: str, node: _Node) -> None:
        if text.startswith("no such overload"):
            why = "call arguments did not match a supported operator, function or macro signature for rule"
            self._fail(path, node, f"'{text}': {why}: {rule.shown}")
        elif text.startswith(_TOO_DEAR):
            why = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._fail(path, node, f"'{text}': {why}: {rule.shown}")
            raise _NoMore
        else:
            self._fail(path, node, f"{text} evaluating rule: {rule.shown}")

    def _refuse(
        self, rule: _Runnable, path: str, node: _Node, value: Any, given: Mapping[str, Any], ratchet: Ratchet
    ) -> None:
        if rule.field_path:
            path = f"{path}.{rule.field_path}" if path else rule.field_path
        path = path or "<nil>"
        keeps = not rule.is_transition and ratchet.keeps

        def add(error: FieldError) -> None:
            if keeps:
                self.warnings.append(str(error))
            else:
                self.errors.append(error)

        detail = ""
        if rule.message is not None:
            try:
                detail = self._message(rule.message, given)
            except _MessageTooDear as err:
                add(field.invalid(path, node.schema.type, str(err)))
                raise _NoMore from err
        detail = detail or rule.rule.message.strip() or f"failed rule: {rule.shown}"
        add(_error(path, value, detail, rule.rule.reason))

    def _message(self, message: Program, given: Mapping[str, Any]) -> str:
        """What a messageExpression says; empty if that is nothing that could be shown."""
        try:
            text = message.value(given, budget=self._budget, turn=self._turn)
        except OutOfBudget as err:
            raise _MessageTooDear(
                "messageExpression evaluation failed due to running out of cost budget, "
                "no further validation rules will be run"
            ) from err
        except EvaluationError as err:
            if str(err).startswith(_TOO_DEAR):
                raise _MessageTooDear(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: "
                    f"{quote(message.source)}"
                ) from err
            return ""
        text = text.strip() if isinstance(text, str) else ""
        return "" if len(text.encode()) > _LONGEST_MESSAGE or "\n" in text else text


class _MessageTooDear(Exception):
    pass


def _error(path: str, value: Any, detail: str, reason: str) -> FieldError:
    if reason == "FieldValueForbidden":
        return field.forbidden(path, detail)
    if reason == "FieldValueRequired":
        return field.required(path, detail)
    shown = OMITTED if isinstance(value, (dict, list)) else value
    if reason == "FieldValueDuplicate":
        return field.duplicate(path, shown)
    return field.invalid(path, shown, detail)
