"""``vectors/node.jsonl``, with the fixtures that its cases name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CASES: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "vectors/node.jsonl").read_text().splitlines()
]


def fixture(name: str) -> Any:
    """What the case ``fx-…`` gives."""
    return next(case["given"] for case in CASES if case["id"] == name)
