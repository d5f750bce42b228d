"""Where the real programs lie that scripts/fetch_peers.py fetched."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def binary(peer: str, program: str) -> Path:
    """`program` of the peer of that name in scripts/peers.toml; fails the test when it was not fetched."""
    path = ROOT / ".peers" / peer / program
    if not path.is_file():
        pytest.fail(f"{peer} is not in .peers; run: make peers PEERS={peer}", pytrace=False)
    return path


def kubectl(version: str) -> Path:
    """kubectl of a minor version such as "1.37"."""
    return binary(f"kubectl-{version}", "kubectl")


def _fetched_kubectls() -> tuple[str, ...]:
    peers = tomllib.loads((ROOT / "scripts" / "peers.toml").read_text())
    return tuple(
        name.removeprefix("kubectl-") for name in peers if name.startswith("kubectl-") and peers[name]["tests"]
    )


KUBECTL_VERSIONS = _fetched_kubectls()
"""The minor versions `make test` fetches, newest first, to parametrize a test with."""

DOCUMENTED_VERSIONS = ("1.37", "1.28")
"""Those with which the README's session works word for word; older ones lack some of its commands."""

OLD_AND_NEW_VERSIONS = ("1.37", "1.32", "1.26", "1.20")
"""Those with which everything is done to requests that can be done."""
