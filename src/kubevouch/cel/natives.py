"""What JSON has only as text or as another number, as the values of the language; by the types of a checked tree.

Source: k8s.io/apiserver/pkg/cel/common/values.go, UnstructuredToVal (Kubernetes 1.36).
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from collections.abc import Callable
from typing import Any

from kubevouch.cel.standard import to_duration, to_timestamp
from kubevouch.cel.types import Type, unwrapped
from kubevouch.cel.values import NONE, EvaluationError, Optional, UInt

Conversion = Callable[[Any], Any]

# The words that go-openapi takes for units of time, with or without blanks around them.
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zµμ]+)\s*")
_UNITS = {
    name: seconds
    for names, seconds in (
        ("ns nanosecond nanoseconds nsec nsecs nanos nano", 1e-9),
        ("us µs μs microsecond microseconds micros micro", 1e-6),
        ("ms millisecond milliseconds millis milli msec msecs", 1e-3),
        ("s second seconds sec secs", 1.0),
        ("m minute minutes min mins", 60.0),
        ("h hour hours hr hrs", 3600.0),
        ("d day days", 86400.0),
        ("w week weeks wk wks", 604800.0),
    )
    for name in names.split()
}


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as err:
        raise EvaluationError(f"invalid byte string {value}") from err


def _timestamp(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return to_timestamp(f"{value}T00:00:00Z" if len(value) == len("2006-01-02") else value.upper())


def _duration(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return to_duration(value)
    except EvaluationError:
        parts = list(_PART.finditer(value.lower()))
        if not parts or "".join(part[0] for part in parts) != value.lower():
            raise
        if any(part[2] not in _UNITS for part in parts):
            raise
        return dt.timedelta(seconds=sum(float(part[1]) * _UNITS[part[2]] for part in parts))


def _double(value: Any) -> Any:
    return float(value) if type(value) in (int, UInt) else value


_CONVERSIONS: dict[str, Conversion] = {
    "bytes": _bytes, "timestamp": _timestamp, "duration": _duration, "double": _double
}  # fmt: skip


def conversion(kind: Type | None) -> Conversion | None:
    """What makes a value of the type from JSON; None where JSON's own is one.

    Members of structs are converted when they are selected, not before.
    """
    if kind is None:
        return None
    if kind.kind in _CONVERSIONS:
        return _CONVERSIONS[kind.kind]
    inner, is_optional = unwrapped(kind)
    if is_optional:
        convert = conversion(inner)
        return None if convert is None else lambda value: value if value is NONE else Optional(convert(value.value))
    if kind.kind not in ("list", "map"):
        return None
    each = conversion(kind.parameters[-1])
    if each is None:
        return None
    if kind.kind == "list":
        return lambda value: [each(item) for item in value] if isinstance(value, list) else value
    return lambda value: {key: each(item) for key, item in value.items()} if isinstance(value, dict) else value
