"""What is said of a revocation on a kube-apiserver, beside what a request with the certificate is answered."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import peers
import processes
from fixed_ports import free_port
from kubevouch.cli.exit_codes import ExitCode
from real_cluster import PATIENCE_SECONDS, RealCluster

NODE = "system:node:worker-1"
KINDS = ("crd/certificaterevocations.kubevouch.io", "--for=condition=Established", "--timeout=200s")
PAGE = (peers.ROOT / "docs" / "howto" / "revocation.md").read_text()


def typed(begin: str) -> list[str]:
    """The words of the page's one command that begins so, without the name of the program."""
    (line,) = re.findall(rf"^    kubevouch ({re.escape(begin)} --(?!deny-list).*)$", PAGE, re.M)
    return shlex.split(line)


def answered(cluster: RealCluster, user: Path) -> processes.Ended:
    return cluster.kubectl("auth", "whoami", "-o", "json", user=user)


def condition(cluster: RealCluster, name: str) -> dict[str, Any]:
    found = cluster.kubectl("get", "certrev", name, "-o", "json")
    assert found.code == 0, found
    conditions = json.loads(found.stdout).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "InForce"), {})


def until(holds: Callable[[], bool], told: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, told()
        threading.Event().wait(0.2)


@contextmanager
def running(cluster: RealCluster, name: str, *arguments: str | Path, user: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command of ours that goes on; its log is NAME.log in the cluster's folder."""
    with (cluster.folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            [*processes.KUBEVOUCH, *map(str, arguments)], cwd=cluster.folder, stdout=log, stderr=log,
            env=processes.environment(KUBECONFIG=str(user)),
        )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def controllers(cluster: RealCluster) -> Iterator[None]:
    """With the account and the rights of deploy/, which comes with a token."""
    assert cluster.kubectl("apply", "-f", peers.ROOT / "deploy/controllers/access.yaml").code == 0
    token = cluster.kubectl("-n", "kubevouch-system", "create", "token", "kubevouch-controllers").stdout.strip()
    account = cluster.write_kubeconfig(cluster.folder / "account.conf", {"token": token})
    flags = ("--controllers=certificaterevocations", "--leader-elect=false", "--bind-address=127.0.0.1",
             f"--secure-port={free_port()}", "--plain-http")  # fmt: skip
    with running(cluster, "controllers", "controllers", *flags, user=account):
        yield


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    with RealCluster(tmp_path) as found:
        assert found.kubectl("apply", "-f", peers.ROOT / "deploy/crds").code == 0
        assert found.kubectl("wait", *KINDS).code == 0
        yield found


def known(cluster: RealCluster) -> None:
    """Wait until the API server takes the kind: its admission policies learn of it late, at each start."""
    tree = {
        "apiVersion": "kubevouch.io/v1alpha1", "kind": "CertificateRevocation", "metadata": {"name": "probe"},
        "spec": {"reason": "unspecified", "revoked": {"users": ["nobody"]}},
    }  # fmt: skip

    def tried() -> processes.Ended:
        return cluster.kubectl("create", "--dry-run=server", "-f", "-", given=json.dumps(tree))

    until(lambda: tried().code == 0, tried)


def test_where_nothing_enforces_it_is_said_so(cluster: RealCluster) -> None:
    known(cluster)
    thief = cluster.kubeconfig_of(NODE, "system:nodes")
    done = cluster.kubevouch("revoke", "--node", "worker-1", "--yes", "--name", "stolen")
    # No certificate of the node is known either, which is said by the exit code before the other.
    assert done.code == ExitCode.NOTHING_FOUND, done
    assert "✓ revoked" not in done.stdout and "nothing refuses them" in done.stdout
    assert "reads and writes with them are answered" in done.stdout
    assert answered(cluster, thief).code == 0
    shown = json.loads(cluster.kubevouch("revoke", "show", "stolen", "-o", "json").stdout)
    assert (shown["inForce"]["status"], shown["inForce"]["reason"]) == ("False", "NothingEnforces")
    with controllers(cluster):
        until(lambda: condition(cluster, "stolen").get("status") == "False", lambda: cluster.log("controllers"))
        assert condition(cluster, "stolen")["reason"] == "NothingEnforces"
        columns = cluster.kubectl("get", "certrev", "stolen").stdout
        assert "INFORCE   ENFORCEMENT" in columns and "False     NothingEnforces" in columns
        # With controllers, too, and for a certificate that is named by the link that kubelets have.
        (cluster.folder / "dated.pem").write_bytes((cluster.folder / "system_node_worker-1.crt").read_bytes())
        link = cluster.folder / "kubelet-client-current.pem"
        link.symlink_to("dated.pem")
        again = cluster.kubevouch("revoke", "--certificate", link, "--yes", "--name", "again", "-o", "json")
        assert again.code == ExitCode.NOT_ENFORCED, again
        assert json.loads(again.stdout)["inForce"][0]["status"] == condition(cluster, "again")["status"] == "False"
    assert answered(cluster, thief).code == 0


def test_with_the_webhook_it_is_in_force_as_long_as_that_answers(cluster: RealCluster) -> None:
    known(cluster)
    folder, port = cluster.folder, free_port()
    thief, other = (cluster.kubeconfig_of(f"system:node:worker-{number}", "system:nodes") for number in (1, 2))
    for name in ("webhook", "apiserver"):
        cluster._pair(name, name, ())
    webhook = (*typed("revoke webhook"), "--port", str(port))
    address = ("--server", f"https://127.0.0.1:{port}/authorize")
    into = [str(folder) if each.startswith("/etc/") else each for each in typed("revoke webhook-config")]
    with running(cluster, "webhook", *webhook, user=cluster.kubeconfig):
        until(lambda: cluster.kubevouch(*into, *address).code == 0, lambda: cluster.log("webhook"))
    cluster.stop("kube-apiserver")
    cluster.start_api_server(f"--authorization-config={folder / 'authorization-config.yaml'}")
    known(cluster)
    # Started before, the controllers would still be waiting to try again.
    with running(cluster, "webhook", *webhook, user=cluster.kubeconfig) as answering, controllers(cluster):
        until(lambda: answered(cluster, thief).code == 0, lambda: cluster.log("webhook"))
        done = cluster.kubevouch("revoke", "--node", "worker-1", "--yes", "--name", "stolen")
        assert done.code == ExitCode.NOTHING_FOUND, done
        assert "✓ revoked   stolen" in done.stdout and "InForce=True" in done.stdout, done.stdout
        refused = cluster.kubectl("get", "nodes", user=thief)
        assert refused.code == 1 and "client certificate is revoked: stolen" in refused.stderr
        assert answered(cluster, thief).code == 1 and answered(cluster, other).code == 0
        found = condition(cluster, "stolen")
        assert (found["status"], found["reason"], found["observedGeneration"]) == ("True", "Refused", 1)
        # Nobody but the command knows these certificates. No authorizer is asked about the second.
        cluster.kubeconfig_of("alice")
        by_file = cluster.kubevouch("revoke", "--certificate", folder / "alice.crt", "--yes", "--name", "by-file")
        assert by_file.code == 0 and condition(cluster, "by-file")["reason"] == "HolderUnknown", by_file
        masters = cluster.kubevouch(
            "revoke", "--certificate", folder / "admin.crt", "--yes", "--name", "masters", "--even-myself",
            "--even-the-last-admin",
        )  # fmt: skip
        assert masters.code == ExitCode.NOT_ENFORCED and "no authorizer is asked" in masters.stdout, masters
        assert condition(cluster, "masters")["reason"] == "HolderUnknown"
        assert answered(cluster, cluster.kubeconfig).code == 0

        answering.kill()
        answering.wait()
        # Everybody with a certificate is denied now: nothing is shown by that.
        until(lambda: condition(cluster, "stolen")["status"] == "Unknown", lambda: condition(cluster, "stolen"))
        assert condition(cluster, "stolen")["reason"] == "RefusesEverybody"
        assert answered(cluster, other).code == 1
        assert cluster.kubevouch(*into, *address, "--failure-policy", "NoOpinion", "--skip-check").code == 0
        until(lambda: condition(cluster, "stolen")["status"] == "False", lambda: condition(cluster, "stolen"))
        assert condition(cluster, "stolen")["reason"] == "NothingEnforces"
        assert answered(cluster, thief).code == 0


def test_a_deny_list_is_seen_and_every_command_says_the_same(cluster: RealCluster) -> None:
    known(cluster)
    thief = cluster.kubeconfig_of("alice", "developers")
    done = cluster.kubevouch("revoke", "--certificate", cluster.folder / "alice.crt", "--yes", "--name", "stolen")
    assert done.code == ExitCode.NOT_ENFORCED and answered(cluster, thief).code == 0, done
    removed = cluster.kubevouch("node", "remove", "worker-7", "--yes")
    assert removed.code == ExitCode.NOT_ENFORCED and "nothing refuses them" in removed.stdout, removed
    assert "✓ certificates" not in removed.stdout
    doctor = json.loads(cluster.kubevouch("doctor", "cluster", "-o", "json").stdout)
    causes = [each["cause"] for each in doctor["findings"] if each["code"] == "revocation-not-enforced"]
    assert len(causes) == 2 and any("stolen" in each for each in causes), doctor
    status = cluster.kubevouch("status")
    assert status.code == ExitCode.PREFLIGHT and "revocation-not-enforced" in status.stdout, status

    written = cluster.kubevouch("revoke", "webhook-config", "--deny-list", "--into", cluster.folder)
    # The list has alice's certificate; of the removed node's none is known.
    assert written.code == ExitCode.NOTHING_FOUND and "refuses 1 certificate" in written.stdout, written
    assert "stolen" not in written.stderr, written
    cluster.stop("kube-apiserver")
    cluster.start_api_server(f"--authorization-config={cluster.folder / 'authorization-config.yaml'}")
    known(cluster)
    until(lambda: cluster.kubevouch("revoke", "show", "stolen").code == 0, lambda: cluster.log("kube-apiserver"))
    # The command has no file here, and the group of the certificate is not known.
    shown = json.loads(cluster.kubevouch("revoke", "show", "stolen", "-o", "json").stdout)
    assert shown["inForce"]["reason"] == "HolderUnknown" and "was seen to deny" in shown["inForce"]["message"]
    assert answered(cluster, thief).code == 1
    again = cluster.kubevouch("revoke", "--certificate", cluster.folder / "alice.crt", "--yes", "--name", "again")
    assert again.code == 0 and "✓ revoked   again" in again.stdout, again
