"""What is wrong with a value, by its schema, in the words and the order of Kubernetes' validator.

Two of its habits matter to what clients see: of the branches of ``anyOf`` and ``oneOf`` that fail, the one in which
most checks held tells its errors, so checks are counted; and a text is reported once.

An update is ratcheted: what is as it was before is not looked at, however wrong it is. What corresponds to what follows
properties, keys of maps and the keys of ``x-kubernetes-list-type: map``; inside of junctors nothing corresponds.

Sources: k8s.io/kube-openapi/pkg/validation/validate; k8s.io/apiextensions-apiserver/pkg/apiserver/validation and
pkg/apiserver/schema/cel/common (Kubernetes 1.36).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from kubevouch.cel.program import Turn, TurnOver
from kubevouch.cel.regular_expressions import compiled_pattern
from kubevouch.cel.values import EvaluationError
from kubevouch.machinery.errors import MAX_FAULTS
from kubevouch.machinery.field import ErrorType, FieldError, forbidden, invalid, not_supported, required
from kubevouch.machinery.text import gotext
from kubevouch.structural import formats
from kubevouch.structural.correlation import Correlated
from kubevouch.structural.equality import same
from kubevouch.structural.schema import Schema

NO_FIELD = "<nil>"
"""How an error about no field, or about the whole object, is printed."""


# What a look at one value costs of a turn.
_NODE = 2
# Beside the loop too a check has an end, or one client's objects, each with thousands of items against thousands of
# branches, would keep the one thread there from everybody else's: some seconds of it.
MOST_WORK = 2_000_000
_TYPE_META = frozenset({"apiVersion", "kind"})
_BUILTINS = (str, bool, int, float, list, dict)
_USUAL: dict[str, type] = {"string": str, "boolean": bool, "array": list, "object": dict}
_LIMITS = {"int32": 1 << 31, "int64": 1 << 63}


class _Result(msgspec.Struct):
    turn: Turn
    # Of one branch of a junctor it matters only whether there are any.
    is_branch: bool = False
    errors: list[FieldError] = msgspec.field(default_factory=list)
    # Texts of those that are there, for each is told once.
    told: set[str] = msgspec.field(default_factory=set)
    matches: int = 0

    def spend(self, nodes: int) -> None:
        """Before so many values are looked at."""
        self.turn.spend(nodes * _NODE)

    def add(self, error: FieldError) -> None:
        text = f"{error.path} {error.detail}" if error.type is not ErrorType.REQUIRED else f"{error.path} required"
        if text not in self.told:
            # More are not told of, so they are not looked for: each may repeat a long enum or pattern.
            if len(self.errors) >= MAX_FAULTS:
                if self.is_branch:
                    return
                raise _EnoughError
            self.told.add(text)
            self.errors.append(error)

    def merge(self, other: _Result) -> None:
        self.matches += other.matches
        for error in other.errors:
            self.add(error)


class _EnoughError(Exception):
    """There are as many errors as are told."""


TOO_MUCH_WORK = forbidden(NO_FIELD, "the object takes too long to be checked against its schema")

Check = Callable[[Any, str, _Result, Correlated | None], None]


def validate(
    check: Check, value: Any, before: Correlated | None = None, prefix: str = "", turn: Turn | None = None
) -> list[FieldError]:
    """What is wrong with ``value``, but for what was so ``before``.

    Args:
        prefix: where the value stands, unless it is a whole object. Errors' paths begin with it, their sentences do
            not know it.
        turn: bounds the work where others wait for this thread: branches of junctors can be many.

    Raises:
        TurnOver: only with ``turn``.
    """
    try:
        errors = _errors(check, value, None, turn)
        if errors and before is not None:
            errors = _errors(check, value, before, turn)
    except TurnOver:
        if turn is not None:
            raise
        return [TOO_MUCH_WORK]
    if not prefix:
        return errors
    return [replace(error, path=_below(prefix, error.path)) for error in errors]


def _errors(check: Check, value: Any, before: Correlated | None, turn: Turn | None) -> list[FieldError]:
    result = _Result(turn or Turn(MOST_WORK))
    with contextlib.suppress(_EnoughError):
        check(value, "", result, before)
    return result.errors


def _below(prefix: str, path: str) -> str:
    return prefix if path == NO_FIELD else f"{prefix}.{path}"


def compile_checks(schema: Schema) -> Check:
    """The checks of a schema."""
    return _Node(schema).check


# Matches no text.
_NOTHING = compiled_pattern("^[^\\x00-\\x{10ffff}]$")
_NO_NODES: dict[str, _Node] = {}


class _Node:
    """The checks of one node of a schema."""

    __slots__ = (
        "additional",
        "all_of",
        "any_of",
        "choices",
        "enum",
        "exclusive_maximum",
        "exclusive_minimum",
        "format",
        "has_junctors",
        "is_bounded",
        "is_closed",
        "is_of_format",
        "items",
        "max_items",
        "max_length",
        "max_properties",
        "maximum",
        "min_items",
        "min_length",
        "min_properties",
        "minimum",
        "multiple_of",
        "negated",
        "nullable",
        "numbers",
        "offered",
        "one_of",
        "others",
        "pattern",
        "properties",
        "required",
        "schema",
        "source",
        "types",
        "usual",
        "wholes",
    )  # fmt: skip

    def __init__(self, schema: Schema) -> None:
        tree = schema.tree
        self.types: tuple[str, ...] = (schema.type,) if schema.type else ()
        if schema.int_or_string and not schema.type:
            self.types = ("integer", "string")
        self.nullable = schema.nullable
        named: str = tree.get("format") or ""
        self.format = named if formats.is_known(schema.type, named) else ""
        self.is_of_format = formats.text_format(named) if self.format and schema.type in ("", "string") else None
        self.enum: list[Any] = tree.get("enum") or []
        self.choices = frozenset(each for each in self.enum if isinstance(each, str))
        self.numbers = frozenset(each for each in self.enum if _is_number(each))
        self.wholes = frozenset(each for each in self.numbers if isinstance(each, int))
        self.others = [
            each for each in self.enum if each is not None and not isinstance(each, str) and not _is_number(each)
        ]
        # One text, however many values are not among them.
        self.offered = ""
        self.maximum = tree.get("maximum")
        self.minimum = tree.get("minimum")
        self.exclusive_maximum = bool(tree.get("exclusiveMaximum"))
        self.exclusive_minimum = bool(tree.get("exclusiveMinimum"))
        self.multiple_of = tree.get("multipleOf")
        self.max_length = tree.get("maxLength")
        self.min_length = tree.get("minLength")
        self.source: str = tree.get("pattern") or ""
        self.pattern = None
        if self.source:
            try:
                self.pattern = compiled_pattern(self.source)
            except EvaluationError as err:
                # A store may hold what nobody would let in now.
                self.pattern = _NOTHING
                self.source += f", but pattern is invalid: {err}"
        self.max_items = tree.get("maxItems")
        self.min_items = tree.get("minItems")
        self.max_properties = tree.get("maxProperties")
        self.min_properties = tree.get("minProperties")
        self.required: tuple[str, ...] = tuple(tree.get("required") or ())
        self.schema = schema
        self.properties: dict[str, _Node] = {} if schema.properties else _NO_NODES
        self.is_closed = schema.additional is False
        self.additional: _Node | None = None
        self.items: _Node | None = None
        self.all_of = tuple(map(_Node, schema.all_of))
        self.any_of = tuple(map(_Node, schema.any_of))
        self.one_of = tuple(map(_Node, schema.one_of))
        self.negated = _Node(schema.negated) if schema.negated is not None else None
        self.has_junctors = bool(self.all_of or self.any_of or self.one_of or self.negated)
        self.usual = _USUAL.get(schema.type)
        self.is_bounded = not (self.max_length is self.min_length is self.pattern is None)

    def check(self, value: Any, path: str, result: _Result, before: Correlated | None) -> None:
        if before is not None and before.unchanged:
            return
        if value is None:
            self._null(path, result)
            return
        kind = type(value)
        if kind not in _BUILTINS:
            kind = next(each for each in _BUILTINS if isinstance(value, each))
        matches = 3
        if self.types or self.format:
            # Most values are of the type, and that is quickly seen.
            if kind is self.usual:
                matches += 2
            else:
                self._type(value, path, result)
                matches += 1
        if self.has_junctors:
            self._junctors(value, path, result)
        matches += 1
        if kind is str:
            if self.is_bounded:
                self._text(value, path, result)
            matches += 1
            if self.is_of_format is not None:
                if not self.is_of_format(value):
                    result.add(_type_invalid(path, value, self.format, value))
                matches += 1
        elif kind is int or kind is float:
            self._number(value, path, result)
            matches += 2
        elif kind is list:
            self._list(value, path, result, before)
            matches += 2
        if self.enum and not (kind is str and value in self.choices):
            self._in_enum(value, path, result)
        if kind is dict:
            self._object(value, path, result, before)
            matches += 1
        result.matches += matches

    # -------------------------------------------------------------- what is below

    # Made when a value is there: few objects have all that their schema knows, and of most kinds there are none.

    def _below_items(self, items: Schema) -> _Node:
        self.items = _Node(items)
        return self.items

    def _below_others(self) -> _Node | None:
        if isinstance(self.schema.additional, Schema):
            self.additional = _Node(self.schema.additional)
        return self.additional

    # -------------------------------------------------------------- type

    def _null(self, path: str, result: _Result) -> None:
        if self.types and not self.nullable:
            result.add(_type_invalid(path, "null", ",".join(self.types), "null"))
        self._in_enum(None, path, result)

    def _type(self, value: Any, path: str, result: _Result) -> None:
        found = _type_of(value)
        numeric = "number" in self.types or "integer" in self.types
        fits = found in self.types or (
            (found == "number" and "integer" in self.types and _is_json_integer(float(value)))
            or (found == "integer" and "number" in self.types)
        )
        if fits:
            result.matches += 1
            return
        if self.format and not isinstance(value, (str, list)):
            result.add(_type_invalid(path, _format_of(value), self.format, _format_of(value)))
        elif self.format and not numeric:
            # The check of the format says more, or, of a list, nothing.
            result.matches += 1
        else:
            result.add(_type_invalid(path, found, ",".join(self.types), found))

    def _in_enum(self, value: Any, path: str, result: _Result) -> None:
        if not self.enum or self._is_choice(value):
            return
        if not self.offered:
            texts = [each if isinstance(each, str) else gotext.json_value(each) for each in self.enum]
            self.offered = not_supported("", None, texts).detail
        result.add(FieldError(ErrorType.NOT_SUPPORTED, _field(path), value, self.offered))

    def _is_choice(self, value: Any) -> bool:
        if isinstance(value, str):
            return value in self.choices
        if _is_number(value):
            if value in self.numbers:
                return True
            # Go makes the value what the choice is, and cuts off its fraction.
            return isinstance(value, float) and int(value) in self.wholes
        return any(same(value, each) for each in self.others)

    # -------------------------------------------------------------- junctors

    def _junctors(self, value: Any, path: str, result: _Result) -> None:
        if self.any_of:
            self._some(self.any_of, value, path, result, exactly_one=False)
        if self.one_of:
            self._some(self.one_of, value, path, result, exactly_one=True)
        if self.all_of:
            self._all(value, path, result)
        if self.negated is not None and not _of(self.negated, value, path, result).errors:
            result.add(_about(f'"{path}" must not validate the schema (not)'))

    @staticmethod
    def _some(nodes: tuple[_Node, ...], value: Any, path: str, result: _Result, *, exactly_one: bool) -> None:
        valid = 0
        first: _Result | None = None
        best: _Result | None = None
        for node in nodes:
            found = _of(node, value, path, result)
            if not found.errors:
                valid += 1
                first = first or found
                best = None
                if not exactly_one:
                    break
            elif not valid and (best is None or found.matches > best.matches):
                best = found
        if valid == 1 or (valid and not exactly_one):
            if first is not None:
                result.merge(first)
            return
        if exactly_one:
            how = f"Found {valid} valid alternatives" if valid else "Found none valid"
            result.add(_about(f'"{path}" must validate one and only one schema (oneOf). {how}'))
        else:
            result.add(_about(f'"{path}" must validate at least one schema (anyOf)'))
        if best is not None:
            result.merge(best)

    def _all(self, value: Any, path: str, result: _Result) -> None:
        valid = 0
        for node in self.all_of:
            found = _of(node, value, path, result)
            valid += not found.errors
            result.merge(found)
        if valid != len(self.all_of):
            none = "" if valid else ". None validated"
            result.add(_about(f'"{path}" must validate all the schemas (allOf){none}'))

    # -------------------------------------------------------------- scalars

    def _text(self, value: str, path: str, result: _Result) -> None:
        """The first thing that is wrong with a text is the only one that is told."""
        if self.max_length is not None and len(value) > self.max_length:
            # It counts characters and says bytes.
            detail = f"may not be more than {self.max_length} bytes"
            result.add(FieldError(ErrorType.TOO_LONG, _field(path), None, detail))
        elif self.min_length is not None and len(value) < self.min_length:
            result.add(_invalid(path, value, f"should be at least {self.min_length} chars long"))
        elif self.pattern is not None and self.pattern.search(value) is None:
            result.add(_invalid(path, value, f"should match '{self.source}'"))

    def _number(self, value: int | float, path: str, result: _Result) -> None:
        self._in_range(value, "Checked", path, result)
        if self.multiple_of is not None:
            limit = self._bound(value, self.multiple_of, "MultipleOf", path, result) or float(self.multiple_of)
            if not _is_multiple(value, limit):
                result.add(_invalid(path, value, f"should be a multiple of {_shown(limit)}"))
        if self.minimum is not None:
            limit = self._bound(value, self.minimum, "Minimum boundary", path, result)
            if value < limit or (self.exclusive_minimum and value == limit):
                words = "greater than" if self.exclusive_minimum else "greater than or equal to"
                result.add(_invalid(path, value, f"should be {words} {_shown(limit)}"))
        if self.maximum is not None:
            limit = self._bound(value, self.maximum, "Maximum boundary", path, result)
            if value > limit or (self.exclusive_maximum and value == limit):
                words = "less than" if self.exclusive_maximum else "less than or equal to"
                result.add(_invalid(path, value, f"should be {words} {_shown(limit)}"))

    def _bound(self, value: int | float, limit: int | float, what: str, path: str, result: _Result) -> int | float:
        """The limit that counts: beside an integer a fraction is cut off, unless the type says that it is wrong."""
        fits = self._in_range(limit, what, path, result)
        return int(limit) if fits and isinstance(value, int) else float(limit)

    def _in_range(self, value: int | float, what: str, path: str, result: _Result) -> bool:
        if self.types == ("integer",):
            limit = _LIMITS.get(self.format, 1 << 63)
            if float(value).is_integer() and -limit <= value < limit:
                return True
        elif self.format != "float" or abs(value) <= _MAX_FLOAT32:
            return True
        kind = self.types[0] if self.types else ""
        form = f"with format {self.format}" if self.format else "(default format)"
        result.add(_about(f"{what} value must be of type {kind} {form} in {path}"))
        return False

    # -------------------------------------------------------------- lists and objects

    def _list(self, value: list[Any], path: str, result: _Result, before: Correlated | None) -> None:
        if self.schema.items is not None:
            items = self.items or self._below_items(self.schema.items)
            result.spend(len(value))
            for index, item in enumerate(value):
                items.check(item, f"{path}[{index}]", result, None if before is None else before.index(index))
        size = len(value)
        if self.min_items is not None and size < self.min_items:
            result.add(_invalid(path, size, f"should have at least {self.min_items} items"))
        if self.max_items is not None and size > self.max_items:
            result.add(_too_many(path, size, self.max_items))

    def _object(self, value: dict[str, Any], path: str, result: _Result, before: Correlated | None) -> None:
        size = len(value)
        if self.min_properties is not None and size < self.min_properties:
            result.add(_invalid(path, size, f"should have at least {self.min_properties} properties"))
            return
        if self.max_properties is not None and size > self.max_properties:
            result.add(_too_many(path, size, self.max_properties))
            return
        result.spend(size)
        if self.is_closed:
            for key in value:
                if key not in self.schema.properties:
                    result.add(invalid(_field(path), key, f"{path}.{key} in body is a forbidden property"))
        properties, declared = self.properties, self.schema.properties
        additional = self.additional or self._below_others()
        for key, item in value.items():
            # The type of a whole object is never as it was: old and new have been converted to one.
            earlier = None if before is None or (not path and key in _TYPE_META) else before.key(key)
            node = properties.get(key)
            if node is None and key in declared:
                node = properties[key] = _Node(declared[key])
            if node is not None:
                node.check(item, f"{path}.{key}" if path else key, result, earlier)
            elif additional is not None:
                additional.check(item, f"{path}.{key}", result, earlier)
        for key in self.required:
            if key not in value:
                result.add(required(_field(f"{path}.{key}")))


_MAX_FLOAT32 = 3.4028234663852886e38


def _of(node: _Node, value: Any, path: str, around: _Result) -> _Result:
    # A pattern takes longer the longer a text is.
    around.spend(1 + (len(value) >> 10 if isinstance(value, str) else 0))
    result = _Result(around.turn, is_branch=True)
    node.check(value, path, result, None)
    return result


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "integer" if -(1 << 63) <= value < 1 << 63 else "number"
    if isinstance(value, float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def _format_of(value: Any) -> str:
    """What Kubernetes' validator takes for the format of a value that is no text."""
    return {"integer": "int64", "number": "float64"}.get(_type_of(value), "")


def _field(path: str) -> str:
    return path.removeprefix(".") or NO_FIELD


def _about(detail: str) -> FieldError:
    """An error about the whole object: its sentence says where."""
    return invalid(NO_FIELD, "", detail)


def _invalid(path: str, value: Any, detail: str) -> FieldError:
    return invalid(_field(path), value, f"{path} in body {detail}")


def _type_invalid(path: str, value: Any, wanted: str, got: str) -> FieldError:
    detail = f"{path} in body must be of type {wanted}: {gotext.quote(got)}"
    return FieldError(ErrorType.TYPE_INVALID, _field(path), value, detail)


def _too_many(path: str, got: int, limit: int) -> FieldError:
    items = "item" if limit == 1 else "items"
    return FieldError(ErrorType.TOO_MANY, _field(path), got, f"must have at most {limit} {items}")


def _shown(limit: int | float) -> str:
    return gotext.go_float(limit) if isinstance(limit, float) else str(limit)


def _is_multiple(value: int | float, factor: int | float) -> bool:
    if factor <= 0:
        return True
    if isinstance(value, int) and isinstance(factor, int):
        return value % factor == 0
    return _is_json_integer(1 / factor * value if factor < 1 else value / factor)


_MOST_JSON_INTEGER = (1 << 53) - 1
_EPSILON = 1e-9


def _is_json_integer(value: float) -> bool:
    """What go-openapi's swag takes for an integer: nearly one is enough, and one that a float cannot hold is none."""
    if abs(value) > _MOST_JSON_INTEGER:
        return False
    if value.is_integer():
        return True
    whole = int(value)
    return whole > 0 and (value - whole) / (value + whole) < _EPSILON


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
