"""The exec plug-in as a program: what it prints, how it ends, and that it starts fast."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import aio
import processes
from joined_node import LIFETIME, USER, JoinedNode, join_node_aside
from kubevouch.agent import attestation_settings, node_kubeconfig
from kubevouch.agent.discovery import DiscoveredCluster
from kubevouch.api import catalog
from kubevouch.api.authentication_v1 import SelfSubjectReview
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.main import run
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.config.kubeconfig import EXEC_API_VERSIONS
from kubevouch.machinery.text.times import Time
from kubevouch.phases.kubeconfig import write
from kubevouch.records.bootstrap_tokens import parse_token
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import SystemClock
from kubevouch.util.files import write_new
from processes import Ended
from throwaway_ca import ThrowawayCA

# What a start without a renewal has no time for.
SLOW = {"aiohttp", "asyncio", "google.protobuf", "uvloop", "yaml"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JoinedNode]:
    with Cluster(https=True, controllers=("*",), real_time=True) as cluster:
        yield join_node_aside(cluster, tmp_path_factory.mktemp("node") / "root")


def aged(cluster: Cluster, root: Path) -> JoinedNode:
    """A node that joined when the cluster began; it is today in the cluster from now on."""
    node = join_node_aside(cluster, root, FakeClock(cluster.clock.now()))
    cluster.clock.set(SystemClock().now())
    return node


def credential(node: JoinedNode, *arguments: str, info: str = "") -> Ended:
    return processes.kubevouch(
        "credential",
        "--rootfs",
        node.root,
        "--timeout",
        "120",
        *arguments,
        cwd=node.root.parent,
        KUBERNETES_EXEC_INFO=info,
    )


def request(version: str = EXEC_API_VERSIONS[0], authority: bytes = b"") -> str:
    import base64

    cluster = {"server": "https://192.0.2.1:6443", "certificate-authority-data": base64.b64encode(authority).decode()}
    spec = {"interactive": False, **({"cluster": cluster} if authority else {})}
    return json.dumps({"kind": "ExecCredential", "apiVersion": version, "spec": spec})


@pytest.mark.parametrize("version", EXEC_API_VERSIONS)
def test_the_answer_and_nothing_else(node: JoinedNode, version: str) -> None:
    ended = credential(node, info=request(version, node.cluster.pki.ca_certificate))
    assert (ended.code, ended.stderr) == (0, "")
    answer = json.loads(ended.stdout)
    assert (answer["kind"], answer["apiVersion"]) == ("ExecCredential", version)
    assert answer["status"]["clientCertificateData"].encode() == node.leaf.pem()
    lasts = Time.parse(answer["status"]["expirationTimestamp"]).datetime() - SystemClock().now()
    assert dt.timedelta(minutes=59) < lasts <= dt.timedelta(hours=1)


def test_a_start_loads_nothing_slow(node: JoinedNode) -> None:
    program = (
        "import sys\nfrom kubevouch.cli.main import run\n"
        f"code = run(['credential', '--rootfs', {str(node.root)!r}])\n"
        f"print(sorted(set(sys.modules) & {SLOW!r}), code, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=processes.environment(), capture_output=True, text=True, check=True
    )
    assert done.stderr == "[] 0\n"
    assert json.loads(done.stdout)["kind"] == "ExecCredential"


def test_a_start_for_a_proof_that_was_given_loads_no_method(node: JoinedNode) -> None:
    settings = attestation_settings.parse(["x509pop"], ["certificate=a", "key=b"], [])
    assert settings is not None
    attestation_settings.note(node.current, settings, node.leaf)
    arguments = ["--provider", "x509pop", "--provider-setting", "certificate=a", "--provider-setting", "key=b"]
    program = (
        "import sys\nfrom kubevouch.cli.main import run\n"
        f"code = run(['credential', '--rootfs', {str(node.root)!r}, *{arguments!r}])\n"
        f"slow = [each for each in sys.modules if each in {SLOW!r} or 'attestation.' in each]\n"
        "print(slow, code, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=processes.environment(), capture_output=True, text=True, check=True
    )
    assert done.stderr == "[] 0\n"


def test_our_own_client_uses_it(node: JoinedNode) -> None:
    path = node.root / "exec.conf"
    path.write_text(exec_kubeconfig(node))
    path.chmod(0o600)

    async def who() -> str:
        async with client_from_kubeconfig(path, component="test") as client:
            review = await client.create(catalog.SELF_SUBJECT_REVIEWS, SelfSubjectReview())
            return review.status.user_info.username

    assert aio.run(who()) == USER


def exec_kubeconfig(node: JoinedNode) -> str:
    import base64

    tree = {
        "kind": "Config",
        "apiVersion": "v1",
        "current-context": "node",
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": node.cluster.url,
                    "certificate-authority-data": base64.b64encode(node.cluster.pki.ca_certificate).decode(),
                },
            }
        ],
        "contexts": [{"name": "node", "context": {"cluster": "c", "user": "n"}}],
        "users": [
            {
                "name": "n",
                "user": {
                    "exec": {
                        "apiVersion": EXEC_API_VERSIONS[0],
                        "command": sys.executable,
                        "args": [*processes.KUBEVOUCH[1:], "credential", "--rootfs", str(node.root)],
                        "interactiveMode": "Never",
                        "provideClusterInfo": True,
                    }
                },
            }
        ],
    }
    return json.dumps(tree)


# ------------------------------------------------------------------ what goes wrong


def test_a_version_that_nobody_knows(node: JoinedNode) -> None:
    ended = credential(node, info=request("client.authentication.k8s.io/v1alpha1"))
    assert (ended.code, ended.stdout) == (3, "")
    assert ended.stderr.startswith("error: got apiVersion 'client.authentication.k8s.io/v1alpha1', expected ")
    assert "\nhint: set apiVersion: client.authentication.k8s.io/v1 in the exec stanza" in ended.stderr


def test_another_cluster_is_told(node: JoinedNode) -> None:
    ended = credential(node, info=request(authority=ThrowawayCA().bundle))
    assert ended.code == 0
    assert ended.stderr.startswith(f"warning: the certificate of {USER} does not come from this cluster's CA: ")
    assert json.loads(ended.stdout)


def test_a_machine_that_never_joined(tmp_path: Path) -> None:
    ended = processes.kubevouch("credential", "--rootfs", "./none", cwd=tmp_path)
    assert (ended.code, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error: there is no certificate in none/var/lib/kubelet/pki\nhint: let the machine ")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--provider", "nonsense"], "nonsense"),
        (["--provider", "x509pop"], "x509pop: "),
        (["--provider", "x509pop", "--provider-setting", "certificate=/no", "--provider-setting", "key=/no"], "/no"),
        (["--node-name", "a_b"], "the node name 'a_b' cannot be used"),
    ],
)
def test_what_cannot_be_meant_is_said_with_the_code_for_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], flags: list[str], why: str
) -> None:
    """As join and agent do, before anything is asked."""
    proven = DiscoveredCluster("https://127.0.0.1:1", ThrowawayCA().bundle)
    write(tmp_path / "bootstrap.conf", node_kubeconfig.for_token(proven, parse_token("abcdef.0123456789abcdef")))
    files = ["--rootfs", str(tmp_path), "--bootstrap-kubeconfig", str(tmp_path / "bootstrap.conf")]
    assert run(["credential", *files, "--node-name", "n", *flags]) == ExitCode.INVALID
    said = capfd.readouterr()
    assert said.out == "" and said.err.startswith("error: ") and why in said.err


def test_files_that_are_no_pair(node: JoinedNode, tmp_path: Path) -> None:
    write_new(tmp_path / "kubelet-client-current.pem", b"")
    ended = credential(node, "--cert-dir", str(tmp_path))
    assert (ended.code, ended.stdout) == (1, "")
    assert "holds no pair of certificate and key" in ended.stderr


def test_renewed_when_it_is_time(tmp_path: Path) -> None:
    with Cluster(https=True, controllers=("*",), now=SystemClock().now() - LIFETIME * 0.9) as cluster:
        node = aged(cluster, tmp_path / "root")
        before = node.leaf
        ended = credential(node)
        assert (ended.code, ended.stderr) == (0, "")
        assert node.leaf.not_after > before.not_after
        assert json.loads(ended.stdout)["status"]["clientCertificateData"].encode() == node.leaf.pem()


def test_kept_when_the_server_is_gone_and_refused_after_its_end(tmp_path: Path) -> None:
    with Cluster(https=True, controllers=("*",), now=SystemClock().now() - LIFETIME * 0.9) as cluster:
        node = aged(cluster, tmp_path / "late")
    ended = credential(node)
    assert ended.code == 0
    assert ended.stderr.startswith("warning: the certificate was not renewed, and is used until ")
    answer = json.loads(ended.stdout)
    lasts = Time.parse(answer["status"]["expirationTimestamp"]).datetime() - SystemClock().now()
    assert lasts <= dt.timedelta(minutes=5)
    with Cluster(https=True, controllers=("*",), now=SystemClock().now() - LIFETIME * 1.1) as cluster:
        expired = aged(cluster, tmp_path / "expired")
        ended = credential(expired)
        assert (ended.code, ended.stdout) == (1, "")
        assert ended.stderr.startswith(f"error: the certificate of {USER} has ended at ")
        assert "\nhint: let the machine join again: kubevouch join " in ended.stderr
