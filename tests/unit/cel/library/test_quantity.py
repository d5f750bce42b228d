"""cel/library/quantity.py"""

from __future__ import annotations

import pytest

from cel_cases import error_of, value_of


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("['1.3G', '1.3Gi', '10000k', '-1e3', '20Mi', '.5', '5.'].all(q, isQuantity(q))", True),
        ("['1,3G', '200K', 'Three', 'Mi', '', '1 G'].exists(q, isQuantity(q))", False),
        ("quantity('50000000G').isInteger() && quantity('50k').isInteger()", True),
        ("quantity('9999999999999999999999999999999999999G').isInteger() || quantity('0.5').isInteger()", False),
        ("quantity('50k').asInteger()", 50000),
        ("quantity('50k').sub(20000).asApproximateFloat()", 30000.0),
        ("quantity('50k').add(quantity('20k')) == quantity('70k')", True),
        ("quantity('50k').add(20).sub(quantity('100k')).sub(-50000) == quantity('20')", True),
        ("quantity('200M').compareTo(quantity('0.2G'))", 0),
        ("quantity('50M').compareTo(quantity('50Mi'))", -1),
        ("quantity('50Mi').compareTo(quantity('50M'))", 1),
        ("quantity('150Mi').isGreaterThan(quantity('100Mi')) && quantity('50M').isLessThan(quantity('100M'))", True),
        ("sign(quantity('-5k'))", -1),
        ("quantity('1') == dyn('1')", False),
    ],
)  # fmt: skip
def test_values(source: str, value: object) -> None:
    assert value_of(source) == value


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("quantity('200K')", "unable to parse quantity's suffix"),
        (
            "quantity('Three')",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("quantity('9999999999999999999999999999999999999G').asInteger()", "cannot convert value to integer"),
        ("quantity(string(o))", "unable to parse quantity's suffix"),
    ],
)
def test_errors(source: str, text: str) -> None:
    assert error_of(source, "1e999999999") == text
