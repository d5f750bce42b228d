"""Resource quantities: reading them, and the form in which Kubernetes writes them.

Source: k8s.io/apimachinery/pkg/api/resource quantity.go, suffix.go (Kubernetes 1.36).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

REGULAR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_BAD_SUFFIX = "unable to parse quantity's suffix"
_BAD_NUMBER = "unable to parse numeric part of quantity"

# What Go's scanner takes; it wants no digits at all.
_SCANNED = re.compile(r"(?P<sign>[+-]?)0*(?P<num>[0-9]*)(?:\.(?P<denom>[0-9]*))?(?P<suffix>[eEinumkKMGTP]*[+-]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIXES = {exponent: suffix for suffix, exponent in _BINARY.items()} | {0: ""}

_NANO = -9
_MILLI = -3
_MAX_INT64 = (1 << 63) - 1
_FAST_DIGITS = 18
# Go takes any; longer ones would only be a way to keep a server busy.
MAX_TEXT = 128
MAX_EXPONENT = 1000


class _Parsed(NamedTuple):
    """``value`` times ten to the power of ``scale``; ``text`` if it is written as it came."""

    value: int
    scale: int
    form: str
    text: str = ""


_SI, _IEC, _E = "DecimalSI", "BinarySI", "DecimalExponent"


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The quantity as Kubernetes writes it. Raises ``ValueError`` with Kubernetes' sentence."""
    return _written(_parse(text))


@lru_cache(maxsize=4096)
def rounded_up_to_milli(text: str) -> str:
    """The canonical form without what is smaller than a thousandth, away from zero. Raises ``ValueError``."""
    parsed = _parse(text)
    if parsed.scale >= _MILLI:
        return _written(parsed)
    value, _ = _divided(parsed.value, 10 ** (_MILLI - parsed.scale))
    return _written(_Parsed(value, _MILLI, parsed.form))


def floor(text: str) -> int:
    """The whole number below or at the quantity, as far as an int64 holds it. Raises ``ValueError``."""
    value, scale, *_ = _parse(text)
    if scale > _FAST_DIGITS:
        # ``9e2147483647`` is a quantity: the power alone would keep the interpreter for minutes.
        return 0 if not value else _MAX_INT64 if value > 0 else -_MAX_INT64
    power: int = 10 ** abs(scale)
    return max(-_MAX_INT64, min(value * power if scale >= 0 else value // power, _MAX_INT64))


def is_whole(text: str) -> bool:
    """Whether nothing is left behind the point. Raises ``ValueError``."""
    value, scale, *_ = _parse(text)
    power: int = 10 ** max(-scale, 0)
    return value % power == 0


def _parse(text: str) -> _Parsed:
    scanned = _SCANNED.fullmatch(text)
    if not text or scanned is None:
        raise ValueError(REGULAR)
    suffix = scanned["suffix"]
    exponent, form = _interpret(suffix)
    if len(text) > MAX_TEXT:
        raise ValueError(_BAD_NUMBER)
    num, denom = scanned["num"] or "0", scanned["denom"] or ""
    digits = num + denom
    value = -int(digits) if scanned["sign"] == "-" else int(digits)
    if form == _IEC:
        return _binary(text, value, num, denom, exponent)
    scale = exponent - len(denom)
    if len(digits) <= _FAST_DIGITS and scale >= _NANO:
        as_written = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        return _Parsed(value, scale, form, text if as_written else "")
    if abs(exponent) > MAX_EXPONENT:
        raise ValueError(_BAD_SUFFIX)
    return _at_least_nano(value, scale, form)


def _interpret(suffix: str) -> tuple[int, str]:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], _SI
    if suffix in _BINARY:
        return _BINARY[suffix], _IEC
    found = _EXPONENT.fullmatch(suffix)
    if found is None or len(found[1]) > 10:
        raise ValueError(_BAD_SUFFIX)
    return int(found[1]), _E


def _binary(text: str, value: int, num: str, denom: str, exponent: int) -> _Parsed:
    if not denom and 15 - len(num) - exponent * 3 // 10 - 1 >= 0:
        return _Parsed(value << exponent, 0, _IEC, text if value & 7 else "")
    amount = _at_least_nano(value << exponent, -len(denom), _IEC)
    # The most that Go's int64 holds.
    limit = _MAX_INT64 * 10**-amount.scale
    if abs(amount.value) > limit:
        return _Parsed(_MAX_INT64 if value > 0 else -_MAX_INT64, 0, _IEC)
    return amount


def _at_least_nano(value: int, scale: int, form: str) -> _Parsed:
    """Whoever asks for a little gets at least the smallest amount there is."""
    if scale < _NANO:
        value, _ = _divided(value, 10 ** (_NANO - scale))
        scale = _NANO
    return _Parsed(value, scale, form)


def _divided(value: int, by: int) -> tuple[int, bool]:
    """Away from zero, and whether it was exact."""
    quotient, rest = divmod(abs(value), by)
    quotient += rest > 0
    return (-quotient if value < 0 else quotient), rest == 0


def _written(parsed: _Parsed) -> str:
    if parsed.text:
        return parsed.text
    value, scale, form, _ = parsed
    if not value:
        return "0"
    if form == _IEC:
        whole, exact = (value * 10**scale, True) if scale >= 0 else _divided(value, 10**-scale)
        if exact and abs(whole) >= 1024:
            whole, times = _without_factors(whole, 1024, most=len(_BINARY))
            return f"{whole}{_BINARY_SUFFIXES[10 * times]}"
        form = _SI
    value, times = _without_factors(value, 10)
    scale += times
    value, scale = value * 10 ** (scale % 3), scale - scale % 3
    if form == _SI:
        # Beyond its suffixes Go writes none.
        return f"{value}{_DECIMAL_SUFFIXES.get(scale, '')}"
    return f"{value}e{scale}" if scale else str(value)


def _without_factors(value: int, factor: int, most: int = MAX_TEXT + MAX_EXPONENT) -> tuple[int, int]:
    times = 0
    while times < most and value % factor == 0:
        value //= factor
        times += 1
    return value, times
