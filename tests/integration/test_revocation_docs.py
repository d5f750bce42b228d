"""docs/howto/revocation.md, "CRLs and OCSP", as typed; what curl does, which need not be here, is done beside it."""

from __future__ import annotations

import os
import re
import shlex
import ssl
import subprocess
import urllib.request
from pathlib import Path

import peers
from processes import Up, environment, kubevouch

PAGE = (peers.ROOT / "docs" / "howto" / "revocation.md").read_text()
LINES = re.findall(r"^    ((?:HOST=|ID=|curl |openssl ).*)$", PAGE, re.M)


def typed(folder: Path) -> subprocess.CompletedProcess[str]:
    """All lines in one shell, which goes on after one that fails."""
    path = os.pathsep.join([str(Path(peers.kubectl("1.20")).parent), os.environ["PATH"]])
    variables = environment(PATH=path, KUBECONFIG="cluster/admin.conf", HOME=str(folder))

    def shell(lines: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", "\n".join(lines)], cwd=folder, env=variables, capture_output=True, text=True, check=False
        )

    names = LINES[:2]
    assert [each.partition("=")[0] for each in names] == ["HOST", "ID"]
    fetched = [each for each in LINES if each.startswith("curl ")]
    words = shell([*names, *(f'echo "{each}"' for each in fetched)]).stdout.splitlines()
    assert len(words) == 2
    for each in words:
        program, flags, option, ca, into, file, url = shlex.split(each)
        assert (program, flags, option, into) == ("curl", "-fsS", "--cacert", "-o")
        with urllib.request.urlopen(url, context=ssl.create_default_context(cafile=str(folder / ca))) as answer:
            (folder / file).write_bytes(answer.read())
    return shell([each for each in LINES if not each.startswith("curl ")])


def test_lists_and_answers_before_and_after(tmp_path: Path) -> None:
    with Up(tmp_path) as up:
        assert up.join().code == 0
        (pem,) = tmp_path.rglob("kubelet-client-current.pem")
        (tmp_path / "worker-1.pem").write_bytes(pem.read_bytes())
        before = typed(tmp_path)
        assert "worker-1.pem: OK\n" in before.stdout and "worker-1.pem: good\n" in before.stdout, before
        arguments = ("revoke", "--node", "worker-1", "--yes", "--data-dir", "cluster")
        assert kubevouch(*arguments, cwd=tmp_path, KUBECONFIG="cluster/admin.conf").code == 0
        after = typed(tmp_path)
        assert "Revoked Certificates:" in after.stdout and "certificate revoked\n" in after.stderr, after
        assert "worker-1.pem: revoked\n" in after.stdout and after.stderr.endswith("Response verify OK\n")
