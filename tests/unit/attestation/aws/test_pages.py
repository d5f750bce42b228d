"""The pages name the steps and settings that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import msgspec
import yaml

from kubevouch.attestation.aws import attestor, verifier
from kubevouch.testing.clock import FakeClock
from unit.attestation.aws.test_verifier import Around

_DOCS = Path(__file__).parents[4] / "docs" / "attestation" / "aws"
_PAGE = (_DOCS / "control-plane.md").read_text()
_SOURCES = Path(verifier.__file__).parent


def test_the_steps() -> None:
    rows = re.findall(r"^\| (\d+) \| (`[^|]+`) \|", _PAGE, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    listed = {step for _, steps in rows for step in re.findall(r"`([a-z-]+)`", steps)}
    raised = set()
    for source in _SOURCES.glob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RefusedEvidenceError":
                raised.add(ast.literal_eval(node.args[0]))
    # The last are raised by documents.decode, and for a proof without a challenge.
    assert listed == raised | {"duplicate-key", "nonce"}


def test_the_settings() -> None:
    block = re.search(r"```yaml\n(.*?)```", _PAGE, re.DOTALL)
    assert block is not None
    verifier.make_verifier(yaml.safe_load(block[1])["attestors"][0]["settings"], Around(FakeClock()))
    for page, settings in ((_PAGE, verifier.Settings), ((_DOCS / "node.md").read_text(), attestor.Settings)):
        table = page[page.index("| setting |") :].partition("\n\n")[0]
        named = {
            name for row in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
        }
        assert named == {each.encode_name for each in msgspec.structs.fields(settings)}
