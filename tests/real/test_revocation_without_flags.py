"""Revocation on a kube-apiserver that nobody has given a flag: the admission policy of deploy/revocation."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import peers
from kubevouch.api.kubevouch_v1alpha1.revoked_writes import FOREVER
from kubevouch.pki.x509 import x509_certificate
from real_cluster import PATIENCE_SECONDS, RealCluster
from revoked_write_cases import CASES, REVOCATIONS, STATUS, Case

POLICY = peers.ROOT / "deploy" / "revocation" / "revoked-credentials.yaml"
DEFINITION = peers.ROOT / "deploy" / "crds" / "certificaterevocations.kubevouch.io.yaml"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("without-flags")) as found:
        # The policy first: while its parameters' kind is not there, it stands in nobody's way.
        for file in (POLICY, DEFINITION):
            applied = found.kubectl("apply", "-f", file)
            assert (applied.code, applied.stderr) == (0, "")
        for user in ("alice", "bob"):
            found.kubeconfig_of(user)
        assert found.kubectl("create", "serviceaccount", "runner").code == 0
        bound = found.kubectl(
            "create", "clusterrolebinding", "both", "--clusterrole=cluster-admin", "--user=alice", "--user=bob"
        )
        assert bound.code == 0, bound.stderr
        yield found


def fingerprint(cluster: RealCluster, name: str) -> str:
    return x509_certificate.parse_pem((cluster.folder / f"{name}.crt").read_bytes()).fingerprint().hex()


@pytest.fixture
def revoked(cluster: RealCluster) -> Iterator[Callable[..., None]]:
    made = []

    def revoke(name: str, *, listed: str = "", **targets: Any) -> None:
        spec = {"reason": "certificateHold", "message": "stolen on a train", "revoked": targets}
        tree = {"apiVersion": "kubevouch.io/v1alpha1", "kind": "CertificateRevocation", "metadata": {"name": name}}
        done = cluster.kubectl("apply", "-f", "-", given=json.dumps(tree | {"spec": spec}))
        assert done.code == 0, done.stderr
        made.append(name)
        if listed:
            patch = json.dumps({"status": {"certificates": [listed]}})
            told = cluster.kubectl("patch", "certrev", name, "--subresource=status", "--type=merge", f"--patch={patch}")
            assert told.code == 0, told.stderr

    yield revoke
    for name in made:
        cluster.kubectl("delete", "certrev", name, "--ignore-not-found")


def writes(cluster: RealCluster, user: Path) -> str:
    """What a server-side rehearsal of a write is answered; empty if it is admitted."""
    done = cluster.kubectl("create", "configmap", "x", "--dry-run=server", user=user)
    return "" if done.code == 0 else done.stderr


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        threading.Event().wait(0.2)


def test_who_shows_a_revoked_certificate_writes_nothing_until_it_is_lifted(
    cluster: RealCluster, revoked: Callable[..., None]
) -> None:
    alice, bob = cluster.kubeconfig_of("alice"), cluster.kubeconfig_of("bob")
    assert cluster.kubectl("create", "configmap", "hers", user=alice).code == 0
    revoked("stolen-laptop", certificates=[fingerprint(cluster, "alice")])
    until(lambda: bool(writes(cluster, alice)))
    for line in (
        "create configmap another", "delete configmap hers", "annotate configmap hers a=b", "create token runner",
        "get --raw /api/v1/namespaces/default/services/none/proxy/", "delete certrev stolen-laptop",
        "delete crd certificaterevocations.kubevouch.io", "create clusterrolebinding c --clusterrole=admin --user=eve",
    ):  # fmt: skip
        refused = cluster.kubectl(*line.split(), user=alice)
        assert refused.code == 1 and "by the CertificateRevocation stolen-laptop" in refused.stderr, refused
        assert "forbidden" in refused.stderr.lower()
        for secret in (fingerprint(cluster, "alice"), "train", "certificateHold"):
            assert secret not in refused.stderr
    # What the page says to be left open.
    assert cluster.kubectl("get", "configmap", "hers", user=alice).code == 0
    assert cluster.kubectl("auth", "whoami", user=alice).code == 0
    assert cluster.kubectl("create", "configmap", "y", "--as=bob", "--dry-run=server", user=alice).code == 0
    assert not writes(cluster, bob)
    # She is not locked in: who is revoked by mistake is let go by another administrator.
    assert cluster.kubectl("delete", "certrev", "stolen-laptop", user=bob).code == 0
    until(lambda: not writes(cluster, alice))


def test_what_the_controller_has_found_counts_as_what_is_named(
    cluster: RealCluster, revoked: Callable[..., None]
) -> None:
    alice = cluster.kubeconfig_of("alice")
    revoked("by-name", users=["alice"])
    assert not writes(cluster, alice)
    revoked("by-name", users=["alice"], listed=fingerprint(cluster, "alice"))
    until(lambda: "by the CertificateRevocation by-name" in writes(cluster, alice))
    assert not writes(cluster, cluster.kubeconfig_of("bob"))


def test_a_node_whose_name_is_revoked_for_ever_is_refused_with_any_certificate_and_token(
    cluster: RealCluster, revoked: Callable[..., None]
) -> None:
    for node in ("n1", "n2"):
        made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
        assert cluster.kubectl("apply", "-f", "-", given=json.dumps(made)).code == 0
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n1", "serviceAccountName": "runner", "containers": [{"name": "c", "image": "none"}]},
    }  # fmt: skip
    until(lambda: cluster.kubectl("apply", "-f", "-", given=json.dumps(pod)).code == 0)
    cluster.kubectl("create", "rolebinding", "runs", "--clusterrole=cluster-admin", "--serviceaccount=default:runner")
    tokens = {}
    for name, bound in (("bound", ("--bound-object-kind=Pod", "--bound-object-name=p")), ("free", ())):
        token = cluster.kubectl("create", "token", "runner", *bound).stdout.strip()
        tokens[name] = cluster.write_kubeconfig(cluster.folder / f"{name}.conf", {"token": token})
        assert not writes(cluster, tokens[name])
    users = {node: cluster.kubeconfig_of(f"system:node:{node}", "system:nodes") for node in ("n1", "n2")}

    def labels(node: str) -> str:
        done = cluster.kubectl("annotate", "node", node, "a=b", "--overwrite", "--dry-run=server", user=users[node])
        return "" if done.code == 0 else done.stderr

    revoked("until-now", nodes=["n1"])
    assert not labels("n1")
    revoked("for-ever", nodes=["n1"], issuedUntil=FOREVER)
    until(lambda: "by the CertificateRevocation for-ever" in labels("n1"))
    assert "by the CertificateRevocation for-ever" in writes(cluster, tokens["bound"])
    assert not writes(cluster, tokens["free"])
    assert not labels("n2")


def test_it_judges_as_our_own_server_does(cluster: RealCluster, revoked: Callable[..., None]) -> None:
    """An administrator of system:masters claims each credential: admission sees what is claimed."""

    def answer(case: Case) -> str:
        extra = [f"--as-user-extra={key}={value}" for key, values in case.extra.items() for value in values]
        done = cluster.kubectl(
            "create", "configmap", "x", "--dry-run=server", f"--as={case.user}", "--as-group=system:masters", *extra
        )
        assert done.code == 0 or "CertificateRevocation" in done.stderr, done
        return done.stderr.rpartition("by the CertificateRevocation ")[2].strip()

    for case in CASES:
        assert answer(case) == ""
    for name, targets in REVOCATIONS.items():
        revoked(name, listed="".join(STATUS.get(name, {}).get("certificates", ())), **targets)
    until(lambda: all(answer(case) == case.by for case in CASES if case.by))
    for case in CASES:
        assert (case.name, answer(case)) == (case.name, case.by)


def test_what_remains_is_done_by_the_commands_that_it_prints(cluster: RealCluster) -> None:
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hers"},
        "spec": {
            "nodeName": "n5", "serviceAccountName": "runner",
            "containers": [{"name": "c", "image": "none", "envFrom": [{"secretRef": {"name": "password"}}]}],
        },
    }  # fmt: skip
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n5"}}
    for made in (node, pod):
        assert cluster.kubectl("apply", "-f", "-", given=json.dumps(made)).code == 0
    for line in (
        "create secret generic password --from-literal=a=b", "create rolebinding alone --clusterrole=view --user=carol",
        "create clusterrolebinding shared --clusterrole=view --user=dave --user=carol",
    ):  # fmt: skip
        assert cluster.kubectl(*line.split()).code == 0
    told = cluster.kubevouch("revoke", "--user", "carol", "--node", "n5", "--dry-run", "-o", "json")
    steps = json.loads(told.stdout)["steps"]
    assert cluster.kubectl("get", "pod/hers", "node/n5", "rolebinding/alone").code == 0
    typed = [shlex.split(command) for step in steps for command in step["commands"]]
    assert ["kubectl", "-n", "default", "get", "secret/password"] in typed
    for program, *words in typed:
        if program == "kubectl":
            done = cluster.kubectl(*words)
            # The CA that each pod mounts is put into namespaces by kube-controller-manager, which does not run here.
            assert done.code == 0 or "service-ca.crt" in done.stderr, done
    for gone in ("pod/hers", "node/n5", "rolebinding/alone"):
        assert "NotFound" in cluster.kubectl("get", gone).stderr
    shared = json.loads(cluster.kubectl("get", "clusterrolebinding/shared", "-o", "json").stdout)
    assert [each["name"] for each in shared["subjects"]] == ["dave"]


def test_without_the_kind_nobody_is_refused(cluster: RealCluster, tmp_path: Path) -> None:
    """A policy that fails closed would then refuse everybody, and the definition's return, too."""
    with RealCluster(tmp_path) as other:
        assert other.kubectl("apply", "-f", POLICY).code == 0
        shown = other.kubectl("get", "validatingadmissionpolicy", "revoked-credentials.kubevouch.io", "-o", "json")
        assert json.loads(shown.stdout)["spec"]["failurePolicy"] == "Ignore"
        until(lambda: "failed to find resource referenced by paramKind" in other.log("kube-apiserver"))
        assert not writes(other, other.kubeconfig)
        assert other.kubectl("apply", "-f", DEFINITION).code == 0
