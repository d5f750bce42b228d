"""What a request's conditions mean; the waiting itself is in ``test_bootstrap`` and ``test_certificate_manager``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aio import until
from asynctest import async_test
from join_world import APPROVED, Told, condition, join_world
from kubevouch import wellknown
from kubevouch.agent.certificate_request import node_client
from kubevouch.agent.csr_wait import UnreadEvidenceError, approval_of, judge, wait_for_certificate
from kubevouch.agent.interface import (
    AttestationRefusedError,
    MachineBannedError,
    NotIssuedError,
    RequestDeniedError,
    Step,
)
from kubevouch.agent.signing_requests import SigningRequests
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.client.interface import MERGE_PATCH
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.testing.clock import FakeClock
from kubevouch.util.clock import SystemClock


def _csr(*conditions: CertificateSigningRequestCondition, certificate: bytes = b"") -> CertificateSigningRequest:
    return CertificateSigningRequest(
        metadata=ObjectMeta(name="node-csr-x", uid="1"),
        spec=CertificateSigningRequestSpec(),
        status=CertificateSigningRequestStatus(conditions=list(conditions), certificate=certificate),
    )


def test_done_is_approved_and_issued() -> None:
    assert judge(_csr(APPROVED, certificate=b"x"), "1")
    assert judge(_csr(APPROVED, certificate=b"x"), "")
    assert not judge(_csr(), "1")
    assert not judge(_csr(APPROVED), "1")
    # A signer that does not wait for the approval is not to be believed.
    assert not judge(_csr(certificate=b"x"), "1")


@pytest.mark.parametrize(("kind", "what"), [("Denied", "is denied"), ("Failed", "failed")])
def test_a_final_decision_counts_beside_a_certificate(kind: str, what: str) -> None:
    decided = _csr(APPROVED, condition(kind, "Why", "because"), certificate=b"x")
    with pytest.raises(RequestDeniedError, match=f"node-csr-x {what}, reason: Why, message: because") as refused:
        judge(decided, "1")
    assert refused.value.spent
    with pytest.raises(RequestDeniedError, match="reason: -, message: -"):
        judge(_csr(condition(kind)), "1")


@pytest.mark.parametrize(
    ("reason", "hint"), [("OutsideTokenBounds", "with another token"), ("KubectlDeny", "kubectl delete csr")]
)
def test_what_to_do_after_a_denial(reason: str, hint: str) -> None:
    denied = CertificateSigningRequestCondition(type="Denied", status="True", reason=reason)
    with pytest.raises(RequestDeniedError) as refusal:
        judge(_csr(denied), "")
    assert hint in refusal.value.hint


def test_another_object_under_the_name() -> None:
    with pytest.raises(NotIssuedError, match='csr "node-csr-x" changed UIDs'):
        judge(_csr(APPROVED, certificate=b"x"), "2")


@pytest.mark.parametrize(
    ("reason", "message", "said"),
    [
        ("AutoApproved", "as it may", ("the approving controller", "as it may")),
        ("KubectlApprove", "", ("kubectl certificate approve", "KubectlApprove")),
        ("OwnApprover", "", ("OwnApprover", "OwnApprover")),
        ("", "", ("somebody", "")),
    ],
)
def test_who_has_approved(reason: str, message: str, said: tuple[str, str]) -> None:
    assert approval_of(_csr(condition("Approved", reason, message))) == said


@async_test
async def test_a_request_that_is_made_anew_under_the_name_is_not_ours(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        client, template = world.server.client, node_client("worker-1")
        spec = CertificateSigningRequestSpec(
            request=build_request(keys.generate(KeyAlgorithm.ECDSA_P256), template.subject),
            signer_name=template.signer_name,
            usages=["digital signature", "client auth"],
        )
        wanted = CertificateSigningRequest(metadata=ObjectMeta(name="node-csr-x"), spec=spec)
        requests, told = SigningRequests(client), Told()
        csr = await requests.create(wanted)
        waiting = asyncio.create_task(wait_for_certificate(requests, csr, SystemClock(), told, timeout=120.0))
        await until(lambda: bool(told.waits))
        assert "waits for approval (kubectl certificate approve node-csr-x)" in told.waits[0]
        # What a controller finds out later is told, too.
        stuck = {"metadata": {"annotations": {wellknown.JOIN_STUCK_ANNOTATION: "ProofMissing: a token is none"}}}
        await client.patch(catalog.CERTIFICATE_SIGNING_REQUESTS, "node-csr-x", stuck, MERGE_PATCH)
        await until(lambda: told.waits[-1] == "request node-csr-x waits: ProofMissing: a token is none")
        await client.delete(catalog.CERTIFICATE_SIGNING_REQUESTS, "node-csr-x")
        async with world.clerk_at_work():
            await requests.create(wanted)
            with pytest.raises(NotIssuedError, match=r"was deleted|changed UIDs"):
                await waiting
        assert Step.ISSUED not in told.steps


@pytest.mark.parametrize(
    ("stuck", "hint"),
    [
        ("ProofMissing: a token is none", "machines prove here what they are: join with --attest NAME"),
        ("NameNotFree: ProofMissing: no", "the request stays; have it approved and join again"),
    ],
)
@async_test
async def test_what_to_do_when_the_time_is_over(tmp_path: Path, stuck: str, hint: str) -> None:
    async with join_world(tmp_path) as world:
        template = node_client("worker-1")
        spec = CertificateSigningRequestSpec(
            request=build_request(keys.generate(KeyAlgorithm.ECDSA_P256), template.subject),
            signer_name=template.signer_name,
            usages=["digital signature", "client auth"],
        )
        metadata = ObjectMeta(name="node-csr-x", annotations={wellknown.JOIN_STUCK_ANNOTATION: stuck})
        csr = CertificateSigningRequest(metadata=metadata, spec=spec)
        requests, told, clock = SigningRequests(world.server.client), Told(), FakeClock()
        waiting = asyncio.create_task(wait_for_certificate(requests, csr, clock, told, timeout=120.0))
        await clock.until_asleep(2)
        clock.advance(120.0)
        with pytest.raises(NotIssuedError, match="timed out after 120 s") as over:
            await waiting
        assert over.value.hint == hint


def _attested(
    *conditions: CertificateSigningRequestCondition,
    annotation: str = "",
    signer: str = "kube-apiserver-client-kubelet-x",
) -> CertificateSigningRequest:
    annotations = {wellknown.SUPPORTED_VERSIONS_ANNOTATION: annotation} if annotation else {}
    return CertificateSigningRequest(
        metadata=ObjectMeta(name="node-csr-x", uid="1", annotations=annotations),
        spec=CertificateSigningRequestSpec(signer_name=f"cluster.x-k8s.io/{signer}"),
        status=CertificateSigningRequestStatus(conditions=list(conditions)),
    )


@pytest.mark.parametrize("kind", ["Denied", "Failed"])
@pytest.mark.parametrize(("reason", "error"), [("name-taken", AttestationRefusedError), ("banned", MachineBannedError)])
def test_a_refused_proof_does_not_take_the_key(kind: str, reason: str, error: type[AttestationRefusedError]) -> None:
    denied = condition(kind, "AttestationRefused", f"{reason}: because")
    with pytest.raises(AttestationRefusedError, match=f"reason: AttestationRefused, message: {reason}: ") as refused:
        judge(_attested(denied), "1")
    assert type(refused.value) is error
    assert (refused.value.reason, refused.value.spent) == (reason, False)
    with pytest.raises(AttestationRefusedError, match="because banned: so") as refused:
        judge(_attested(condition(kind, "KubectlDeny", "because banned: so")), "1")
    assert (type(refused.value), refused.value.reason) == (AttestationRefusedError, "KubectlDeny")


def test_versions_that_are_read_count_for_requests_with_evidence_that_nobody_has_decided() -> None:
    with pytest.raises(UnreadEvidenceError) as unread:
        judge(_attested(annotation="v2,v1"), "1")
    assert unread.value.supported == "v2,v1"
    assert not judge(_attested(APPROVED, annotation="v2,v1"), "1")
    assert not judge(_attested(annotation="v2,v1", signer="other"), "1")
