"""What a person is told about a request, and that a decision is about what was shown."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest

import aio
from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS as CSRS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.machinery.text.times import Time
from kubevouch.pki import control_plane, keys
from kubevouch.pki.authority import LeafSpec, create_authority, issue_leaf
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import pem, x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.reviews import csr_review
from kubevouch.reviews.csr_review import Requests, ReviewError, State
from kubevouch.testing import Cluster

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
NODE = Subject(common_name="system:node:n1", organizations=("system:nodes",))
NO_NAMES = SubjectAltNames()
CLIENT = ("digital signature", "client auth")


def request(
    name: str = "csr-1",
    *,
    subject: Subject = NODE,
    key: PrivateKey = KEY,
    names: SubjectAltNames = NO_NAMES,
    username: str = "system:bootstrap:abcdef",
    signer: str = wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    usages: Sequence[str] = CLIENT,
    age: dt.timedelta = dt.timedelta(minutes=1),
    conditions: Sequence[str] = (),
    certificate: bytes = b"",
    text: bytes | None = None,
) -> CertificateSigningRequest:
    return CertificateSigningRequest(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", creation_timestamp=Time.of(NOW - age)),
        spec=CertificateSigningRequestSpec(
            request=build_request(key, subject, names) if text is None else text,
            signer_name=signer,
            usages=list(usages),
            username=username,
            groups=["system:bootstrappers"],
        ),
        status=CertificateSigningRequestStatus(
            conditions=[CertificateSigningRequestCondition(type=each, status="True") for each in conditions],
            certificate=certificate,
        ),
    )


def issued(key: PrivateKey = KEY, name: str = "system:node:n1") -> bytes:
    authority = create_authority("kubernetes", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    spec: LeafSpec = control_plane.kubelet(name.removeprefix("system:node:"))
    return issue_leaf(authority, spec, key, now=NOW - dt.timedelta(days=1)).pem()


def codes(csr: CertificateSigningRequest, *others: CertificateSigningRequest) -> list[str]:
    return [mark.code for mark in csr_review.review(csr, Requests([csr, *others]), NOW).marks]


def test_an_ordinary_join_has_no_marks() -> None:
    found = csr_review.review(request(), Requests(), NOW)
    assert found.state is State.PENDING
    assert found.age == dt.timedelta(minutes=1)
    assert found.marks == ()
    assert found.changes == ()


@pytest.mark.parametrize(
    ("csr", "code"),
    [
        (request(text=b"no request"), "unreadable"),
        (request(usages=("digital signature", "server auth")), "cannot-be-signed"),
        (request(subject=Subject(common_name="x", organizations=("system:masters",)), signer="a.b/c"), "masters"),
        (request(username="system:node:n2"), "other-name"),
        (request(age=dt.timedelta(hours=1)), "waits-long"),
        (request(key=keys.generate(KeyAlgorithm.RSA_2048), signer="a.b/c"), None),
    ],
)
def test_marks(csr: CertificateSigningRequest, code: str | None) -> None:
    assert codes(csr) == ([] if code is None else [code])


def test_a_request_that_its_own_key_did_not_sign() -> None:
    contents = bytearray(x509_request.parse_pem(build_request(KEY, NODE)).contents)
    contents[-1] ^= 1
    assert codes(request(text=pem.encode(pem.CERTIFICATE_REQUEST, bytes(contents)))) == ["bad-signature"]


def test_one_key_for_two_names() -> None:
    other = request("csr-2", subject=Subject(common_name="system:node:n2", organizations=("system:nodes",)))
    assert codes(request(), other) == ["shared-key"]
    assert codes(request(), request("csr-2")) == []


def test_a_name_that_somebody_holds() -> None:
    held = request("old", certificate=issued(keys.generate(KeyAlgorithm.ECDSA_P256)), conditions=("Approved",))
    found = csr_review.review(request(), Requests([held]), NOW)
    assert [mark.code for mark in found.marks] == ["takes-over"]
    assert found.changes == ("another key",)
    # The holder itself renews with a new key as a matter of course.
    assert codes(request(username="system:node:n1"), held) == []


def test_what_is_different_from_the_last_certificate() -> None:
    last = request("old", certificate=issued(), conditions=("Approved",))
    wanted = request(names=SubjectAltNames(dns_names=("n1.example",)))
    assert csr_review.review(wanted, Requests([last]), NOW).changes == ("new name n1.example",)
    # A node's serving certificate has other names and another key than its client certificate, and the same subject.
    serving = request(names=SubjectAltNames(dns_names=("n1.example",)), signer=wellknown.KUBELET_SERVING_SIGNER)
    assert csr_review.review(serving, Requests([last]), NOW).changes == ()


@pytest.mark.parametrize(
    ("conditions", "certificate", "state"),
    [
        ((), b"", State.PENDING),
        (("Approved",), b"", State.APPROVED),
        (("Approved",), b"x", State.ISSUED),
        (("Denied",), b"", State.DENIED),
        (("Approved", "Failed"), b"", State.FAILED),
    ],
)
def test_states(conditions: tuple[str, ...], certificate: bytes, state: State) -> None:
    assert csr_review.state_of(request(conditions=conditions, certificate=certificate)) is state


def test_against_a_cluster() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            client = cluster.client()
            plain = request("plain", signer="example.com/dolphins")
            node = request("node")
            for each in (plain, node):
                # Who asks does not write what a person reads before deciding.
                forged = {wellknown.JOIN_STUCK_ANNOTATION: "X: approve me", "example.com/mine": "yes"}
                made = await client.create(CSRS, replace_metadata(each, annotations=forged))
                assert made.metadata.annotations == {"example.com/mine": "yes"}
            found = await csr_review.fetch(client)
            assert {csr.metadata.name for csr in found.pending} == {"plain", "node"}
            assert "a person has to" in await csr_review.outlook(client, found.named("plain"))
            # The administrator may have a node's certificate, so the controller would give it.
            assert "approves it as nodeclient" in await csr_review.outlook(client, found.named("node"))
            shown = found.named("plain")
            await csr_review.decide(client, shown, wellknown.CSR_APPROVED, "known machine")
            with pytest.raises(ReviewError, match="not what was shown any more"):
                await csr_review.decide(client, shown, wellknown.CSR_DENIED, "")
            again = await csr_review.fetch(client)
            assert [csr.metadata.name for csr in again.pending] == ["node"]
            assert again.all[0].metadata.name == "node"
            with pytest.raises(ReviewError, match="is Approved already"):
                await csr_review.decide(client, again.named("plain"), wellknown.CSR_DENIED, "")
            with pytest.raises(ReviewError, match="there is no request 'nope'"):
                again.named("nope")
            await csr_review.decide(client, again.named("node"), wellknown.CSR_DENIED, "not ours", "Stolen")
            denied = await client.get(CSRS, "node")
            assert [(each.reason, each.message) for each in denied.status.conditions] == [("Stolen", "not ours")]

    aio.run(scenario())
