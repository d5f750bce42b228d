"""How a kubelet gets a pod's certificate, by the how-to: over HTTPS, with the official client, verified by openssl."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import msgspec
import pytest
import yaml
from cryptography.hazmat.primitives import serialization

from asynctest import async_test
from attached_world import attached, foreign, signing_of
from kubectl import kubectl_of
from kubevouch.api import pod_certificate_requests_v1 as v1
from kubevouch.api.catalog import (
    CLUSTER_TRUST_BUNDLES,
    NODES,
    POD_CERTIFICATE_REQUESTS,
    POD_CERTIFICATE_REQUESTS_V1,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from kubevouch.api.core_v1 import Node, ServiceAccount
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_SIGNERS
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.scheme import Resource
from kubevouch.pki import keys
from kubevouch.pki.authority import create_authority
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.testing import Cluster
from kubevouch.testing.waiting import wait_for
from kubevouch.util.clock import SystemClock
from kubevouch.wellknown import SIGNERS_NAMESPACE
from pod_requests import key_of, request, stub

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "pod-certificates.md"
SIGNER, POD = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL))
NAME = "example.com/pods"
BETA = "certificates.k8s.io/v1beta1=true"
CONTROLLERS = (
    "podcertificaterequestsigning", "podcertificaterequestcleaner", "certificatesigners", "csrsigning",
)  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=CONTROLLERS, runtime_config=BETA) as cluster:
        # kubevouch runs no pods, so that nobody can create one; this one is as a store may have it.
        cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web"}})
        cluster.run(_put_pod(cluster))
        cluster.apply(_secret(cluster.clock.now()))
        cluster.apply(SIGNER)
        cluster.settle()
        yield cluster


def _secret(now: dt.datetime) -> dict[str, Any]:
    ca = create_authority("pods", keys.generate(KeyAlgorithm.ECDSA_P256), now=now)
    values = {"tls.crt": ca.certificate.pem(), "tls.key": keys.to_pem(ca.key)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pods-ca", "namespace": SIGNERS_NAMESPACE},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(value).decode() for key, value in values.items()},
    }


async def _put_pod(cluster: Cluster) -> None:
    tree = POD | {"metadata": POD["metadata"] | {"uid": "pod-uid"}, "spec": POD["spec"] | {"nodeName": "n1"}}
    pod = json_codec.decode(json.dumps(tree).encode(), PODS.type)
    stores = cluster.server.api.stores[PODS.plural]
    await stores._store.create(stores.definition.key("default", "web"), stores._value(pod))


@pytest.fixture(scope="module")
def kubelet(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("kubelet") / "kubelet.conf"
    path.write_text(cluster.kubeconfig_for("system:node:n1", ("system:nodes",)))
    return client_of(path)


def client_of(kubeconfig: Path) -> Any:
    load: Any = kubernetes.config.new_client_from_config
    return kubernetes.client.CertificatesV1beta1Api(load(str(kubeconfig)))


def ask(cluster: Cluster, kubelet: Any, **changes: Any) -> Any:
    """What the kubelet of n1 asks for its pod."""
    uids = {"node": cluster.get("Node", "n1").metadata.uid, "account": cluster.get("sa", "web").metadata.uid}
    spec = {
        "signerName": NAME,
        "podName": "web",
        "podUID": "pod-uid",
        "serviceAccountName": "web",
        "serviceAccountUID": uids["account"],
        "nodeName": "n1",
        "nodeUID": uids["node"],
        "maxExpirationSeconds": 86400,
        "stubPKCS10Request": base64.b64encode(stub(key_of("P-256"))).decode(),
    }
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "pod-uid"}
    body = {"metadata": {"generateName": "req-", "ownerReferences": [owner]}, "spec": spec | changes}
    return kubelet.create_namespaced_pod_certificate_request("default", body)


def test_a_kubelet_gets_a_certificate_that_everybody_can_verify(cluster: Cluster, kubelet: Any, tmp_path: Path) -> None:
    made = ask(cluster, kubelet)
    cluster.settle()
    answered = kubelet.read_namespaced_pod_certificate_request(made.metadata.name, "default")
    (condition,) = answered.status.conditions
    assert (condition.type, condition.reason, condition.message) == (
        "Issued", "Issued", "pod default/web runs on n1 as web"
    )  # fmt: skip
    status = answered.status
    assert (status.not_after - status.not_before).total_seconds() == 86400
    assert (status.begin_refresh_at - status.not_before).total_seconds() == pytest.approx(86400 * 0.66, abs=1)
    # What the kubelet mounts: key and chain in one file, and the anchors from the ClusterTrustBundle.
    (bundle,) = [each for each in cluster.list(CLUSTER_TRUST_BUNDLES) if each.spec.signer_name == NAME]
    chain, anchors = tmp_path / "credentials.pem", tmp_path / "ca.pem"
    key = key_of("P-256").private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain.write_text(key.decode() + status.certificate_chain)
    anchors.write_text(bundle.spec.trust_bundle)
    moment = str(int(cluster.clock.now().timestamp()))
    for purpose in ("sslclient", "sslserver"):
        _openssl(
            "verify", "-x509_strict", "-attime", moment, "-purpose", purpose, "-CAfile", str(anchors),
            "-untrusted", str(chain), str(chain),
        )  # fmt: skip
    shown = _openssl("x509", "-in", str(chain), "-noout", "-ext", "subjectAltName", "-subject")
    assert "URI:spiffe://prod.example.com/ns/default/sa/web" in shown
    assert "X509v3 Subject Alternative Name: critical" in shown
    assert re.search(r"^subject=\s*$", shown, re.MULTILINE)


def _openssl(*arguments: str) -> str:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"signerName": NAME, "maxExpirationSeconds": 90000}, "NotAskedForByPod"),
        ({"stubPKCS10Request": base64.b64encode(stub(key_of("Ed25519"))).decode()}, "NotAskedForByPod"),
        ({"unverifiedUserAnnotations": {"example.com/a": "b"}}, "InvalidUnverifiedUserAnnotations"),
    ],
)
def test_what_the_pod_does_not_ask_for_is_denied(
    cluster: Cluster, kubelet: Any, changes: dict[str, Any], reason: str
) -> None:
    made = ask(cluster, kubelet, **changes)
    cluster.settle()
    answered = kubelet.read_namespaced_pod_certificate_request(made.metadata.name, "default")
    assert [(each.type, each.reason) for each in answered.status.conditions] == [("Denied", reason)]
    assert answered.status.certificate_chain is None


def test_another_signer_is_nobodys_business(cluster: Cluster, kubelet: Any) -> None:
    made = ask(cluster, kubelet, signerName="other.example.com/pods")
    cluster.settle()
    answered = kubelet.read_namespaced_pod_certificate_request(made.metadata.name, "default")
    assert answered.status.conditions is None


def test_an_administrator_who_makes_one_up_gets_nothing(cluster: Cluster) -> None:
    admin = client_of(cluster.kubeconfig)
    made = ask(cluster, admin, podName="ghost")
    cluster.settle()
    assert admin.read_namespaced_pod_certificate_request(made.metadata.name, "default").status.conditions is None
    events = [each for each in cluster.list("events") if each.involved_object.name == made.metadata.name]
    assert [(each.reason, each.message) for each in events] == [
        ("PodCertificatePending", "this waits for pod default/ghost with UID pod-uid")
    ]


def test_kubectl_shows_them_and_the_cleaner_takes_them_away(cluster: Cluster, kubelet: Any) -> None:
    made = ask(cluster, kubelet)
    cluster.settle()
    kubectl = kubectl_of(cluster, "1.37")
    head, *rows = kubectl("get", "podcertificaterequests").stdout.splitlines()
    assert head.split() == [
        "NAME", "PODNAME", "SERVICEACCOUNTNAME", "NODENAME", "SIGNERNAME", "STATE", "UNVERIFIEDUSERANNOTATIONS",
    ]  # fmt: skip
    row = next(row.split() for row in rows if row.startswith(made.metadata.name))
    assert row[1:] == ["web", "web", "n1", NAME, "Issued", "<none>"]
    described = kubectl("describe", "podcertificaterequest", made.metadata.name).stdout
    assert "Issued" in described
    cluster.clock.advance(1200)
    cluster.settle()
    assert kubectl("get", "podcertificaterequests", "-o", "name").stdout == ""


# ------------------------------------------------------------------ attached to a cluster that runs elsewhere


V1_ALONE = "certificates.k8s.io/v1beta1/clustertrustbundles=true,certificates.k8s.io/v1/podcertificaterequests=true"


@pytest.mark.parametrize(
    ("served", "resource"), [(BETA, POD_CERTIFICATE_REQUESTS), (V1_ALONE, POD_CERTIFICATE_REQUESTS_V1)]
)
def test_attached_controllers_do_the_same_with_whichever_version_there_is(served: str, resource: Resource[Any]) -> None:
    @async_test
    async def scenario() -> None:
        async with foreign(runtime_config=served) as cluster:
            client = cluster.client()
            node = await client.create(NODES, Node(metadata=ObjectMeta(name="n1")))
            meta = ObjectMeta(name="web", namespace="default")
            account = await client.create(SERVICE_ACCOUNTS, ServiceAccount(metadata=meta))
            await _put_pod(cluster)
            configured: tuple[tuple[Resource[Any], dict[str, Any]], ...] = (
                (SECRETS, _secret(SystemClock().now())),
                (CERTIFICATE_SIGNERS, SIGNER),
            )
            for kind, tree in configured:
                await client.create(kind, json_codec.decode(json.dumps(tree).encode(), kind.type))
            made = request(
                signer_name=NAME, pod_name="web", pod_uid="pod-uid", service_account_name="web", node_name="n1",
                service_account_uid=account.metadata.uid, node_uid=node.metadata.uid,
            )  # fmt: skip
            asked = msgspec.structs.replace(made, metadata=ObjectMeta(name="c1", namespace="default"))
            beta = resource is POD_CERTIFICATE_REQUESTS
            await client.create(resource, asked if beta else v1.from_v1beta1(asked))
            async with attached(cluster, controllers=CONTROLLERS, signing=signing_of(cluster)):
                answered = await wait_for(
                    client, resource, "c1", "default", until=lambda each: bool(each.status.conditions), timeout=120.0
                )
            assert answered.status.conditions[0].type == "Issued"
            manager = next(each for each in answered.metadata.managed_fields if each.subresource == "status")
            assert manager.api_version == resource.api_version

    scenario()
