"""docs/howto/tokens.md: what it says of keys, as typed, and its figures."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import peers
from kubevouch.records.token_strength import FLOOR_BITS
from processes import Up, environment

PAGE = (peers.ROOT / "docs" / "howto" / "tokens.md").read_text()


def typed(beginning: str) -> str:
    """The one line of the page that is typed and begins so."""
    (line,) = (each.strip() for each in PAGE.splitlines() if each.startswith(f"    {beginning}"))
    return line


def test_a_machine_joins_with_a_key_that_was_made_beforehand(tmp_path: Path) -> None:
    def run(line: str) -> str:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        variables = environment(PATH=path, KUBECONFIG="cluster/admin.conf")
        return subprocess.run(
            ["bash", "-ec", line], cwd=tmp_path, env=variables, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    with Up(tmp_path) as up:
        _, _, _, pin = up.printed_join
        run(typed("(umask 077; openssl ecparam"))
        # What is printed is what the next line takes: one word, without the dash that sha256sum prints behind it.
        printed = run(typed("openssl pkey"))
        assert re.fullmatch(r"sha256:[0-9a-f]{64}\n", printed)
        run(typed("(umask 077; kubevouch token create --key").replace("sha256:…", printed.strip()))
        assert (tmp_path / "join.token").stat().st_mode & 0o777 == 0o600
        join = typed("kubevouch join 192.0.2.10:6443 --key-file").replace("192.0.2.10:6443", f"127.0.0.1:{up.port}")
        joined = run(f"{join.replace('sha256:…', pin)} --node-name worker-1 --rootfs ./worker-1")
        assert "this machine has joined as system:node:worker-1" in joined


def test_the_figures_of_secrets() -> None:
    random = 16 * math.log2(36)
    assert "5.17 bits" in PAGE and f"{random / 16:.2f}" == "5.17"
    assert "are worth 82.7" in PAGE and f"{random:.1f}" == "82.7"
    assert f"less than {FLOOR_BITS:g} bits" in PAGE
