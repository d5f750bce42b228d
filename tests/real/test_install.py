"""What ``kubevouch manifests`` prints, ``install`` applies and ``uninstall`` takes away, on a real kube-apiserver.

No pod runs here: there are no nodes. The programs of the pods run beside the cluster, with the accounts of the pods.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

import processes
from fixed_ports import free_port
from kubevouch import wellknown
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.standalone.attached import manifests
from kubevouch.standalone.attached.manifest_parts import Settings
from processes import KUBEVOUCH, Ended, environment
from real_cluster import RealCluster

NAMESPACE = manifests.NAMESPACE
SIGNER = wellknown.KUBELET_SERVING_SIGNER
# They come and go by themselves.
_FLEETING = {"events", "events.events.k8s.io", "leases.coordination.k8s.io", "endpoints", "pods", "componentstatuses"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("cluster")) as found:
        found.start_controller_manager(signs=False)
        settled(found)
        yield found


def settled(cluster: RealCluster) -> None:
    """Until kube-controller-manager has made in each namespace what it makes in each."""
    for namespace in wellknown.SYSTEM_NAMESPACES:
        for what in ("serviceaccount/default", f"configmap/{wellknown.ROOT_CA_CONFIGMAP}"):
            done = cluster.kubectl("-n", namespace, "wait", "--for=create", what, "--timeout=120s")
            assert done.code == 0, done.stderr


def everything(cluster: RealCluster) -> set[tuple[str, str, str, str]]:
    """All objects of all kinds: kind, namespace, name and uid."""
    kinds = cluster.kubectl("api-resources", "--verbs=list", "-o", "name").stdout.split()
    listed = cluster.kubectl("get", ",".join(sorted({*kinds} - _FLEETING)), "--all-namespaces", "-o", "json")
    assert listed.code == 0, listed.stderr
    found = set()
    for each in json.loads(listed.stdout)["items"]:
        meta = each["metadata"]
        # Each of its controllers makes an account when it begins.
        if (each["kind"], meta.get("namespace")) != ("ServiceAccount", "kube-system"):
            found.add((each["kind"], meta.get("namespace", ""), meta["name"], meta.get("uid", "")))
    return found


def taken_out(cluster: RealCluster, *flags: str) -> Ended:
    done = cluster.kubevouch("uninstall", "--yes", *flags)
    assert done.code == 0, done.stderr
    return done


def test_it_is_shown_applied_left_alone_and_taken_out(cluster: RealCluster) -> None:
    before = everything(cluster)
    shown = cluster.kubevouch("install", "--dry-run")
    assert (shown.code, shown.stderr) == (0, "")
    assert "+ create     Deployment kubevouch-system/kubevouch-controllers" in shown.stdout
    assert everything(cluster) == before
    asked = cluster.kubevouch("install")
    assert asked.code == 3
    assert "error: got no terminal on which to ask, expected --yes or --dry-run" in asked.stderr
    assert everything(cluster) == before

    done = cluster.kubevouch("install", "--yes")
    # No pod runs here, and that is no success.
    assert (done.code, done.stderr.splitlines()[0]) == (
        1, "error: it is applied, and no pod can run: this cluster has no nodes",
    )  # fmt: skip
    assert "✓ Deployment kubevouch-system/kubevouch-controllers" in done.stdout
    again = cluster.kubevouch("install", "--yes", "--no-wait")
    assert (again.code, again.stderr) == (0, "")
    assert "nothing to change" in again.stdout
    assert "create" not in again.stdout

    removed = taken_out(cluster)
    assert "keep" not in removed.stdout
    assert everything(cluster) == before
    assert "nothing of kubevouch is here" in taken_out(cluster).stdout


def test_what_is_printed_is_what_is_installed(cluster: RealCluster) -> None:
    flags = ("--signers", f"{SIGNER},example.com/plain", "--namespace", "certificates", "--approve", "example.org/*")
    printed = cluster.kubevouch("manifests", *flags, "--api-server-port", str(cluster.port))
    names = {(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(printed.stdout)}
    assert cluster.kubevouch("install", "--yes", "--no-wait", *flags).code == 1  # the CA's Secret is not there
    tree = json.loads(cluster.kubevouch("install", "--dry-run", "-o", "json", *flags).stdout)
    assert {each["action"] for each in tree["objects"]} == {"unchanged"}
    assert {(each["kind"], each["name"]) for each in tree["objects"]} == names
    taken_out(cluster, "--namespace", "certificates")


def test_pods_pass_the_restricted_profile_and_the_agents_do_not(cluster: RealCluster) -> None:
    assert cluster.kubevouch("install", "all", "agent", "--yes", "--no-wait", "--signers", SIGNER).code == 1
    printed = cluster.kubevouch("manifests", "all", "agent", "--signers", SIGNER).stdout
    agent_profile = ""
    for tree in yaml.safe_load_all(printed):
        if tree["kind"] in ("Deployment", "DaemonSet"):
            own = tree["metadata"]["namespace"]
            assert (made := _pod(cluster, tree, own)).code == 0, made.stderr
            assert not made.stderr
            if tree["kind"] == "DaemonSet":
                agent_profile = _pod(cluster, tree, NAMESPACE).stderr
    assert 'violates PodSecurity "restricted:latest"' in agent_profile
    taken_out(cluster)


def _pod(cluster: RealCluster, workload: dict[str, Any], namespace: str) -> Ended:
    """One pod as the template has it, tried there."""
    template = workload["spec"]["template"]
    spec = {**template["spec"]}
    if namespace != workload["metadata"]["namespace"]:
        spec.pop("serviceAccountName")
    pod = {
        "apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {"name": "tried", "namespace": namespace, "labels": template["metadata"]["labels"]},
    }  # fmt: skip
    cluster.kubectl("-n", namespace, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    return cluster.kubectl("create", "--dry-run=server", "-f", "-", given=json.dumps(pod))


def test_fields_of_others_are_told_and_not_taken_over(cluster: RealCluster) -> None:
    assert cluster.kubevouch("install", "--yes", "--no-wait").code == 0
    image = ("-n", NAMESPACE, "set", "image", "deployment/kubevouch-controllers", "kubevouch=example.com/own:1")
    assert cluster.kubectl(*image).code == 0
    refused = cluster.kubevouch("install", "--yes", "--no-wait")
    assert refused.code == 2
    assert "✗ conflict   Deployment kubevouch-system/kubevouch-controllers" in refused.stdout
    assert 'conflict with "kubectl-set"' in refused.stderr
    assert cluster.kubevouch("install", "--yes", "--no-wait", "--image", "example.com/own:1").code == 0
    forced = cluster.kubevouch("install", "--yes", "--no-wait", "--force-conflicts")
    assert forced.code == 0, forced.stderr
    assert "~ change     Deployment kubevouch-system/kubevouch-controllers" in forced.stdout
    taken_out(cluster)


def test_what_a_former_version_had_goes_and_what_people_have_stays(cluster: RealCluster) -> None:
    before = everything(cluster)
    assert cluster.kubevouch("install", "--yes", "--no-wait", "--signers", "example.com/plain").code == 0
    less = cluster.kubevouch("install", "--yes", "--no-wait")
    assert less.code == 0, less.stderr
    assert "- remove     Deployment kubevouch-system/kubevouch-signer" in less.stdout
    assert "! keep       Namespace kubevouch-signers" in less.stdout
    people = (
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ca", "namespace": "kubevouch-signers"}},
        {
            "apiVersion": "kubevouch.io/v1alpha1", "kind": "AllowedMachine", "metadata": {"name": "worker-1"},
            "spec": {"nodeName": "worker-1"},
        },
        # The label alone makes nothing ours.
        {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "other", "namespace": "default",
                "labels": {"app.kubernetes.io/managed-by": "kubevouch", "app.kubernetes.io/part-of": "kubevouch"},
            },
        },
    )  # fmt: skip
    for each in people:
        done = cluster.kubectl("create", "-f", "-", given=json.dumps(each))
        assert done.code == 0, done.stderr
    removed = taken_out(cluster)
    assert re.search(r"! keep +CustomResourceDefinition allowedmachines.kubevouch.io\n +1 object of", removed.stdout)
    assert re.search(r"! keep +Namespace kubevouch-signers\n +it has Secret ca, which would go", removed.stdout)
    left = {each[:3] for each in everything(cluster) - before}
    assert {
        ("Namespace", "", "kubevouch-signers"), ("Secret", "kubevouch-signers", "ca"),
        ("CustomResourceDefinition", "", "allowedmachines.kubevouch.io"), ("AllowedMachine", "", "worker-1"),
        ("ConfigMap", "default", "other"),
    } <= left  # fmt: skip
    assert not {each for each in left if each[0] in ("ClusterRole", "ClusterRoleBinding", "Deployment")}
    taken_out(cluster, "--delete-data")
    assert {each[:3] for each in everything(cluster) - before} == {("ConfigMap", "default", "other")}
    assert cluster.kubectl("delete", "configmap", "other").code == 0


def test_an_account_may_approve_and_sign_what_was_listed_and_nothing_else(cluster: RealCluster) -> None:
    assert cluster.kubevouch("install", "--yes", "--no-wait", "--signers", "example.com/plain").code == 0
    approver, signer = "kubevouch-controllers", "kubevouch-signer"
    told = {
        (account, verb, name): _may(cluster, account, verb, name)
        for account in (approver, signer)
        for verb in ("approve", "sign", "attest")
        for name in (SIGNER, wellknown.KUBE_APISERVER_CLIENT_SIGNER, "example.com/plain", "example.com/other")
    }
    assert {what for what, allowed in told.items() if allowed} == {
        (approver, "approve", SIGNER), (approver, "approve", "example.com/plain"),
        (signer, "sign", "example.com/plain"), (signer, "attest", "example.com/plain"),
    }  # fmt: skip
    taken_out(cluster)


def _may(cluster: RealCluster, account: str, verb: str, signer: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{NAMESPACE}:{account}",
            "resourceAttributes": {
                "group": "certificates.k8s.io", "resource": "signers", "verb": verb, "name": signer, "version": "*",
            },
        },
    }  # fmt: skip
    done = cluster.kubectl("create", "-f", "-", "-o", "json", given=json.dumps(review))
    return bool(json.loads(done.stdout)["status"]["allowed"])


def test_the_programs_of_the_pods_work_with_what_is_installed_and_certificates_are_listed_at_the_end(
    cluster: RealCluster, tmp_path: Path
) -> None:
    before = everything(cluster)
    secret = ("-n", NAMESPACE, "create", "secret", "tls", manifests.SIGNING_SECRET)
    first = cluster.kubevouch("install", "--yes", "--no-wait", "--signers", SIGNER)
    assert first.code == 1
    assert f"the pods that sign wait for the Secret {NAMESPACE}/{manifests.SIGNING_SECRET}" in first.stderr
    assert cluster.kubectl(*secret, f"--cert={cluster.ca_certificate}", f"--key={cluster.ca_key}").code == 0
    assert cluster.kubevouch("install", "--yes", "--no-wait", "--signers", SIGNER).code == 0
    with ExitStack() as stack:
        for program in Settings(signers=(SIGNER,)).programs:
            stack.enter_context(_running(cluster, program, tmp_path))
        assert _serving_certificate(cluster, "worker-1").startswith("-----BEGIN CERTIFICATE-----")
    removed = taken_out(cluster, "--delete-data")
    assert re.search(rf"Z +{SIGNER} +system:node:worker-1$", removed.stdout, re.M)
    assert cluster.kubectl("delete", "node,csr", "--all").code == 0
    assert everything(cluster) == before


def _running(cluster: RealCluster, program: manifests.Program, folder: Path) -> subprocess.Popen[bytes]:
    """The command line of the pod, as its account; ended with the block."""
    token = cluster.kubectl("-n", NAMESPACE, "create", "token", program.name).stdout.strip()
    kubeconfig = cluster.write_kubeconfig(folder / f"{program.name}.conf", {"token": token})
    mounted = {
        "/etc/kubevouch/signing/tls.crt": cluster.ca_certificate,
        "/etc/kubevouch/signing/tls.key": cluster.ca_key,
    }
    arguments = [f"--secure-port={free_port()}" if each.startswith("--secure-port") else each
                 for each in manifests.arguments(program)]  # fmt: skip
    for path, there in mounted.items():
        arguments = [each.replace(path, str(there)) for each in arguments]
    with (folder / f"{program.name}.log").open("wb") as log:
        found = subprocess.Popen(
            [*KUBEVOUCH, *arguments, "--kubeconfig", kubeconfig], cwd=folder, env=environment(), stdout=log, stderr=log
        )
    return _Ending(found)  # type: ignore[return-value]  # entered for its end


class _Ending:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_error: object) -> None:
        self.process.terminate()
        assert self.process.wait(processes.PATIENCE_SECONDS) == 0


def _serving_certificate(cluster: RealCluster, node: str) -> str:
    """Ask as a kubelet does, and wait for the certificate."""
    there = {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": node},
    }  # fmt: skip
    assert cluster.kubectl("create", "-f", "-", given=json.dumps(there)).code == 0
    addresses = {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.11"}]}}
    patched = cluster.kubectl(
        "patch", "node", node, "--subresource=status", "--type=merge", "-p", json.dumps(addresses)
    )
    assert patched.code == 0, patched.stderr
    request = build_request(
        keys.generate(KeyAlgorithm.ECDSA_P256),
        Subject(common_name=f"system:node:{node}", organizations=("system:nodes",)),
        SubjectAltNames(ip_addresses=(ipaddress.ip_address("10.0.0.11"),)),
    )
    csr = {
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "serving-1"},
        "spec": {
            "request": base64.b64encode(request).decode(), "signerName": SIGNER,
            "usages": ["digital signature", "server auth"],
        },
    }  # fmt: skip
    kubelet = cluster.kubeconfig_of(f"system:node:{node}", "system:nodes")
    asked = cluster.kubectl("create", "-f", "-", given=json.dumps(csr), user=kubelet)
    assert asked.code == 0, asked.stderr
    waited = cluster.kubectl(
        "wait", "csr/serving-1", "--for=jsonpath={.status.certificate}", "--timeout=120s"
    )  # fmt: skip
    assert waited.code == 0, waited.stderr
    text = cluster.kubectl("get", "csr", "serving-1", "-o", "jsonpath={.status.certificate}").stdout
    return base64.b64decode(text).decode()


def test_an_older_version_gets_what_it_serves(tmp_path: Path) -> None:
    with RealCluster(tmp_path, flags=("--emulated-version=1.33",)) as cluster:
        cluster.start_controller_manager("--emulated-version=1.33", signs=False)
        settled(cluster)
        before = everything(cluster)
        done = cluster.kubevouch("install", "--yes", "--no-wait", "-o", "json")
        assert done.code == 0, done.stderr
        tree = json.loads(done.stdout)
        assert tree["version"].endswith(", as 1.33")
        assert "MutatingAdmissionPolicy" not in {each["kind"] for each in tree["objects"]}
        assert {each["action"] for each in tree["objects"]} == {"create"}
        printed = cluster.kubevouch(
            "manifests", "--kube-version", "1.33", "--api-server-port", str(cluster.port)
        ).stdout
        names = {(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(printed)}
        assert {(each["kind"], each["name"]) for each in tree["objects"]} == names
        assert "nothing to change" in cluster.kubevouch("install", "--yes", "--no-wait").stdout
        taken_out(cluster)
        assert everything(cluster) == before
