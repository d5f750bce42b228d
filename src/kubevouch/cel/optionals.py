"""Optional values.

Source: cel-go cel/library.go, optional types (0.26).
"""

from __future__ import annotations

from typing import Any

from kubevouch.cel.functions import built_in
from kubevouch.cel.values import NONE, EvaluationError, Optional, UInt


@built_in("optional.none", "")
def _none() -> Optional:
    return NONE


@built_in("optional.of", "dyn")
def _of(value: Any) -> Optional:
    return Optional(value)


@built_in("optional.ofNonZeroValue", "dyn")
def _of_non_zero(value: Any) -> Optional:
    zero = value is None or (type(value) in (bool, int, UInt, float, str, bytes, list, dict) and not value)
    return NONE if zero else Optional(value)


@built_in("hasValue", "optional", is_member=True)
def _has_value(value: Optional) -> bool:
    return value is not NONE


@built_in("value", "optional", is_member=True)
def _value(value: Optional) -> Any:
    if value is NONE:
        raise EvaluationError("optional.none() dereference")
    return value.value


@built_in("or", "optional optional", is_member=True)
def _or_optional(value: Optional, other: Optional) -> Optional:
    return other if value is NONE else value


@built_in("orValue", "optional dyn", is_member=True)
def _or_value(value: Optional, other: Any) -> Any:
    return other if value is NONE else value.value
