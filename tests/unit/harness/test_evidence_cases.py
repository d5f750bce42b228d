"""No piece of evidence lies in ``vectors/evidence`` that nobody is held to."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import evidence_cases
from kubevouch.attestation.interface import RefusedEvidenceError, SettingsError

_UNIT = Path(__file__).parents[1]


def test_every_kind_is_played_by_a_test() -> None:
    players = [path.read_text() for path in _UNIT.rglob("test_*.py") if path != Path(__file__)]
    named = {
        node.value
        for text in players
        if "evidence_cases.of(" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert {case.kind for case in evidence_cases.everything()} <= named


def test_the_folder_is_as_it_was_copied() -> None:
    row = re.search(
        r"^\| `evidence/` \| (\d+) \|", (evidence_cases.FOLDER.parent / "README.md").read_text(), re.MULTILINE
    )
    assert row is not None
    assert len(evidence_cases.everything()) >= int(row[1])


def _raises(error: Exception) -> object:
    raise error


def test_a_wrong_verdict_fails_the_test() -> None:
    good, bad = evidence_cases.named("ev-tpm-certify-008"), evidence_cases.named("ev-tpm-certify-014")
    good.judge(lambda: None)
    bad.judge(lambda: _raises(RefusedEvidenceError("magic", "x")))
    with pytest.raises(AssertionError):
        bad.judge(lambda: _raises(RefusedEvidenceError("signature", "x")))
    with pytest.raises(pytest.fail.Exception):
        bad.judge(lambda: None)
    with pytest.raises(RefusedEvidenceError):
        good.judge(lambda: _raises(RefusedEvidenceError("magic", "x")))
    with pytest.raises(SettingsError):
        bad.judge(lambda: _raises(SettingsError("x")))
