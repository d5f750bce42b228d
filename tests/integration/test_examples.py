"""The scripts in examples/, run as they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import peers

EXAMPLES = peers.ROOT / "examples"


def run(name: str, folder: Path) -> str:
    """What the script printed, with the oldest kubectl that there is and nothing of this machine's own settings."""
    (folder / "kubectl").symlink_to(peers.kubectl("1.20"))
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder), "TMPDIR": str(folder),
        "KUBEVOUCH": str(Path(sys.executable).parent / "kubevouch"),
    }  # fmt: skip
    ended = subprocess.run(
        ["sh", str(EXAMPLES / name)], env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 0, ended
    return ended.stdout


def test_a_join_with_its_serving_certificate(tmp_path: Path) -> None:
    told = run("join-with-serving-certificate.sh", tmp_path)
    assert re.search(r"subject=.*CN ?= ?system:node:worker-1", told)
    assert "DNS:worker-1, IP Address:10.0.0.9" in told
    assert "every name and address is justified by identity, node-addresses." in told
    # It leaves nothing.
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("tmp")] == []
    page = (peers.ROOT / "docs" / "howto" / "serving-certificates.md").read_text()
    assert "examples/join-with-serving-certificate.sh" in page
