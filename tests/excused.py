"""The cases that are answered otherwise on purpose: those named in ``docs/compatibility.toml``, and no others."""

from __future__ import annotations

import tomllib
from pathlib import Path

_LIST = Path(__file__).parents[1] / "docs" / "compatibility.toml"


def excused() -> frozenset[str]:
    listed = tomllib.loads(_LIST.read_text())["difference"]
    return frozenset(case for each in listed for case in each.get("cases", ()))
