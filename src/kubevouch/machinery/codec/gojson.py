"""JSON text to a tree of builtins, with the errors that Go's decoder gives.

Kubernetes' replies quote these errors, so their words are part of the wire (Go encoding/json scanner, Go 1.26;
sigs.k8s.io/json for duplicate keys).
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any

import msgspec

MAX_DEPTH = 10_000  # Go's scanner refuses to nest deeper
_WHITESPACE = b" \t\r\n"
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class JSONSyntaxError(ValueError):
    """The text is not JSON; ``str()`` is Go's sentence."""


class UnmarshalError(ValueError):
    """A value does not fit its field; ``str()`` is Go's sentence."""


class Number(float):
    """A JSON number that is not an integer literal; keeps its text for error messages."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


class Duplicates(dict[str, Any]):
    """An object in which keys occurred more than once; the last value counts."""

    __slots__ = ("repeated",)
    repeated: list[str]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    marked = Duplicates(plain)
    seen: set[str] = set()
    marked.repeated = []
    for key, _ in pairs:
        if key in seen:
            marked.repeated.append(key)
        seen.add(key)
    return marked


def _refuse_constant(text: str) -> Any:
    raise ValueError(text)


def _integer(text: str) -> int | Number:
    return int(text) if len(text) < _MAX_INTEGER_DIGITS else Number(text)


_MAX_INTEGER_DIGITS = 400  # beyond every float64, and far from where Python refuses to convert
_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=Number, parse_constant=_refuse_constant)
_patient_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Number, parse_int=_integer, parse_constant=_refuse_constant
)


def loads(data: bytes) -> Any:
    """The tree of a JSON document. Objects with repeated keys come as :class:`Duplicates`.

    Bytes that are not UTF-8 and halves of surrogate pairs become U+FFFD, as in Go.

    Raises:
        JSONSyntaxError: with Go's sentence.
    """
    text = data.decode("utf-8", "replace").strip(" \t\r\n")
    try:
        try:
            value = _decoder.decode(text)
        except ValueError:
            try:
                # Perhaps only an integer that is too long for Python.
                value = _patient_decoder.decode(text)
            except ValueError:
                scan(data)
                raise
        return _without_surrogates(value) if _SURROGATE.search(text) else value
    except RecursionError as err:
        raise JSONSyntaxError("exceeded max depth") from err


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        plain = {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
        if not isinstance(value, Duplicates) and len(plain) == len(value):
            return plain
        marked = Duplicates(plain)
        marked.repeated = [_without_surrogates(key) for key in getattr(value, "repeated", [])]
        return marked
    return value


MAX_STRICT_ERRORS = 100  # sigs.k8s.io/json stops collecting there


def duplicate_fields(tree: Any) -> list[str]:
    """``duplicate field "a.b"`` for each repeated key of a tree whose types nobody declared."""
    found: list[str] = []
    pending: list[tuple[str, Any]] = [("", tree)]
    while pending and len(found) < MAX_STRICT_ERRORS:
        path, value = pending.pop()
        if isinstance(value, dict):
            prefix = f"{path}." if path else ""
            if isinstance(value, Duplicates):
                found += (f'duplicate field "{prefix}{key}"' for key in value.repeated)
            pending += ((f"{prefix}{key}", value[key]) for key in reversed(value))
        elif isinstance(value, list):
            pending += ((f"{path}[{index}]", value[index]) for index in reversed(range(len(value))))
    return found[:MAX_STRICT_ERRORS]


def _quote_char(byte: int) -> str:
    if byte == 0x27:
        return "'\\''"
    if byte == 0x22:
        return "'\"'"
    if 0x20 <= byte < 0x7F:
        return f"'{chr(byte)}'" if byte != 0x5C else "'\\\\'"
    named = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}
    if byte in named:
        return f"'{named[byte]}'"
    # Go converts the byte to a rune and quotes that: Latin-1 letters print as themselves.
    if byte >= 0xA1 and byte != 0xAD:
        return f"'{chr(byte)}'"
    return f"'\\x{byte:02x}'" if byte < 0x80 else f"'\\u{byte:04x}'"


class _Scanner:
    """Walks the text once and stops at the first byte that Go's scanner refuses."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def fail(self, context: str) -> JSONSyntaxError:
        if self.at >= len(self.data):
            return JSONSyntaxError("unexpected end of JSON input")
        return JSONSyntaxError(f"invalid character {_quote_char(self.data[self.at])} {context}")

    def peek(self) -> int:
        return self.data[self.at] if self.at < len(self.data) else -1

    def blank(self) -> None:
        while self.at < len(self.data) and self.data[self.at] in _WHITESPACE:
            self.at += 1

    def document(self) -> None:
        """Raises at the first fault; returns when the text is well-formed."""
        closers: list[int] = []
        while True:
            self.blank()
            byte = self.peek()
            if byte in (0x7B, 0x5B):
                closers.append(byte)
                if len(closers) > MAX_DEPTH:
                    raise JSONSyntaxError("exceeded max depth")
                self.at += 1
                self.blank()
                if self.peek() == (0x7D if byte == 0x7B else 0x5D):
                    self.at += 1
                    closers.pop()
                elif byte == 0x7B:
                    self.key()
                    continue
                else:
                    continue
            else:
                self.scalar(byte)
            if self.after_value(closers):
                return

    def after_value(self, closers: list[int]) -> bool:
        while closers:
            self.blank()
            byte = self.peek()
            in_object = closers[-1] == 0x7B
            if byte == 0x2C:
                self.at += 1
                if in_object:
                    self.blank()
                    self.key()
                return False
            if byte != (0x7D if in_object else 0x5D):
                raise self.fail("after object key:value pair" if in_object else "after array element")
            self.at += 1
            closers.pop()
        self.blank()
        if self.at < len(self.data):
            raise self.fail("after top-level value")
        return True

    def key(self) -> None:
        if self.peek() != 0x22:
            raise self.fail("looking for beginning of object key string")
        self.string()
        self.blank()
        if self.peek() != 0x3A:
            raise self.fail("after object key")
        self.at += 1

    def scalar(self, byte: int) -> None:
        if byte == 0x22:
            self.string()
        elif byte == 0x2D or 0x30 <= byte <= 0x39:
            self.number()
        elif byte in (0x74, 0x66, 0x6E):
            self.literal({0x74: b"true", 0x66: b"false", 0x6E: b"null"}[byte])
        else:
            raise self.fail("looking for beginning of value")

    def literal(self, word: bytes) -> None:
        for expected in word:
            if self.peek() != expected:
                raise self.fail(f"in literal {word.decode()} (expecting '{chr(expected)}')")
            self.at += 1

    def string(self) -> None:
        self.at += 1
        while True:
            byte = self.peek()
            if byte == 0x22:
                self.at += 1
                return
            if byte < 0x20:
                raise self.fail("in string literal")
            self.at += 1
            if byte == 0x5C:
                self.escape()

    def escape(self) -> None:
        byte = self.peek()
        if byte == -1 or byte not in b'bfnrt\\/"u':
            raise self.fail("in string escape code")
        self.at += 1
        if byte == 0x75:
            for _ in range(4):
                if self.peek() == -1 or self.peek() not in b"0123456789abcdefABCDEF":
                    raise self.fail("in \\u hexadecimal character escape")
                self.at += 1

    def digits(self, context: str) -> None:
        if not 0x30 <= self.peek() <= 0x39:
            raise self.fail(context)
        while 0x30 <= self.peek() <= 0x39:
            self.at += 1

    def number(self) -> None:
        if self.peek() == 0x2D:
            self.at += 1
        if self.peek() == 0x30:
            self.at += 1
        else:
            self.digits("in numeric literal")
        if self.peek() == 0x2E:
            self.at += 1
            self.digits("after decimal point in numeric literal")
        if self.peek() in (0x65, 0x45):
            self.at += 1
            if self.peek() in (0x2B, 0x2D):
                self.at += 1
            self.digits("in exponent of numeric literal")


def scan(data: bytes) -> None:
    """Raises :class:`JSONSyntaxError` where Go's scanner stops, in time linear in the length of ``data``."""
    _Scanner(data).document()


_INT64 = 1 << 63
# What walks over values is recursive: without a bound an object would be a way to the interpreter's own limit.
MAX_PLAIN_DEPTH = 200


def plain(value: Any, depth: int = 0) -> Any:
    """A value in builtins, with numbers as Go keeps them: integers of 64 bits (``2.0`` is 2), and others as floats.

    Raises:
        UnmarshalError: it nests deeper than ``MAX_PLAIN_DEPTH``, or no float holds one of its numbers.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if depth > MAX_PLAIN_DEPTH:
        raise UnmarshalError(f"json: exceeded max depth of {MAX_PLAIN_DEPTH}")
    if isinstance(value, dict):
        return {key: plain(item, depth + 1) for key, item in value.items()}
    if kind is list:
        return [plain(item, depth + 1) for item in value]
    return _integer_of_64_bits(value) if isinstance(value, int) else _float(value)


def _integer_of_64_bits(value: int) -> int | float:
    if -_INT64 <= value < _INT64:
        return value
    try:
        return float(value)
    except OverflowError as err:
        raise _out_of_range(str(value)) from err


def _float(value: float) -> int | float:
    if math.isinf(value):
        raise _out_of_range(value.text if isinstance(value, Number) else str(value))
    return int(value) if value.is_integer() and -_INT64 <= value < _INT64 else float(value)


def _out_of_range(text: str) -> UnmarshalError:
    return UnmarshalError(f"json: cannot unmarshal number {text[:64]} into Go value of type float64")


# ------------------------------------------------------------------ numbers as Go writes them


def go_numbers(tree: Any) -> Any:
    """``tree`` with the floats spelled out that Go prints in other words than everybody else.

    Go writes exponents below -6 and from 21 on, the latter with a plus; msgspec some of those between, too.
    """
    if type(tree) is float:
        return _go_float(tree)
    if isinstance(tree, dict):
        made = {key: go_numbers(value) for key, value in tree.items()}
        return made if any(made[key] is not tree[key] for key in made) else tree
    if isinstance(tree, list):
        items = [go_numbers(item) for item in tree]
        return items if any(new is not old for new, old in zip(items, tree, strict=True)) else tree
    return tree


def _go_float(value: float) -> Any:
    size = abs(value)
    if value == 0 or 1e-5 < size < 1e15:
        return value
    if 1e-6 <= size < 1e21:
        return msgspec.Raw(format(Decimal(repr(value)), "f").encode())
    mantissa, _, exponent = repr(value).partition("e")
    return msgspec.Raw(f"{mantissa}e{int(exponent):+d}".encode())
