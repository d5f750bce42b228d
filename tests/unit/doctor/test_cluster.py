"""Each test breaks one thing of a cluster and reads the diagnosis."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Coroutine
from pathlib import Path

import msgspec
import pytest

from asynctest import async_test
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
)
from kubevouch.api.core_v1 import Secret
from kubevouch.api.core_v1.events import WARNING
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.client.rest_config import rest_config
from kubevouch.controllers.event_recorder import EventRecorder
from kubevouch.doctor.cluster import examine, judge_authority, judge_operator, judge_trust
from kubevouch.doctor.findings import Code, Finding
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.authority import create_authority
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.records.cluster_info import ClusterInfo, build_kubeconfig
from kubevouch.reviews.csr_review import decide
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import SystemClock
from throwaway_ca import ThrowawayCA

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
ALL = ("*",)
Break = Callable[[Cluster], Coroutine[object, object, None]]


async def findings(cluster: Cluster, path: Path | None = None) -> list[Finding]:
    """As the operator sees it, at the cluster's own time."""
    clock = FakeClock(cluster.clock.now())
    return list((await examine(rest_config(path or cluster.kubeconfig), clock)).findings)


async def codes(cluster: Cluster) -> list[Code]:
    return [each.code for each in await findings(cluster)]


@async_test
async def test_a_cluster_that_is_well() -> None:
    async with Cluster(https=True, controllers=ALL) as cluster:
        await cluster.token_async()
        await cluster.settle_async()
        report = await examine(rest_config(cluster.kubeconfig), SystemClock())
        assert report.findings == ()
        facts = dict(report.facts)
        assert facts["CA"].startswith(cluster.pin)
        assert facts["tokens"] == "1"
        assert facts["requests"] == "0, 0 of them undecided"


@async_test
async def test_one_without_tokens_is_well_too() -> None:
    async with Cluster(https=True) as cluster:
        assert await codes(cluster) == []


# ------------------------------------------------------------------ dates


@pytest.mark.parametrize(("days", "code"), [(365, None), (100, Code.CA_EXPIRING), (-1, Code.CA_EXPIRED)])
def test_the_end_of_a_ca(days: int, code: Code | None) -> None:
    made = NOW - dt.timedelta(days=1000)
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    authority = create_authority("kubernetes", key, now=made, validity=dt.timedelta(days=1000 + days))
    found = [each.code for each in judge_authority([authority.certificate], now=NOW)]
    assert found == ([] if code is None else [code])


@pytest.mark.parametrize(
    ("days", "code"),
    [(31, None), (29, Code.OPERATOR_CERTIFICATE_EXPIRING), (-1, Code.OPERATOR_CERTIFICATE_EXPIRING)],
)
def test_the_end_of_the_operators_certificate(days: int, code: Code | None) -> None:
    pair = ThrowawayCA().issue("admin", not_after=NOW + dt.timedelta(days=days))
    found = [each.code for each in judge_operator(x509_certificate.parse_pem(pair.certificate), now=NOW)]
    assert found == ([] if code is None else [code])


# ------------------------------------------------------------------ cluster-info, tokens, rights


async def _no_cluster_info(cluster: Cluster) -> None:
    await cluster.client().delete(catalog.CONFIG_MAPS, "cluster-info", "kube-public")


async def _hidden(cluster: Cluster) -> None:
    name = "kubeadm:bootstrap-signer-clusterinfo"
    await cluster.client().delete(catalog.ROLE_BINDINGS, name, "kube-public")


async def _publish(cluster: Cluster, text: str) -> None:
    found = await cluster.client().get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
    await cluster.client().update(
        catalog.CONFIG_MAPS, msgspec.structs.replace(found, data={**found.data, "kubeconfig": text})
    )


async def _broken(cluster: Cluster) -> None:
    await _publish(cluster, "kind: Config")


async def _other_ca(cluster: Cluster) -> None:
    await _publish(cluster, build_kubeconfig(ClusterInfo(cluster.url, ThrowawayCA().bundle)))


async def _no_binding(cluster: Cluster, name: str) -> None:
    await cluster.client().delete(catalog.CLUSTER_ROLE_BINDINGS, name)


async def _no_joining(cluster: Cluster) -> None:
    await _no_binding(cluster, "kubeadm:kubelet-bootstrap")


async def _no_approval(cluster: Cluster) -> None:
    await _no_binding(cluster, "kubeadm:node-autoapprove-bootstrap")


async def _no_rotation(cluster: Cluster) -> None:
    await _no_binding(cluster, "kubeadm:node-autoapprove-certificate-rotation")


async def _unsigned(cluster: Cluster) -> None:
    await cluster.token_async()


async def _no_token(cluster: Cluster) -> None:
    metadata = ObjectMeta(name="bootstrap-token-abcdef", namespace="kube-system")
    data = {"token-id": b"abcdef", "token-secret": b"short", "usage-bootstrap-signing": b"true"}
    secret = Secret(metadata=metadata, type=wellknown.BOOTSTRAP_TOKEN_SECRET, data=data)
    await cluster.client().create(catalog.SECRETS, secret)


async def _other_groups(cluster: Cluster) -> None:
    await cluster.token_async(groups=["system:bootstrappers:others"])


@pytest.mark.parametrize(
    ("break_it", "expected"),
    [
        (_no_cluster_info, [Code.CLUSTER_INFO_MISSING]),
        (_hidden, [Code.CLUSTER_INFO_FORBIDDEN]),
        (_broken, [Code.CLUSTER_INFO_BROKEN]),
        (_other_ca, [Code.CLUSTER_INFO_OTHER_CA]),
        (_no_joining, [Code.JOINING_NOT_ALLOWED]),
        (_no_approval, [Code.APPROVAL_NOT_AUTOMATIC]),
        (_no_rotation, [Code.RENEWAL_NOT_AUTOMATIC]),
        (_unsigned, [Code.SIGNATURES_MISSING]),
        (_no_token, [Code.TOKEN_BROKEN]),
        (_other_groups, [Code.SIGNATURES_MISSING, Code.JOINING_NOT_ALLOWED]),
    ],
)
def test_set_up(break_it: Break, expected: list[Code]) -> None:
    @async_test
    async def scenario() -> None:
        async with Cluster(https=True) as cluster:
            await break_it(cluster)
            assert await codes(cluster) == expected

    scenario()


@async_test
async def test_a_front_proxy_whose_ca_has_the_key_of_the_clients() -> None:
    async with Cluster(https=True) as cluster:
        client, name = cluster.client(), wellknown.EXTENSION_APISERVER_AUTHENTICATION_CONFIGMAP
        found = await client.get(catalog.CONFIG_MAPS, name, "kube-system")
        assert found.data["client-ca-file"] and found.data["requestheader-client-ca-file"]
        bundle = found.data["requestheader-client-ca-file"] + found.data["client-ca-file"]
        data = {**found.data, "requestheader-client-ca-file": bundle}
        await client.update(catalog.CONFIG_MAPS, msgspec.structs.replace(found, data=data))
        assert await codes(cluster) == [Code.CA_SHARED]


def test_a_bundle_that_cannot_be_read_is_nobodys() -> None:
    assert list(judge_trust({"client-ca-file": "no certificate"})) == []


@async_test
async def test_one_token_that_is_not_signed_with() -> None:
    async with Cluster(https=True) as cluster:
        token = await cluster.token_async()
        client = cluster.client()
        found = await client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        data = {**found.data, "jws-kubeconfig-others": "a..b", f"jws-kubeconfig-{token[:6]}": "a..b"}
        await client.update(catalog.CONFIG_MAPS, msgspec.structs.replace(found, data=data))
        (finding,) = await findings(cluster)
        assert finding.code is Code.TOKEN_UNSIGNED
        assert finding.cause == f"the signature of the token {token[:6]} is wrong"


# ------------------------------------------------------------------ requests


async def _ask(cluster: Cluster, name: str, *, signer: str = "", request: bytes = b"") -> None:
    node = "system:node:n1"
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    spec = CertificateSigningRequestSpec(
        request=request or build_request(key, Subject(common_name=node, organizations=("system:nodes",))),
        signer_name=signer or wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=["digital signature", "client auth"],
    )
    csr = CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)
    await cluster.client().create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr)


@async_test
async def test_requests_that_wait() -> None:
    async with Cluster(https=True) as cluster:
        await _ask(cluster, "csr-1")
        await _ask(cluster, "csr-2", signer="example.com/own")
        assert await codes(cluster) == []
        cluster.clock.advance(120)
        first, second = sorted(await findings(cluster), key=lambda each: each.cause)
        assert first.code is second.code is Code.REQUEST_WAITING
        assert first.cause == (
            "csr-1 of kubernetes-super-admin waits for 2m: the approving controller approves it as nodeclient; "
            "is it running? csr explain says more"
        )
        assert second.cause.endswith("no controller approves this for example.com/own; a person has to")
        assert second.fix == "kubevouch csr show csr-2"


@async_test
async def test_requests_that_nobody_signs_and_one_that_failed() -> None:
    async with Cluster(https=True) as cluster:
        client = cluster.client()
        for name in ("unsigned", "failed"):
            await _ask(cluster, name)
            shown = await client.get(catalog.CERTIFICATE_SIGNING_REQUESTS, name)
            await decide(client, shown, wellknown.CSR_APPROVED, "by the test")
        csr = await client.get(catalog.CERTIFICATE_SIGNING_REQUESTS, "failed")
        failed = CertificateSigningRequestCondition(
            type=wellknown.CSR_FAILED, status="True", reason="SignerValidationFailure", message="it cannot be signed"
        )
        status = msgspec.structs.replace(csr.status, conditions=[*csr.status.conditions, failed])
        await client.update(
            catalog.CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(csr, status=status), subresource="status"
        )
        assert await codes(cluster) == [Code.REQUEST_FAILED]
        cluster.clock.advance(120)
        found = {each.code: each.cause for each in await findings(cluster)}
        assert set(found) == {Code.REQUEST_FAILED, Code.REQUEST_UNSIGNED}
        assert found[Code.REQUEST_FAILED].endswith("SignerValidationFailure: it cannot be signed")
        assert "nobody has signed it for kubernetes.io/kube-apiserver-client-kubelet" in found[Code.REQUEST_UNSIGNED]
        unsigned = await client.get(catalog.CERTIFICATE_SIGNING_REQUESTS, "unsigned")
        about = ObjectReference(kind="CertificateSigningRequest", name="unsigned", uid=unsigned.metadata.uid)
        recorder = EventRecorder(client, cluster.clock, "test")
        await recorder.record(about, WARNING, wellknown.SIGNER_UNAVAILABLE, "the token is not there")
        found = {each.code: each.cause for each in await findings(cluster)}
        assert found[Code.REQUEST_UNSIGNED].endswith("kube-apiserver-client-kubelet: the token is not there")


# ------------------------------------------------------------------ access


@async_test
async def test_an_operator_who_may_not_look_and_one_who_is_nobody(tmp_path: Path) -> None:
    async with Cluster(https=True) as cluster:
        path = tmp_path / "config"
        path.write_text(cluster.kubeconfig_for("somebody"))
        found = await findings(cluster, path)
        assert {each.code for each in found} == {Code.ACCESS_REFUSED}
        assert found[0].cause.startswith("the API server answers 403: ")
        head = cluster.kubeconfig.read_text().partition("users:")[0]
        path.write_text(f"{head}users:\n- name: kubernetes-super-admin\n  user:\n    token: abcdef.0123456789abcdef\n")
        (only,) = await findings(cluster, path)
        assert only.code is Code.ACCESS_REFUSED
        assert only.cause.startswith("the API server answers 401")


@async_test
async def test_a_server_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "config"
    async with Cluster(https=True) as cluster:
        path.write_text(cluster.kubeconfig.read_text())
    report = await examine(rest_config(path), SystemClock())
    assert [each.code for each in report.findings] == [Code.PORT_REFUSED]
