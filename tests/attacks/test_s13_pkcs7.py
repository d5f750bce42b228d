"""S13: thirteen bytes of PKCS #7 that ended the process (CVE-2023-49083): nothing here hands such to a library."""

from __future__ import annotations

import ast
import base64
import tomllib
from pathlib import Path

import pytest

import kubevouch
from fuzz_targets import TARGETS
from kubevouch.pki.x509 import pem

ROOT = Path(__file__).parents[2]
SOURCE = Path(kubevouch.__file__).parent
BLOB = base64.b64decode("MAsGCSqGSIb3DQEHAg==")
# cryptography 41.0.6 was the first without the fault; the one of PKCS #12, CVE-2024-26130, ended with 42.0.4.
FLOOR = (42, 0, 4)
LABELS = (pem.CERTIFICATE, pem.CERTIFICATE_REQUEST, "PKCS7", "CMS", "PRIVATE KEY", "EC PRIVATE KEY", "PUBLIC KEY")


@pytest.mark.parametrize("name", TARGETS)
def test_every_parser_reads_or_refuses_it(name: str) -> None:
    for text in (BLOB, *(pem.encode(label, BLOB) for label in LABELS)):
        TARGETS[name].run(text)
        for seed in TARGETS[name].seeds[:3]:
            TARGETS[name].run(seed + text)


def test_nothing_reads_pkcs7_or_pkcs12_with_a_library() -> None:
    named = {
        f"{path.relative_to(SOURCE)}: {name}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _names(node)
        if "pkcs7" in name.lower() or "pkcs12" in name.lower()
    }
    # What AWS calls one of its forms; pki/x509/cms.py reads it.
    assert {each.rpartition(" ")[2] for each in named} <= {"PKCS7"}
    assert {each.partition(":")[0] for each in named} == {
        "attestation/aws/identity_document.py", "phases/attestation_roots.py",
    }  # fmt: skip


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
    return []


def test_the_library_is_one_without_the_fault() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (ours,) = [each for each in wanted if each.startswith("cryptography")]
    floor = ours.partition(">=")[2].partition(",")[0]
    assert tuple(int(part) for part in floor.split(".")) >= FLOOR[: floor.count(".") + 1]
