"""Makes docs/reference/attacks.md from tests/attacks/rules.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

RULES = Path(__file__).resolve().parents[1] / "tests" / "attacks" / "rules.toml"

_INTRODUCTION = """\
Weaknesses that other projects have published, each turned into a rule, and what somebody could make grow here. Each
names tests that fail when it no longer holds; `make attacks` has most of them. What abuses cost is measured by
`make attack` and told on [a page of its own](../attacks.md), who can do what is in the
[threat model](../threat-model.md), and the bounds themselves are in [limits](limits.md)."""


def page(made: str) -> str:
    listed = tomllib.loads(RULES.read_text())
    rules = [
        f"| {rule['id']} | {rule['from']} | {_holds(rule)} | {_tests(rule)} |" for rule in listed["rule"]
    ]  # fmt: skip
    bounds = [f"| {bound['what']} | {_tests(bound)} |" for bound in listed["bound"]]
    parts = [
        "# Attacks, and the tests that hold them off", made, _INTRODUCTION, "## Rules",
        "\n".join(["| | learnt from | what holds | tests |", "|---|---|---|---|", *rules]),
        "## Bounds", "\n".join(["| what could grow, or be lost | tests |", "|---|---|", *bounds]),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _holds(rule: dict[str, Any]) -> str:
    return f"{rule['holds']}." + (f" *Missing:* {rule['missing']}." if "missing" in rule else "")


def _tests(rule: dict[str, Any]) -> str:
    """Each file once, with its tests behind it."""
    by_file: dict[str, list[str]] = {}
    for test in rule["tests"]:
        file, _, name = test.removeprefix("tests/").partition("::")
        by_file.setdefault(file, []).append(name)
    return "<br>".join(
        f"`{file}`"
        + ("" if names == ["*"] else ": " + ", ".join(name.removeprefix("test_").replace("_", " ") for name in names))
        for file, names in by_file.items()
    )
