"""docs/howto/cluster-api.md, as typed: two clusters, two kubeconfigs, real kubectl."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import peers
from cluster_api_world import CLUSTER, NAMESPACE, Objects, definitions
from kubevouch import wellknown
from kubevouch.api.catalog import CLUSTER_ROLE_BINDINGS, SECRETS
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.policy.approval_bindings import NAMES
from kubevouch.records import token_pools
from kubevouch.records.bootstrap_tokens import parse_token
from kubevouch.server.bootstrap import own_kinds
from kubevouch.testing.cluster import Cluster
from kubevouch.testing.waiting import wait_for, wait_for_deletion
from processes import PATIENCE_SECONDS, environment

PAGE = (peers.ROOT / "docs" / "howto" / "cluster-api.md").read_text()
CONFIGURATION = """apiVersion: kubevouch.io/v1alpha1
kind: AttestationConfiguration
attestors: [{provider: insecure}]
"""


def typed(beginning: str) -> str:
    """The one line of the page that is typed and begins so."""
    (line,) = (each.strip() for each in PAGE.splitlines() if each.startswith(f"    {beginning}"))
    return line


def _variables(folder: Path) -> dict[str, str]:
    programs = (str(Path(sys.executable).parent), str(Path(peers.kubectl("1.37")).parent), os.environ["PATH"])
    return environment(PATH=os.pathsep.join(programs), KUBECONFIG=str(folder / "workload.conf"), HOME=str(folder))


def _run(folder: Path, beginning: str) -> str:
    done = subprocess.run(
        ["bash", "-ec", typed(beginning)], cwd=folder, env=_variables(folder), capture_output=True, text=True,
        check=False, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, (beginning, done.stdout, done.stderr)
    return done.stdout


def _is_told(infrastructure: CustomObject) -> bool:
    return infrastructure.metadata.annotations.get(wellknown.CLIENT_SIGNER_ANNOTATION, "").endswith("-insecure")


def test_two_clusters_as_the_page_has_them(tmp_path: Path) -> None:
    there = definitions("v1beta1", "v1beta2")
    with Cluster(https=True, real_time=True) as workload, Cluster(https=True, real_time=True, crds=there) as management:
        workload.run(own_kinds.ensure(workload.client()))
        objects = Objects(management.client())
        management.run(objects.cluster())
        for name, target in (
            ("workload.conf", workload.kubeconfig), ("management.conf", management.kubeconfig),
            ("ca.crt", workload.folder / "pki" / "ca.crt"), ("ca.key", workload.folder / "pki" / "ca.key"),
            ("deploy", peers.ROOT / "deploy"),
        ):  # fmt: skip
            (tmp_path / name).symlink_to(target)
        (tmp_path / "attestation.yaml").write_text(CONFIGURATION)
        _run(tmp_path, "kubectl --kubeconfig management.conf apply")
        _run(tmp_path, "kubectl --kubeconfig workload.conf apply")
        command = shlex.split(typed("kubevouch controllers --kubeconfig"))
        command[0:1] = [sys.executable, "-m", "kubevouch.cli.main"]
        with subprocess.Popen(
            [*command, "--secure-port", "0"], cwd=tmp_path, env=_variables(tmp_path), stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        ) as controllers:  # fmt: skip
            watchdog = threading.Timer(PATIENCE_SECONDS, controllers.kill)
            watchdog.start()
            try:
                _run(tmp_path, "kubectl --kubeconfig management.conf annotate cluster")
                for name in NAMES.values():
                    workload.run(wait_for_deletion(workload.client(), CLUSTER_ROLE_BINDINGS, name))
                infrastructure = objects.resource("DockerCluster")
                management.run(wait_for(management.client(), infrastructure, CLUSTER, NAMESPACE, until=_is_told))
                _run(tmp_path, "kubectl --kubeconfig management.conf annotate --overwrite")
                for name in NAMES.values():
                    workload.run(wait_for(workload.client(), CLUSTER_ROLE_BINDINGS, name))
            finally:
                controllers.send_signal(signal.SIGTERM)
                code = controllers.wait(PATIENCE_SECONDS)
                watchdog.cancel()
            assert code == 0
        _run(tmp_path, "kubectl --kubeconfig management.conf -n default create role ")
        _run(tmp_path, "kubectl --kubeconfig management.conf -n default create rolebinding")
        token = parse_token(_run(tmp_path, "kubevouch token create").strip())
        _run(tmp_path, "kubevouch token keep abcdef --pool")
        assert token.secret_name in _run(tmp_path, "kubectl -n kube-system get secret -l")
        stored = workload.run(workload.client().get(SECRETS, token.secret_name, wellknown.KUBE_SYSTEM_NAMESPACE))
        assert token_pools.pool_of(stored) is not None
