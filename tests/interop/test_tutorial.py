"""docs/tutorial.md, typed as it stands there, with a real kubectl."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import peers
import processes
from fixed_ports import free_port
from transcript_page import Reader, blocks_of

PAGE = (peers.ROOT / "docs" / "tutorial.md").read_text()


# Some forty commands, each a process.
@pytest.mark.parametrize("version", peers.DOCUMENTED_VERSIONS)
def test_every_command_does_what_the_page_shows(version: str, tmp_path: Path) -> None:
    checkout = tmp_path / "kubevouch"
    checkout.mkdir()
    (checkout / ".venv").symlink_to(sys.prefix)
    # Somebody's cluster may have the default port here.
    port = str(free_port())
    page = PAGE.replace("6443", port)
    page = page.replace("kubevouch up --data-dir ./cluster", f"kubevouch up --data-dir ./cluster --secure-port {port}")
    path = os.pathsep.join([str(peers.kubectl(version).parent), os.environ["PATH"]])
    blocks = blocks_of(page)
    assert len(blocks) > 10
    with Reader(checkout, processes.environment(PATH=path, HOME=str(tmp_path))) as reader:
        for each in blocks:
            reader.follow(each)
    # The page ends with nothing left behind.
    assert not (tmp_path / "three-machines").exists()
