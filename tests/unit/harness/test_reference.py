"""The reference pages are what the program says of itself today."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import peers
from kubevouch.api.kubevouch_v1alpha1.catalog import OWN_KINDS

SCRIPT = peers.ROOT / "scripts" / "reference.py"
DOCS = peers.ROOT / "docs"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run([sys.executable, SCRIPT, "--into", folder], capture_output=True, check=True)
    subprocess.run([sys.executable, SCRIPT, "--man", folder / "man"], capture_output=True, check=True)
    return folder


@pytest.mark.parametrize(
    "name",
    [
        "docs/reference/api.md",
        "docs/reference/attacks.md",
        "docs/reference/cli.md",
        "docs/reference/findings.md",
        "docs/reference/metrics.md",
        "docs/reference/settings.md",
        "docs/compatibility.md",
        "docs/request-life.svg",
        "docs/request-decision.svg",
        "deploy/agent/daemonset.yaml",
        "deploy/cluster-api/management.yaml",
        "deploy/cluster-api/workload.yaml",
        "deploy/controllers/access.yaml",
        "deploy/controllers/attestation.yaml",
        "deploy/controllers/deployment.yaml",
        "deploy/crds/guards.yaml",
        "deploy/kubevouch.yaml",
        "deploy/kustomization.yaml",
        *(f"deploy/crds/{kind.definition_name}.yaml" for kind in OWN_KINDS),
    ],
)
def test_pages_are_up_to_date(made: Path, name: str) -> None:
    assert (peers.ROOT / name).read_text() == (made / name).read_text(), "run: make reference"


def test_every_command_has_a_chapter_with_its_options(made: Path) -> None:
    text = (made / "docs" / "reference" / "cli.md").read_text()
    assert "\n## kubevouch csr list\n" in text
    chapter = text.partition("\n## kubevouch doctor node\n")[2].partition("\n## ")[0]
    assert "Look at this node's kubeconfig and certificate" in chapter
    assert "\n    kubevouch doctor node [OPTIONS]\n" in chapter
    assert "| `-o, --output [text\\|json\\|yaml]` | Format. [default: text] |" in chapter
    assert "| `-h, --help` |" in chapter


def test_the_api_page_marks_what_is_empty_and_what_is_off(made: Path) -> None:
    rows = {
        line.split(" | ")[0][2:]: line for line in (made / "docs" / "reference" / "api.md").read_text().splitlines()
    }
    assert rows["Pod"].endswith(" | *empty* |")
    assert rows["ClusterTrustBundle"].endswith(" | *off* |")
    assert rows["Secret"].endswith(" |  |")
    assert "`token`: create" in rows["ServiceAccount"]
    assert "`/openid/v1/jwks`" in rows


def test_every_finding_has_its_anchor(made: Path) -> None:
    text = (made / "docs" / "reference" / "findings.md").read_text()
    assert "\n### clock-off\n\nThe clocks of this machine" in text
    assert "\n    timedatectl set-ntp true\n" in text


def test_manual_pages_are_read_without_a_warning(made: Path) -> None:
    pages = sorted((made / "man").iterdir())
    assert made / "man" / "kubevouch-csr-list.1" in pages
    read = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-P-cbou", *pages], capture_output=True, text=True, check=True
    )
    assert read.stderr == ""
    assert "kubevouch-csr-list - List the requests of the cluster" in read.stdout.replace("\u2010", "-")


def test_the_tests_that_hold_a_difference_are_there() -> None:
    listed = tomllib.loads((DOCS / "compatibility.toml").read_text())["difference"]
    named = [each["test"] for each in listed if "test" in each]
    assert len(named) > 15
    for test in named:
        path, _, function = test.partition("::")
        assert f"def {function}(" in (peers.ROOT / path).read_text(), test
