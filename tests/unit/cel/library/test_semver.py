"""cel/library/semver.py"""

from __future__ import annotations

import pytest

from cel_cases import error_of, value_of


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("isSemver('1.0.0') && isSemver('0.1.0-alpha.1') && isSemver('1.2.3+build.5')", True),
        ("['hello', 'v1.0', '1.0', '01.0.0', '1.0.0-01', '1.0.0-', '1.0.0+'].exists(s, isSemver(s))", False),
        ("isSemver('v1.0', true) && isSemver('01.01.01', true)", True),
        ("semver('v1.2', true) == semver('1.2.0')", True),
        ("semver('1.2.3').major()", 1),
        ("semver('1.2.3').minor()", 2),
        ("semver('1.2.3').patch()", 3),
        ("semver('1.2.3').compareTo(semver('1.2.3'))", 0),
        ("semver('1.2.3').compareTo(semver('2.0.0'))", -1),
        ("semver('1.2.3').compareTo(semver('0.1.2'))", 1),
        ("semver('1.0.0').isGreaterThan(semver('1.0.0-rc.1'))", True),
        ("semver('1.0.0-alpha').isLessThan(semver('1.0.0-alpha.1'))", True),
        ("semver('1.0.0-2').isLessThan(semver('1.0.0-10'))", True),
        ("semver('1.0.0-10').isLessThan(semver('1.0.0-beta'))", True),
        ("semver('1.0.0+a') == semver('1.0.0+b')", True),
    ],
)  # fmt: skip
def test_values(source: str, value: object) -> None:
    assert value_of(source) == value


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("semver('200K')", "No Major.Minor.Patch elements found"),
        ("semver('')", "Version string empty"),
        ("semver('a.b.c')", 'Invalid character(s) found in major number "a"'),
        ("semver('01.1.1')", 'Major number must not contain leading zeroes "01"'),
        ("semver('1.0-a', true)", "short version cannot contain PreRelease/Build meta data"),
    ],
)
def test_errors(source: str, text: str) -> None:
    assert error_of(source) == text
