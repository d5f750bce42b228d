"""docs/howto/attached.md, as typed, and the manifests with real kubectl."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

import peers
from kubevouch.authorization.controller_policy import kubevouch_controller_policy
from kubevouch.wellknown import KUBE_SYSTEM_NAMESPACE, TOKEN_USES_CONTROLLER
from processes import PATIENCE_SECONDS, Up, environment

PAGE = (peers.ROOT / "docs" / "howto" / "attached.md").read_text()


def typed(beginning: str) -> str:
    """The one line of the page that is typed and begins so."""
    (line,) = (each.strip() for each in PAGE.splitlines() if each.startswith(f"    {beginning}"))
    return line


def _variables(folder: Path) -> dict[str, str]:
    programs = (str(Path(sys.executable).parent), str(Path(peers.kubectl("1.37")).parent), os.environ["PATH"])
    return environment(PATH=os.pathsep.join(programs), KUBECONFIG=str(folder / "cluster" / "admin.conf"))


def _run(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-ec", line], cwd=folder, env=_variables(folder), capture_output=True, text=True, check=False,
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip


def test_a_cluster_is_looked_at_given_its_accounts_and_worked_for(tmp_path: Path) -> None:
    (tmp_path / "deploy").symlink_to(peers.ROOT / "deploy")
    with Up(tmp_path, ("--controllers=",)) as up:
        for name, file in (("admin.conf", "admin.conf"), ("ca.crt", "pki/ca.crt"), ("ca.key", "pki/ca.key")):
            (tmp_path / name).symlink_to(tmp_path / "cluster" / file)
        for beginning in (
            "kubevouch controllers check",
            "kubectl apply -f deploy/crds",
            "kubectl apply -f deploy/controllers/access.yaml",
        ):
            done = _run(tmp_path, typed(beginning))
            assert done.returncode == 0, (beginning, done.stdout, done.stderr)
        command = shlex.split(typed("kubevouch controllers --kubeconfig admin.conf --controllers="))
        command[0:1] = [sys.executable, "-m", "kubevouch.cli.main"]
        with subprocess.Popen(
            [*command, "--secure-port", "0"], cwd=tmp_path, env=_variables(tmp_path), stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL, text=True,
        ) as controllers:  # fmt: skip
            watchdog = threading.Timer(PATIENCE_SECONDS, controllers.kill)
            watchdog.start()
            try:
                assert controllers.stderr is not None
                for line in controllers.stderr:
                    if "controller started" in line and "bootstrap-signer" in line:
                        break
                # cluster-info is signed, the request approved and its certificate signed by what is attached.
                assert up.join_arguments
                joined = up.join()
                assert joined.code == 0, joined.stderr
            finally:
                controllers.send_signal(signal.SIGTERM)
                rest = controllers.stderr.read() if controllers.stderr is not None else ""
                watchdog.cancel()
            assert controllers.wait(PATIENCE_SECONDS) == 0
            assert "released lease" in rest


@pytest.mark.parametrize("version", ["1.20", "1.37"])
def test_the_kustomization_is_the_plain_file(version: str, tmp_path: Path) -> None:
    built = subprocess.run(
        [peers.kubectl(version), "kustomize", str(peers.ROOT / "deploy")], capture_output=True, text=True, check=True,
        env=environment(HOME=str(tmp_path)),
    ).stdout  # fmt: skip
    plain = (peers.ROOT / "deploy" / "kubevouch.yaml").read_text()
    heads = [sorted(line for line in text.splitlines() if line.startswith("kind: ")) for text in (built, plain)]
    assert heads[0] == heads[1]


def test_the_rights_that_the_page_grants_are_those_of_who_counts_uses() -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
    role, binding = yaml.safe_load_all(block)
    (rule,) = role["rules"]
    granted = (rule["apiGroups"], rule["resources"], sorted(rule["verbs"]))
    assert granted in [
        (each.api_groups, each.resources, sorted(each.verbs or ()))
        for own in kubevouch_controller_policy().roles
        if own.metadata.name.endswith(TOKEN_USES_CONTROLLER) and own.metadata.namespace == KUBE_SYSTEM_NAMESPACE
        for each in own.rules or ()
    ]
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == KUBE_SYSTEM_NAMESPACE
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
