"""docs/tutorial.md and README.md, typed as they stand there, with a real kubectl."""

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


# What the first page shows shorter than it is printed, to fit a narrow window.
_CUT = {
    "q8hm2w5xnr7ybcp1 …": "q8hm2w5xnr7ybcp1 --tls-bootstrap-token edh3jq.d46cju100imcnslj "
    "--discovery-token-ca-cert-hash sha256:060ceb2a3163d114878f319f0412f164230ec30577fed19f9e19e3a648b5ce55",
    "2027-11-21 18…": "2027-11-21 18:14:19 UTC",
    "node-csr-r…WjdL1x_OSE": "node-csr-rBl_XGhoRkUMKElUOIUD5IF42ZVLpLQosWjdL1x_OSE",
}


def test_the_first_page_does_what_it_shows(tmp_path: Path) -> None:
    page = (peers.ROOT / "README.md").read_text()
    assert all(len(line) <= 100 for block in blocks_of(page) for each in block.entries for line in each.shown)
    for shown, printed in _CUT.items():
        assert page.count(shown) == 1
        page = page.replace(shown, printed)
    checkout = tmp_path / "kubevouch"
    checkout.mkdir()
    (checkout / ".venv").symlink_to(sys.prefix)
    # As where the port is taken: with another one, which the rest of the page has from what is printed.
    port = str(free_port())
    page = page.replace(
        "$ kubevouch up --data-dir ./cluster\n", f"$ kubevouch up --data-dir ./cluster --secure-port {port}\n"
    )
    page = page.replace("192.0.2.10:6443", f"192.0.2.10:{port}")
    path = os.pathsep.join([str(peers.kubectl(peers.DOCUMENTED_VERSIONS[-1]).parent), os.environ["PATH"]])
    with Reader(checkout, processes.environment(PATH=path, HOME=str(tmp_path))) as reader:
        for each in blocks_of(page):
            reader.follow(each)
    assert {each.name for each in checkout.iterdir()} == {".venv"}
