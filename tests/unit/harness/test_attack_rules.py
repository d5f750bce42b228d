"""Every rule about attacks is held by tests that are there, or says what is missing."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

import peers

LISTED = tomllib.loads((peers.ROOT / "tests" / "attacks" / "rules.toml").read_text())
RULES: list[dict[str, Any]] = LISTED["rule"]
BOUNDS: list[dict[str, Any]] = LISTED["bound"]
COUNT = 30


def test_every_rule_is_there_in_order() -> None:
    assert [rule["id"] for rule in RULES] == [f"S{number}" for number in range(1, COUNT + 1)]


@pytest.mark.parametrize("entry", [*RULES, *BOUNDS], ids=lambda entry: entry.get("id") or entry["what"])
def test_the_tests_of_a_rule_are_there(entry: dict[str, Any]) -> None:
    assert entry["tests"]
    for test in entry["tests"]:
        file, _, name = test.partition("::")
        text = (peers.ROOT / file).read_text()
        pattern = r"^ *(async )?def test_" if name == "*" else rf"^ *(async )?def {re.escape(name)}\("
        assert re.search(pattern, text, re.MULTILINE), test


def test_a_test_that_is_named_after_a_rule_belongs_to_one() -> None:
    for file in (peers.ROOT / "tests" / "attacks").glob("test_s[0-9]*.py"):
        number = re.match(r"test_s([0-9]+)_", file.name)
        assert number is not None, file.name
        assert 1 <= int(number[1]) <= COUNT, file.name
