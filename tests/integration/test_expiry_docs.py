"""docs/howto/expiry.md, tried with clocks that are years ahead."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import peers
from faketime import wrong_clock
from processes import Ended, Up, kubevouch, run

PAGE = (peers.ROOT / "docs" / "howto" / "expiry.md").read_text()
YEAR_LATER, AFTER_THE_CA = "+400d", "+4100d"
FOLDERS = ("--cert-dir", "cluster/pki", "--kubeconfig-dir", "cluster")


class Later:
    """A machine room, and everything in it goes by the same clock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = wrong_clock(folder, "+0").environment
        # An offset for the whole of a process: none of them has to look into a file for it.
        del self.clock["FAKETIME_TIMESTAMP_FILE"]
        self.variables: dict[str, str] = {}

    def at(self, offset: str) -> None:
        self.variables = {**self.clock, "FAKETIME": offset}

    def up(self) -> Up:
        return Up(self.folder, variables=self.variables)

    def kubevouch(self, *arguments: str) -> Ended:
        return kubevouch(*arguments, cwd=self.folder, KUBECONFIG="cluster/admin.conf", **self.variables)

    def join(self) -> Ended:
        printed = self.kubevouch("token", "create", "--print-join-command")
        assert printed.code == 0, printed
        _, *arguments = shlex.split(printed.stdout)
        return self.kubevouch(*arguments, "--node-name", "worker-1", "--rootfs", "worker-1")


# Seven starts of a server or a join, with every look at the clock going through libfaketime.
def test_what_the_page_says_of_each_certificate(tmp_path: Path) -> None:
    room = Later(tmp_path)
    with room.up() as up:
        assert room.join().code == 0
        up.end()

    room.at(YEAR_LATER)
    # A machine's client certificate.
    found = room.kubevouch("doctor", "node", "--rootfs", "worker-1", "--offline")
    assert "✗ certificate-expired" in found.stdout
    # The kubeconfigs, with no server to ask.
    assert "<invalid>" in room.kubevouch("certs", "check-expiration", *FOLDERS).stdout
    assert room.kubevouch("certs", "renew", "admin.conf", "super-admin.conf", *FOLDERS, "--skip-dial").code == 0
    # The API server's certificate: a start makes another.
    with room.up() as up:
        assert 'file="cluster/pki/apiserver.crt"' in up.stderr
        assert "<invalid>" not in room.kubevouch("certs", "check-expiration", *FOLDERS).stdout
        assert room.kubevouch("csr", "list").code == 0
        again = room.join()
        assert again.code == 0, again
        assert "is replaced: its client certificate has expired" in again.stderr
        assert room.kubevouch("doctor", "node", "--rootfs", "worker-1", "--offline").code == 0
        up.end()

    room.at(AFTER_THE_CA)
    refused = room.kubevouch("up", "--data-dir", "./cluster", "--secure-port", "0")
    assert refused.code != 0
    assert "cluster/pki/ca.crt has ended" in refused.stderr
    assert "the authority has ended" in room.kubevouch("certs", "renew", "all", *FOLDERS).stderr
    (aside,) = re.findall(r"^ +(mv pki .+)$", PAGE, re.MULTILINE)
    assert run("sh", "-ec", aside, cwd=tmp_path / "cluster").code == 0
    with room.up() as up:
        assert room.kubevouch("csr", "list").code == 0
        again = room.join()
        assert again.code == 0, again
        assert "ca.crt is replaced: it held another CA" in again.stderr
        assert room.kubevouch("doctor", "cluster").code == 0
        up.end()
