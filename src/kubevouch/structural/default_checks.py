"""Whether the defaults in a schema are values that it would take.

Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go (Kubernetes 1.36).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from typing import Any, Final

import msgspec

from kubevouch.cel.environment import Budget
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError
from kubevouch.structural import embedded, pruning, values
from kubevouch.structural.embedded import Malformed
from kubevouch.structural.equality import same
from kubevouch.structural.pruning import IDENTITY
from kubevouch.structural.rules import BUDGET, Rules
from kubevouch.structural.schema import NO_DEFAULT, Schema

UNKNOWN_FIELDS: Final = "must not have unknown fields"


class _Item:
    """Stands for a place in a list on the way to a default."""


_ITEM: Final = _Item()


def check_defaults(schema: Schema, path: str) -> list[FieldError]:
    """What is wrong with the defaults of the schema of a whole object, which has to be structural."""
    if not schema.fills:
        return []
    whole = schema if schema.embedded else replace(schema, embedded=True, has_embedded=True)
    check = _Check()
    check.walk(whole, path, _Place(whole, ()))
    return check.errors


class _Place(msgspec.Struct, frozen=True):
    """Where a walk stands.

    Args:
        root: the schema of the nearest whole object around it.
        way: from there to here.
        inside_meta: here are that object's own apiVersion, kind or metadata.
    """

    root: Schema
    way: Sequence[str | _Item]
    inside_meta: bool = False

    def down(self, step: str | _Item, *, meta: bool = False) -> _Place:
        return _Place(self.root, (*self.way, step), self.inside_meta or meta)


@dataclass
class _Check:
    errors: list[FieldError] = attribute(default_factory=list)
    # What the rules of all defaults may cost together.
    budget: Budget = attribute(default_factory=lambda: Budget(BUDGET))

    def walk(self, schema: Schema, path: str, place: _Place) -> None:
        if schema.embedded:
            place = _Place(schema, ())
        if schema.default is not NO_DEFAULT:
            self._check(schema, f"{path}.default", place)
        # Defaults of undeclared keys are not looked at.
        if schema.items is not None and schema.items.fills:
            self.walk(schema.items, f"{path}.items", place.down(_ITEM))
        for name, below in schema.properties.items():
            if below.fills:
                is_meta = schema.embedded and name in IDENTITY
                self.walk(below, f"{path}.properties[{name}]", place.down(name, meta=is_meta))

    def _check(self, schema: Schema, path: str, place: _Place) -> None:
        value = copy.deepcopy(schema.default)
        found = self._meta_errors(value, path, place) if place.inside_meta else self._form_errors(schema, value, path)
        if not found:
            found = values.validate(values.compile_checks(schema), value, None, path)
        if not found:
            found = self._rule_errors(schema, value, path, whole=schema is place.root)
        self.errors += found

    def _form_errors(self, schema: Schema, value: Any, path: str) -> list[FieldError]:
        pruned = copy.deepcopy(value)
        pruning.prune_value(pruned, schema)
        if not same(pruned, value):
            self.errors.append(field.invalid(path, schema.default, UNKNOWN_FIELDS))
        try:
            embedded.coerce(value, schema, path)
        except Malformed as err:
            return [err.error]
        return embedded.check_embedded(value, schema, path)

    def _meta_errors(self, value: Any, path: str, place: _Place) -> list[FieldError]:
        for step in reversed(place.way):
            value = [value] if isinstance(step, _Item) else {step: value}
        around = {"apiVersion": "validation/v1", "kind": "Validation", **value}
        try:
            embedded.coerce(around, place.root)
        except Malformed as err:
            why = str(err)
        else:
            found = embedded.check_embedded(around, place.root)
            if not found:
                return []
            why = field.aggregate(found)
        return [field.invalid(path, _default_at(around, place.way), f"must result in valid metadata: {why}")]

    def _rule_errors(self, schema: Schema, value: Any, path: str, *, whole: bool) -> list[FieldError]:
        if self.budget.left < 0:
            return []
        rules = Rules(schema, whole=whole)
        if not rules:
            return []
        errors = rules.check(value, value, path=path, budget=self.budget).errors
        # Some rules look at what was there before; a default also comes where nothing was.
        return errors or rules.check(value, None, path=path, budget=self.budget).errors


def _default_at(value: Any, way: Sequence[str | _Item]) -> Any:
    for step in way:
        value = value[0] if isinstance(step, _Item) else value.get(step)
    return value
