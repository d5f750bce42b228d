"""wellknown.py: what stands there is spelled nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

import kubevouch
from kubevouch import wellknown

ROOT = Path(kubevouch.__file__).parent

# Roles and bindings that are called like users and groups.
NAMESAKES = {"authorization/bootstrap_policy.py"}


def _is_telling(value: object) -> bool:
    """Not a word that means other things elsewhere, such as ``default``, or that people read: ``cluster-info``."""
    return isinstance(value, str) and (len(value) > 12 or ":" in value or "/" in value)


def test_there_is_one_domain_for_annotations() -> None:
    others = {path.name for path in ROOT.rglob("*.py") if ".dev/" in path.read_text().replace("go.dev/", "")}
    assert others == set()


def test_no_name_is_spelled_twice() -> None:
    names = {value for name, value in vars(wellknown).items() if name.isupper() and _is_telling(value)}
    assert len(names) > 50
    again = {}
    for path in ROOT.rglob("*.py"):
        module = path.relative_to(ROOT).as_posix()
        if module in {"wellknown.py", *NAMESAKES}:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names:
                again[f"{module}:{node.lineno}"] = node.value
    assert again == {}
