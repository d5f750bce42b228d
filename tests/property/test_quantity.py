"""Quantities in canonical form are the same amounts, and stay as they are."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from kubevouch.machinery.text.quantity import canonical, rounded_up_to_milli

_FACTORS = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1), "k": Fraction(10**3),
    "M": Fraction(10**6), "G": Fraction(10**9), "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30),
}  # fmt: skip
_digits = st.text("0123456789", min_size=1, max_size=9)
_numbers = st.tuples(st.sampled_from(["", "-", "+"]), _digits, st.one_of(st.just(""), _digits.map(".{}".format)))
_suffixes = st.one_of(st.sampled_from(sorted(_FACTORS)), st.integers(-15, 6).map("e{}".format))
_texts = st.tuples(_numbers.map("".join), _suffixes).map("".join)


def amount(text: str) -> Fraction:
    number = text.rstrip("numkKMGTPEi") if "e" not in text else text.partition("e")[0]
    suffix = text[len(number) :]
    factor = Fraction(10) ** int(suffix[1:]) if suffix.startswith("e") else _FACTORS.get(suffix)
    # What the canonical form adds to the suffixes above.
    factor = factor if factor is not None else Fraction(10) ** {"T": 12, "P": 15, "E": 18}.get(suffix[:1], 0)
    if suffix in ("Ti", "Pi", "Ei"):
        factor = Fraction(1024) ** ("TPE".index(suffix[0]) + 4)
    return Fraction(number) * factor


def up(value: Fraction, step: Fraction) -> Fraction:
    whole = -((-abs(value)) // step) * step
    return whole if value >= 0 else -whole


@given(_texts)
def test_canonical_form(text: str) -> None:
    written = canonical(text)
    assert canonical(written) == written
    assert amount(written) in (amount(text), up(amount(text), Fraction(1, 10**9)))


@given(_texts)
def test_thousandths(text: str) -> None:
    rounded = rounded_up_to_milli(text)
    assert amount(rounded) == up(amount(text), Fraction(1, 1000))
    assert rounded_up_to_milli(rounded) == rounded


@given(st.text(max_size=40))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    why = ""
    try:
        canonical(text)
    except ValueError as err:
        why = str(err)
    assert not why or why.startswith(("quantities must match", "unable to parse"))
