"""Unit tests lie where their module lies, and what decides about trust has one of its own (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import kubevouch

_SOURCES = Path(kubevouch.__file__).parent
_TESTS = Path(__file__).parents[1]

TRUSTED = ("pki", "records", "policy", "revocation", "signers", "authentication", "authorization", "admission")
# Calls of other people's servers: held by tests/integration/test_admission_*.py, with real ones.
CALLS = _SOURCES / "admission" / "dynamic"
# Declarations, tables and settings, by their names.
DECLARED = ("__init__", "interface", "catalog", "options", "errors")
_DECISIONS = (ast.If, ast.IfExp, ast.Match, ast.Raise, ast.While)


def decides(source: str) -> bool:
    """Whether there is anything in it that can go two ways."""
    return any(isinstance(node, _DECISIONS) for node in ast.walk(ast.parse(source)))


def unmirrored(module: Path) -> bool:
    """Whether a module below the sources has neither ``test_NAME.py`` nor ``test_NAME_TOPIC.py`` where it should."""
    folder = _TESTS / module.parent.relative_to(_SOURCES)
    return not (folder / f"test_{module.stem}.py").exists() and not any(folder.glob(f"test_{module.stem}_*.py"))


def test_what_decides_about_trust_has_its_own_tests() -> None:
    modules = [
        module
        for package in TRUSTED
        for module in (_SOURCES / package).rglob("*.py")
        if module.stem not in DECLARED and CALLS not in module.parents and decides(module.read_text())
    ]
    assert len(modules) > 80
    without = [str(module.relative_to(_SOURCES)) for module in modules if unmirrored(module)]
    assert without == [], "write tests/unit/FOLDER/test_NAME.py"


def test_a_unit_test_lies_where_its_module_lies() -> None:
    folders = {path.parent.relative_to(_TESTS) for path in _TESTS.rglob("test_*.py")} - {Path("harness")}
    assert len(folders) > 20
    assert [str(folder) for folder in folders if not (_SOURCES / folder).is_dir()] == []


@pytest.mark.parametrize(
    ("source", "verdict"),
    [("a = b if c else d", True), ("def f():\n    raise E", True), ("def f(x):\n    return g(x)", False)],
)
def test_what_a_decision_is(source: str, verdict: bool) -> None:
    assert decides(source) is verdict


def test_a_module_without_tests_is_found() -> None:
    assert unmirrored(_SOURCES / "pki" / "nobody_wrote_tests_for_this.py")
    assert not unmirrored(_SOURCES / "pki" / "jws.py")
