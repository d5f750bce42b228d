"""docs/attestation: the pages of methods of possession and first use say what their code does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

import kubevouch
import peers
from device_certificates import authority
from kubevouch.attestation import catalog
from kubevouch.attestation.callback import attestor as callback_node
from kubevouch.attestation.callback import verifier as callback
from kubevouch.attestation.insecure import attestor as insecure_node
from kubevouch.attestation.insecure import verifier as insecure
from kubevouch.attestation.join_token import attestor as join_token_node
from kubevouch.attestation.join_token import verifier as join_token
from kubevouch.attestation.spiffe import attestor as spiffe_node
from kubevouch.attestation.spiffe import verifier as spiffe
from kubevouch.attestation.sshpop import attestor as sshpop_node
from kubevouch.attestation.sshpop import verifier as sshpop
from kubevouch.attestation.tofu import attestor as tofu_node
from kubevouch.attestation.tofu import verifier as tofu
from kubevouch.attestation.x509pop import attestor as x509pop_node
from kubevouch.attestation.x509pop import verifier as x509pop
from kubevouch.config import attestation_config
from ssh_hosts import make_key
from verifier_sources import AROUND

SOURCE = Path(kubevouch.__file__).parent
PAGES = peers.ROOT / "docs" / "attestation"
SETTINGS: dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct]]] = {
    "callback": (callback.Settings, callback_node.Settings),
    "insecure": (insecure.Settings, insecure_node.Settings),
    "join-token": (join_token.Settings, join_token_node.Settings),
    "spiffe": (spiffe.Settings, spiffe_node.Settings),
    "sshpop": (sshpop.Settings, sshpop_node.Settings),
    "tofu": (tofu.Settings, tofu_node.Settings),
    "x509pop": (x509pop.Settings, x509pop_node.Settings),
}
# Where the steps of a method are, beside its own folder.
STEPS = {
    "callback": ["attestation/answering.py"],
    "insecure": ["attestation/answering.py"],
    "spiffe": ["attestation/answering.py"],
    "tofu": ["attestation/answering.py"],
    "x509pop": ["attestation/answering.py", "pki/device_chain.py"],
    "sshpop": ["attestation/answering.py", "pki/ssh"],
    "join-token": ["records/join_tokens.py"],
}
_REFUSALS = {"RefusedEvidenceError", "DeviceChainError", "SSHError", "JoinTokenRefusedError"}
# Of every JSON document; the first of another page's; and what only another module can say.
COMMON = {"structure", "duplicate-key"}
ELSEWHERE = {"spiffe": {"signature"}, "callback": {"callback"}}


def page(method: str, side: str) -> str:
    return (PAGES / method / f"{side}.md").read_text()


def rows(text: str, heading: str) -> Iterator[list[str]]:
    """The cells of the table below a heading."""
    chapter = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    for line in chapter.splitlines():
        if line.startswith("| ") and not line.startswith(("| setting", "| | step")):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def quoted(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def refusals(method: str) -> set[str]:
    """Every step that its code names."""
    found: set[str] = set()
    for place in (f"attestation/{method.replace('-', '_')}", *STEPS.get(method, ())):
        whole = SOURCE / place
        for module in [whole] if whole.suffix else whole.glob("*.py"):
            for node in ast.walk(ast.parse(module.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _REFUSALS:
                    step = node.args[0]
                    if isinstance(step, ast.Constant) and isinstance(step.value, str):
                        found.add(step.value)
    return found


@pytest.mark.parametrize("method", SETTINGS)
def test_each_step_is_on_its_page_with_a_number(method: str) -> None:
    table = list(rows(page(method, "control-plane"), "Steps of verification"))
    assert [cells[0] for cells in table] == [str(number) for number in range(1, len(table) + 1)]
    told = {step for cells in table for step in quoted(cells[1])}
    assert told - COMMON == (refusals(method) | ELSEWHERE.get(method, set())) - COMMON


@pytest.mark.parametrize("method", SETTINGS)
def test_each_setting_is_on_its_page(method: str) -> None:
    for side, settings in zip(("control-plane", "node"), SETTINGS[method], strict=True):
        told = {name for cells in rows(page(method, side), "Settings") for name in quoted(cells[0])}
        assert told == {each.encode_name for each in msgspec.structs.fields(settings)}


@pytest.mark.parametrize("method", SETTINGS)
def test_what_is_configured_on_a_page_can_be(method: str, tmp_path: Path) -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```", page(method, "control-plane"), re.MULTILINE | re.DOTALL)
    tree = yaml.safe_load(text)
    contents = {".pem": authority("root").pem.encode(), ".pub": make_key().line.encode()}
    for attestor in tree["attestors"]:
        for name, value in attestor.get("settings", {}).items():
            if name.endswith("File") and Path(value).suffix in contents:
                (tmp_path / name).write_bytes(contents[Path(value).suffix])
                attestor["settings"][name] = str(tmp_path / name)
            elif name == "revokedFile":
                attestor["settings"][name] = ""
    config = attestation_config.decode(yaml.safe_dump(tree).encode())
    assert method in [each.provider for each in config.attestors]
    for each in config.attestors:
        # Its tokens are objects of a cluster.
        if each.provider != "join-token":
            catalog.verifier(each.provider)(attestation_config.settings_of(each), AROUND)
