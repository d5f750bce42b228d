"""Completion, by a real bash and by what zsh and fish ask."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import processes
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.core_v1 import Node
from kubevouch.cli.completion import SHELLS
from kubevouch.cli.kubectl_plugin import completions
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.testing import Cluster

PROGRAM = """#!/bin/sh
exec {python} -m kubevouch.cli.main "$@"
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with kubevouch on it."""
    program = tmp_path / "kubevouch"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    return f"{tmp_path}:{processes.environment()['PATH']}"


def test_bash_completes(tmp_path: Path, path: str) -> None:
    script = """
source <(kubevouch completion bash)
complete_words() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _kubevouch_completion kubevouch; echo "${COMPREPLY[@]}"
}
complete_words kubevouch doc
complete_words kubevouch token sh
complete_words kubevouch csr list --pen
"""
    ended = processes.run("bash", "-c", script, cwd=tmp_path, PATH=path)
    assert (ended.stdout, ended.stderr) == ("doctor\nshow\n--pending\n", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_its_own(shell: str, tmp_path: Path) -> None:
    ended = processes.kubevouch("completion", shell, cwd=tmp_path)
    assert ended.code == 0
    assert f"_KUBEVOUCH_COMPLETE={shell}_complete" in ended.stdout


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_what_zsh_and_fish_are_answered(shell: str, tmp_path: Path) -> None:
    words = {"COMP_WORDS": "kubevouch tok", "COMP_CWORD": "1" if shell == "zsh" else "tok"}
    ended = processes.kubevouch(cwd=tmp_path, _KUBEVOUCH_COMPLETE=f"{shell}_complete", **words)
    assert ended.code == 0
    assert "token" in ended.stdout


def test_another_shell_is_refused(tmp_path: Path) -> None:
    ended = processes.kubevouch("completion", "tcsh", cwd=tmp_path)
    assert ended.code == 3
    assert ended.stderr.startswith("error: invalid value for 'SHELL': ")


def test_what_kubectl_is_answered() -> None:
    assert completions(["csr", "l"]).splitlines()[0].startswith("list\t")
    assert completions(["csr", "list", "--pen"]).startswith("--pending\t")
    assert completions(["csr", "l"]).endswith("\n:4\n")
    # Files are kubectl's business.
    assert completions(["csr", "list", "--kubeconfig", "x"]).endswith(":0\n")
    assert "doctor\t" in completions([])


def _proposed(*words: str) -> list[str]:
    return [line.partition("\t")[0] for line in completions(list(words)).splitlines()[:-1]]


def test_names_that_are_known_here() -> None:
    assert _proposed("certs", "renew", "api") == ["apiserver", "apiserver-etcd-client", "apiserver-kubelet-client"]
    assert _proposed("init", "phase", "upload") == ["upload-config", "upload-certs"]
    assert _proposed("join", "") == ["phase", "status"]
    assert _proposed("join", "phase", "kubelet") == ["kubelet-start", "kubelet-wait-bootstrap"]
    assert _proposed("join", "phase", "preflight", "") == []


def test_names_of_the_cluster() -> None:
    with Cluster(https=True) as cluster:
        token = cluster.token()
        cluster.create(Node(metadata=ObjectMeta(name="worker-1")))
        spec = CertificateSigningRequestSpec(
            request=build_request(keys.generate(keys.KeyAlgorithm.ECDSA_P256), Subject(common_name="x")),
            signer_name="example.com/s",
            usages=["client auth"],
        )
        cluster.create(CertificateSigningRequest(metadata=ObjectMeta(name="csr-abc"), spec=spec))
        there = ("--kubeconfig", str(cluster.kubeconfig))
        assert _proposed("csr", "show", *there, "csr-") == ["csr-abc"]
        assert _proposed("csr", "approve", *there, "x") == []
        assert _proposed("token", "delete", *there, "") == [token.partition(".")[0]]
        assert _proposed("join", "status", *there, "w") == ["worker-1"]
    # Without a cluster there are none, and nobody is told.
    assert _proposed("csr", "show", "--kubeconfig", "/nowhere", "") == []
    assert _proposed("token", "show", *there, "") == []
