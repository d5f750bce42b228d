"""S7: an approval is no proof. Each signer refuses by itself whatever is more than it is for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from msgspec.structs import replace

import controller_world
import identity_world as world
from asynctest import async_test
from controller_world import NOW
from identity_world import CLIENT, LEGACY, NODE_CLIENT, NODE_SERVING
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.authorization.bootstrap_policy import bootstrap_policy
from kubevouch.authorization.controller_policy import kubevouch_controller_policy
from kubevouch.authorization.kubeadm_policy import kubeadm_policy
from kubevouch.authorization.recovery_policy import recovery_policy
from kubevouch.controllers import csr_signing
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki.profile import Profile
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.standalone.options import IdentityOptions, StandaloneOptions
from kubevouch.standalone.up import running
from kubevouch.testing.cluster import ADMIN, Cluster
from kubevouch.testing.waiting import wait_for
from kubevouch.util.clock import SystemClock

CONTROLLERS = ("csrapproving", "csrsigning")
V1BETA1 = "certificates.k8s.io/v1beta1=true"
# What the API server's admission does not look at, or not for every signer.
MASTERS = Subject(common_name="jane", organizations=("dev", "system:masters"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(controllers=CONTROLLERS, runtime_config=V1BETA1) as running:
        yield running


def approved(cluster: Cluster, signer: str, subject: Subject, names: SubjectAltNames | None = None) -> str:
    pem = world.request(subject, names=names or SubjectAltNames())
    name = world.ask(cluster, ADMIN, pem, signer=signer)
    world.approve(cluster, name)
    return world.outcome(cluster, name)


@pytest.mark.parametrize(
    ("signer", "subject"),
    [
        (LEGACY, MASTERS),
        (LEGACY, Subject(common_name="system:kube-controller-manager")),
        (LEGACY, world.node_subject("worker-1")),
        (LEGACY, Subject(common_name="jane", organizations=("system:nodes",))),
        (CLIENT, world.node_subject("worker-1")),
        (NODE_CLIENT, MASTERS),
        (NODE_CLIENT, Subject(common_name="system:node:a", organizations=("system:nodes", "system:masters"))),
        (NODE_CLIENT, Subject(common_name="system:kube-scheduler", organizations=("system:nodes",))),
        (NODE_SERVING, Subject(common_name="system:node:a", organizations=("system:nodes", "system:masters"))),
        (NODE_SERVING, Subject(common_name="kubernetes", organizations=("system:nodes",))),
    ],
)
def test_no_signer_issues_more_than_it_is_for(cluster: Cluster, signer: str, subject: Subject) -> None:
    names = SubjectAltNames(dns_names=("a",)) if signer == NODE_SERVING else None
    ended = approved(cluster, signer, subject, names)
    assert ended.startswith("Approved,Failed: "), ended


def test_what_the_signers_are_for_is_issued(cluster: Cluster) -> None:
    assert approved(cluster, LEGACY, Subject(common_name="jane")) == "Approved,Issued"
    assert approved(cluster, CLIENT, Subject(common_name="system:kube-scheduler")) == "Approved,Issued"
    assert approved(cluster, NODE_CLIENT, world.node_subject("a")) == "Approved,Issued"
    names = SubjectAltNames(dns_names=("a",))
    assert approved(cluster, NODE_SERVING, world.node_subject("a"), names) == "Approved,Issued"


@async_test
async def test_masters_is_refused_whatever_admission_has_let_in() -> None:
    """The admission plug-in can be disabled, and does not look at what an older server has stored."""
    pem = world.request(MASTERS)
    condition = CertificateSigningRequestCondition(type="Approved", status="True", last_update_time=Time.of(NOW))
    csr = CertificateSigningRequest(
        metadata=ObjectMeta(name="a", uid="1", creation_timestamp=Time.of(NOW)),
        spec=CertificateSigningRequestSpec(request=pem, signer_name=CLIENT, usages=["client auth"]),
        status=CertificateSigningRequestStatus(
            conditions=[msgspec.structs.replace(condition, last_transition_time=Time.of(NOW))]
        ),
    )
    async with controller_world.world() as at:
        await at.put(CERTIFICATE_SIGNING_REQUESTS, csr)
        await at.run(csr_signing.NAME)
        (written,) = at.writes("PUT")
    assert written.status.conditions[-1].type == "Failed" and not written.status.certificate


WEAK: dict[str, PrivateKey] = {
    "RSA-1024": rsa.generate_private_key(65537, 1024),
    "P-224": ec.generate_private_key(ec.SECP224R1()),
}


@pytest.mark.parametrize("weak", WEAK)
def test_weak_keys(cluster: Cluster, weak: str) -> None:
    name = world.ask(cluster, world.token_user(), world.node_request(f"weak-{weak.lower()}", WEAK[weak]))
    assert "expected at least" in world.outcome(cluster, name)


@async_test
async def test_up_signs_by_the_strict_profile_unless_told_otherwise(tmp_path: Path) -> None:
    options = StandaloneOptions(
        tmp_path, bind_address="127.0.0.1", secure_port=0, store="memory:", controllers=("csrapproving", "csrsigning")
    )
    assert await _ended(options) == ["Approved", "Failed"]
    compatible = replace(options, identity=IdentityOptions(signing_profile=Profile.COMPATIBLE))
    assert await _ended(compatible) == ["Approved", "Issued"]


async def _ended(options: StandaloneOptions) -> list[str]:
    """What becomes of a request for a weak key."""
    async with running(options, SystemClock()) as up:
        client = up.server.api.loopback(world.token_user(), "test")
        spec = CertificateSigningRequestSpec(
            request=world.node_request("worker-1", WEAK["P-224"]),
            signer_name=NODE_CLIENT,
            usages=list(world.CLIENT_USAGES),
        )
        csr = CertificateSigningRequest(metadata=ObjectMeta(name="a"), spec=spec)
        await client.create(CERTIFICATE_SIGNING_REQUESTS, csr)
        done = await wait_for(
            up.server.client,
            CERTIFICATE_SIGNING_REQUESTS,
            "a",
            until=lambda csr: bool(csr.status.certificate) or len(csr.status.conditions) > 1,
        )
    words = [condition.type for condition in done.status.conditions]
    return [*words, "Issued"] if done.status.certificate else words


def test_nobody_may_approve_and_sign() -> None:
    """No role that is shipped has both, but cluster-admin and Kubernetes' own certificate-controller."""
    both = []
    unlimited = []
    shipped = bootstrap_policy() + kubevouch_controller_policy() + kubeadm_policy() + recovery_policy()
    for role in shipped.every_role:
        rules = role.rules or ()
        verbs = {verb for rule in rules if {"signers", "*"} & {*(rule.resources or ())} for verb in rule.verbs or ()}
        if {"approve", "sign"} <= verbs or "*" in verbs:
            both.append(role.metadata.name)
        for rule in rules:
            if "signers" in (rule.resources or ()):
                assert "*" not in "".join(rule.resource_names or ()), role.metadata.name
                if not rule.resource_names:
                    unlimited.append((role.metadata.name, rule.verbs))
    # Policies may be about any signer, and CertificateSigner objects may have any name but Kubernetes' own.
    assert sorted(unlimited) == [
        ("system:controller:certificate-signers-controller", ["attest"]),
        ("system:controller:certificatesigningrequest-approving-controller", ["approve"]),
        ("system:controller:certificatesigningrequest-signing-controller", ["sign"]),
        ("system:controller:podcertificaterequest-signing-controller", ["sign"]),
    ]
    assert sorted(both) == ["cluster-admin", "system:controller:certificate-controller"]
