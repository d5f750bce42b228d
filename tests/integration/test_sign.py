"""`kubevouch sign` as a process: machines join a cluster whose server has no CA key, also once it was killed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from processes import KUBEVOUCH, PATIENCE_SECONDS, Up, environment


@contextmanager
def signing(folder: Path) -> Iterator[list[str]]:
    """The process, once it listens; killed at the end. Gives the lines of its log, then."""
    flags = {
        "--socket": "sign.sock", "--ledger": "cluster/ledger.db", "--state": "seen.json",
        "--cluster-signing-cert-file": "cluster/pki/ca.crt", "--cluster-signing-key-file": "ca.key",
    }  # fmt: skip
    process = subprocess.Popen(
        [*KUBEVOUCH, "sign", *(word for flag in flags.items() for word in flag)],
        cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip().startswith("signs for"):
                break
        yield lines
    finally:
        process.kill()
        lines += process.communicate(timeout=PATIENCE_SECONDS)[1].splitlines()


def test_machines_join_a_server_without_the_key(tmp_path: Path) -> None:
    with Up(tmp_path) as first:
        assert first.end() == 0
    shutil.move(tmp_path / "cluster/pki/ca.key", tmp_path / "ca.key")
    with Up(tmp_path, ("--signing-socket", "sign.sock")) as up:
        with signing(tmp_path) as lines:
            joined = up.join()
            assert joined.code == 0, joined.stderr
        assert [line for line in lines if "certificate signed" in line and 'subject="system:node:worker-1"' in line]
        # Killed, with its socket and lock left behind.
        with signing(tmp_path) as lines:
            joined = up.join(name="worker-2")
            assert joined.code == 0, joined.stderr
        assert not [line for line in lines if "seen for the first time" in line]
        assert up.end() == 0
