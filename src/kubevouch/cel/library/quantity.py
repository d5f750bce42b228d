"""Resource quantities.

Source: k8s.io/apiserver/pkg/cel/library/quantity.go, k8s.io/apimachinery/pkg/api/resource (Kubernetes 1.36).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from kubevouch.cel.functions import function, method, opaque
from kubevouch.cel.values import MAX_INT, MIN_INT, EvaluationError, Opaque, Run
from kubevouch.machinery import declaration

_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(.*)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LONGEST, _GREATEST_EXPONENT = 64, 100


@opaque("kubernetes.Quantity")
@dataclass(frozen=True)
class Quantity(Opaque):
    """An exact amount; ``whole`` if it was written without a fraction, which is what Kubernetes takes for an int."""

    amount: Fraction
    whole: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and other.amount == self.amount

    def __hash__(self) -> int:
        return hash(self.amount)


def _parsed(text: str) -> Quantity:
    try:
        declaration.Quantity.parse(text)
    except ValueError as err:
        raise EvaluationError(str(err)) from err
    found = _NUMBER.fullmatch(text)
    if found is None or not (found[2] or found[3]) or len(text) > _LONGEST:
        raise EvaluationError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    fraction, suffix = found[3] or "", found[4]
    number = Fraction(int((found[2] + fraction) or "0"), 10 ** len(fraction))
    if suffix in _BINARY:
        scale = Fraction(2 ** _BINARY[suffix])
    else:
        exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
        if abs(exponent) > _GREATEST_EXPONENT:
            raise EvaluationError("unable to parse quantity's suffix")
        scale = Fraction(10) ** exponent
    return Quantity(number * scale * (-1 if found[1] == "-" else 1), not fraction and scale >= 1)


@function("quantity", "string")
def _quantity(text: str, *, run: Run) -> Quantity:
    run.spend_on_text(text)
    return _parsed(text)


@function("isQuantity", "string")
def _is_quantity(text: str, *, run: Run) -> bool:
    run.spend_on_text(text)
    try:
        _parsed(text)
    except EvaluationError:
        return False
    return True


def _sign(number: Fraction) -> int:
    return (number > 0) - (number < 0)


@function("sign", "kubernetes.Quantity")
def _quantity_sign(quantity: Quantity) -> int:
    return _sign(quantity.amount)


@method("isInteger", "kubernetes.Quantity")
def _is_integer(quantity: Quantity) -> bool:
    return quantity.whole and MIN_INT <= quantity.amount <= MAX_INT


@method("asInteger", "kubernetes.Quantity")
def _as_integer(quantity: Quantity) -> int:
    if not _is_integer(quantity):
        raise EvaluationError("cannot convert value to integer")
    return int(quantity.amount)


@method("asApproximateFloat", "kubernetes.Quantity")
def _as_float(quantity: Quantity) -> float:
    return float(quantity.amount)


@method("compareTo", "kubernetes.Quantity kubernetes.Quantity")
def _compare(quantity: Quantity, other: Quantity) -> int:
    return _sign(quantity.amount - other.amount)


@method("isGreaterThan", "kubernetes.Quantity kubernetes.Quantity")
def _is_greater(quantity: Quantity, other: Quantity) -> bool:
    return quantity.amount > other.amount


@method("isLessThan", "kubernetes.Quantity kubernetes.Quantity")
def _is_less(quantity: Quantity, other: Quantity) -> bool:
    return quantity.amount < other.amount


@method("add", "kubernetes.Quantity kubernetes.Quantity")
def _add(quantity: Quantity, other: Quantity) -> Quantity:
    return Quantity(quantity.amount + other.amount, quantity.whole and other.whole)


@method("add", "kubernetes.Quantity int")
def _add_int(quantity: Quantity, other: int) -> Quantity:
    return Quantity(quantity.amount + other, quantity.whole)


@method("sub", "kubernetes.Quantity kubernetes.Quantity")
def _sub(quantity: Quantity, other: Quantity) -> Quantity:
    return Quantity(quantity.amount - other.amount, quantity.whole and other.whole)


@method("sub", "kubernetes.Quantity int")
def _sub_int(quantity: Quantity, other: int) -> Quantity:
    return Quantity(quantity.amount - other, quantity.whole)
