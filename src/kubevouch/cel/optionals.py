"""Optional values.

Source: cel-go cel/library.go, optional types (0.26).
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from kubevouch.cel.functions import function, method
from kubevouch.cel.values import NONE, EvaluationError, Optional, UInt

_HAVE_ZERO = (bool, int, UInt, float, str, bytes, list, dict, dt.timedelta)
_FIRST_MOMENT = dt.datetime.min.replace(tzinfo=dt.UTC)


@function("optional.none", "")
def _none() -> Optional:
    return NONE


@function("optional.of", "dyn")
def _of(value: Any) -> Optional:
    return Optional(value)


@function("optional.ofNonZeroValue", "dyn")
def _of_non_zero(value: Any) -> Optional:
    zero = value in (None, _FIRST_MOMENT) or (type(value) in _HAVE_ZERO and not value)
    return NONE if zero else Optional(value)


@method("hasValue", "optional")
def _has_value(value: Optional) -> bool:
    return value is not NONE


@method("value", "optional")
def _value(value: Optional) -> Any:
    if value is NONE:
        raise EvaluationError("optional.none() dereference")
    return value.value
