"""Field errors: what validation says about one field, and how several make one sentence.

Source: k8s.io/apimachinery/pkg/util/validation/field/errors.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

import msgspec

from kubevouch.machinery.text import gotext


class ErrorType(Enum):
    """The cause's ``reason`` on the wire, and the words that print for it."""

    NOT_FOUND = ("FieldValueNotFound", "Not found")
    REQUIRED = ("FieldValueRequired", "Required value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    TYPE_INVALID = ("FieldValueTypeInvalid", "Invalid value")
    TOO_SHORT = ("FieldValueTooShort", "Too short")
    TOO_FEW = ("FieldValueTooFew", "Too few")
    INTERNAL = ("InternalError", "Internal error")

    @property
    def reason(self) -> str:
        return self.value[0]

    @property
    def words(self) -> str:
        return self.value[1]


_WITHOUT_VALUE = {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.TOO_SHORT, ErrorType.INTERNAL}


class _Omitted:
    def __repr__(self) -> str:
        return "OMITTED"


OMITTED: Final = _Omitted()
"""The value of an error that prints none where its type usually does."""


class TypedString(str):
    """A string of a named Go type; field errors print it as JSON where a plain string is printed with ``%q``."""

    __slots__ = ()


class FieldError(msgspec.Struct, frozen=True):
    """One thing that is wrong with one field."""

    type: ErrorType
    path: str
    value: Any
    detail: str

    @property
    def body(self) -> str:
        """The sentence without the field: a cause's ``message``."""
        text = self.type.words
        if self.type not in _WITHOUT_VALUE and self.value is not OMITTED:
            text += f": {_printed(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


# Kubernetes prints all of a value; one as long as a body would come back in the message and again in its cause.
MAX_PRINTED = 4096


def _printed(value: Any) -> str:
    if isinstance(value, str):
        shown = str(value[:MAX_PRINTED])
        text = gotext.json_value(shown) if isinstance(value, TypedString) else gotext.quote(shown)
        return text if len(value) <= MAX_PRINTED else f"{text}..."
    text = gotext.go_float(value) if isinstance(value, float) else gotext.json_value(value)
    return text if len(text) <= MAX_PRINTED else f"{text[:MAX_PRINTED]}..."


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(ErrorType.INVALID, path, value, detail)


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(ErrorType.REQUIRED, path, None, detail)


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError(ErrorType.DUPLICATE, path, value, "")


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(ErrorType.FORBIDDEN, path, None, detail)


def not_supported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    """``supported`` prints in the order given; most of Kubernetes sorts it first."""
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, f"supported values: {gotext.quoted_list(supported)}")


def too_long(path: str, limit: int) -> FieldError:
    return FieldError(ErrorType.TOO_LONG, path, None, f"may not be more than {limit} bytes")


def too_many(path: str, got: int, limit: int) -> FieldError:
    return FieldError(ErrorType.TOO_MANY, path, got, f"must have at most {limit} items")


def not_found(path: str, value: Any) -> FieldError:
    return FieldError(ErrorType.NOT_FOUND, path, value, "")


def aggregate(errors: list[FieldError]) -> str:
    """One sentence for all: the only one, or ``[a, b]`` without repeats."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
