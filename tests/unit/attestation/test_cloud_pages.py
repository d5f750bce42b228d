"""The pages of the clouds' methods: their examples are read, and they name every setting and every step."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

import peers
from cloud_servers import azure as azure_cloud
from kubevouch.attestation import catalog
from kubevouch.attestation.azure import verifier as azure
from kubevouch.attestation.gcp import verifier as gcp
from kubevouch.cli.main import COMMANDS
from kubevouch.client.interface import Client
from kubevouch.config import attestation_config
from kubevouch.testing.clock import FakeClock

PAGES = peers.ROOT / "docs" / "attestation"
SOURCE = peers.ROOT / "src" / "kubevouch" / "attestation"
# Of the common reader of evidence, before any step of a method.
_STEP = re.compile(
    r'RefusedEvidenceError\(\s*"([a-z-]+)"|step = "([a-z-]+)"|"([a-z-]+)" if brought|UnknownKeyError\("(kid)"'
)


@dataclass
class World:
    clock: FakeClock
    client: Client | None = None


def page(name: str) -> str:
    return (PAGES / name / "control-plane.md").read_text()


def steps(*sources: str) -> set[str]:
    text = "".join((SOURCE / each).read_text() for each in sources)
    return {step for match in _STEP.finditer(text) for step in match.groups() if step}


@pytest.mark.parametrize("name", ["gcp", "gke", "azure"])
def test_the_example_can_be_used(name: str, tmp_path: Path) -> None:
    roots = tmp_path / "roots.pem"
    roots.write_bytes(azure_cloud.certificate("root", 0, ("root", 0), ca=True).public_bytes(Encoding.PEM))
    (example,) = re.findall(r"```yaml\n(.*?)```", page(name), re.DOTALL)
    config = attestation_config.decode(example.replace("/etc/kubernetes/azure-roots.pem", str(roots)).encode())

    (attestor,) = config.attestors
    assert attestor.provider == name
    made = catalog.verifier(name)(msgspec.json.decode(bytes(attestor.settings.raw)), World(FakeClock()))
    assert made.name == name


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        ("gcp", ("jwt.py", "gcp/identity_token.py", "gcp/verifier.py")),
        ("gke", ("gke/verifier.py",)),
        (
            "azure",
            (
                "azure/attested_document.py",
                "azure/intermediates.py",
                "azure/managed_identity.py",
                "azure/verifier.py",
            ),
        ),
    ],
)
def test_every_step_is_on_its_page(name: str, sources: tuple[str, ...]) -> None:
    found = steps(*sources)
    assert len(found) > 5
    assert {each for each in found if f"`{each}`" not in page(name)} == set()


@pytest.mark.parametrize(("name", "settings"), [("gcp", gcp.Settings), ("azure", azure.Settings)])
def test_every_setting_is_on_its_page(name: str, settings: type[msgspec.Struct]) -> None:
    known = {each.encode_name for each in msgspec.structs.fields(settings)}
    assert {each for each in known if f"`{each}`" not in page(name)} == set()


@pytest.mark.parametrize("name", ["gcp", "azure"])
def test_every_command_can_be_typed(name: str) -> None:
    text = (PAGES / name / "node.md").read_text()
    commands = re.findall(r"^\$ kubevouch ([a-z]+) (.*)$", text, re.MULTILINE)
    assert len(commands) == 3
    for command, rest in commands:
        module, _, name_there = COMMANDS[command][0].partition(":")
        found: click.Command = getattr(importlib.import_module(module), name_there)
        known = {option for parameter in found.params for option in parameter.opts}
        assert {each for each in rest.split() if each.startswith("--")} <= known
