"""Cases of ``controllers.jsonl`` about CSRs, played by the real controllers against a real server.

Objects are put into the store as they are given, past validation; the answers that a case cans come from the client
between controller and server. Serial numbers and TBS hashes are compared in ``test_pki_signer.py``.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from controller_world import FIXTURES, NOW, Case, World, answer, cases, fixture, ids, world
from excused import excused
from kubevouch import wellknown
from kubevouch.api.authorization_v1 import SubjectAccessReview, SubjectAccessReviewStatus
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, POD_CERTIFICATE_REQUESTS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.api.pod_certificate_requests_v1beta1 import PodCertificateRequest
from kubevouch.controllers import csr_approving, csr_cleaner, csr_signing, pod_certificate_cleaner
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import Request
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.gotext import parse_duration
from kubevouch.machinery.text.times import Time
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.policy import KUBERNETES_SIGNERS
from kubevouch.pki.profile import Profile
from kubevouch.pki.x509 import signature, x509_certificate
from kubevouch.signers.catalog import FLAG_PREFIXES, PairFiles, SigningOptions, build_signers
from kubevouch.signers.interface import SignerError
from kubevouch.standalone.controllers import RunningControllers, controller_user
from kubevouch.testing.logs import capture_logs

APPROVER = cases("approver")
SIGNER = cases("signer")
CLEANER = cases("cleaner")

REFUSED = {
    "ctl-signer-client-nul-cn": "no node can have that name",
    "ctl-signer-profile-cn-nul-cn": "no node can have that name",
    "ctl-signer-user-system-masters-not-refused-by-signer": "nobody gets a certificate of system:masters",
}
DIFFERENT = excused() & {case["id"] for case in CLEANER}


def _csr(given: Case) -> CertificateSigningRequest:
    spec = given.get("spec", {})
    status = given.get("status", given)
    name = status.get("certificate_fixture")
    return CertificateSigningRequest(
        metadata=ObjectMeta(
            name=given["name"],
            uid="0b9a1c2d-0000-4000-8000-000000000001",
            creation_timestamp=Time.parse(given.get("creationTimestamp", "2026-11-21T11:59:00Z")),
        ),
        spec=CertificateSigningRequestSpec(
            request=fixture(spec.get("request_fixture", "client-good.csr")),
            signer_name=spec.get("signerName", given.get("signerName", "")),
            usages=spec.get("usages", ["digital signature", "client auth"]),
            expiration_seconds=spec.get("expirationSeconds"),
            username=spec.get("username", ""),
            uid=spec.get("uid", ""),
            groups=spec.get("groups", []),
            extra=spec.get("extra", {}),
        ),
        status=CertificateSigningRequestStatus(
            conditions=[_condition(condition) for condition in status.get("conditions", [])],
            certificate=fixture(name) if name else b"",
        ),
    )


def _condition(given: Case) -> CertificateSigningRequestCondition:
    at = given.get("lastUpdateTime")
    return CertificateSigningRequestCondition(
        type=given["type"],
        status=given["status"],
        reason=given.get("reason", ""),
        message=given.get("message", ""),
        last_update_time=None if at is None else Time.parse(at),
    )


def _failed(logs: list[Any]) -> list[tuple[str, str]]:
    """Level and text of every reconciliation that failed."""
    return [(line["log_level"], line["err"]) for line in logs if line["event"] == "reconcile failed"]


def _retries(running: RunningControllers, name: str) -> int:
    (controller,) = running.manager.controllers
    assert isinstance(controller, QueueController)
    return controller.queue.requeues(Request(name))


def _given_conditions(status: Case) -> list[str]:
    return [condition["type"] for condition in status.get("conditions", [])]


# ------------------------------------------------------------------ approving

SYNCED_APPROVALS = [case for case in APPROVER if "outcome" in case["then"]]


def _reviewer(given: Case) -> Any:
    def review(asked: SubjectAccessReview) -> SubjectAccessReview:
        attributes = asked.spec.resource_attributes
        assert attributes is not None
        canned = given.get("sar_response", {"allowed": attributes.subresource in given.get("sar_allows", ())})
        status = SubjectAccessReviewStatus(
            allowed=canned["allowed"],
            denied=canned.get("denied", False),
            evaluation_error=canned.get("evaluationError", ""),
        )
        return msgspec.structs.replace(asked, status=status)

    return review


@pytest.mark.parametrize("case", SYNCED_APPROVALS, ids=ids(SYNCED_APPROVALS))
@async_test
async def test_approving(case: Case) -> None:
    given, then = case["given"], case["then"]
    async with world() as at:
        at.reviews = _reviewer(given)
        if "approval_http_status" in given:
            at.failures["PUT"] = answer(given["approval_http_status"])
        await at.put(CERTIFICATE_SIGNING_REQUESTS, _csr(given["csr"]))
        with capture_logs() as logs:
            running = await at.run(csr_approving.NAME)
        name = given["csr"]["name"]
        after = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)
        failures = _failed(logs)
        reviews = [obj for how, obj in at.calls if how == "SAR"]
        match then["outcome"]:
            case "approved":
                assert failures == []
                _check_condition(at.writes("PUT")[-1], then.get("appended_condition", {"type": "Approved"}))
                kinds = [condition.type for condition in after.status.conditions]
                assert kinds == [*_given_conditions(given["csr"]["status"]), "Approved"]
                assert kinds == then.get("conditions_after", kinds)
                assert after.status.conditions[-1].last_update_time is not None
            case "no-op":
                assert failures == [] and at.calls == []
            case "ignorable-error":
                assert failures == [("debug", then["error"])]
                assert at.writes() == []
            case "error":
                ((level, text),) = failures
                assert level == "error"
                assert text == then["error"] if "error" in then else text.startswith(then["error_prefix"])
            case other:
                raise AssertionError(f"a case with the outcome {other}")
        assert _retries(running, name) == (1 if "error" in then["outcome"] else 0)
        if "sar_count" in then:
            assert len(reviews) == then["sar_count"]
        for review, wanted in zip(reviews, then.get("sar_requests", reviews), strict=True):
            if wanted is not review:
                _check_review(review, wanted["spec"])


def _check_condition(written: CertificateSigningRequest, wanted: Case) -> None:
    """As it is sent: the approver leaves the times to the server."""
    condition = written.status.conditions[-1]
    for member in ("type", "status", "reason", "message"):
        if member in wanted:
            assert getattr(condition, member) == wanted[member]
    assert condition.last_transition_time is None


def _check_review(review: SubjectAccessReview, wanted: Case) -> None:
    spec, attributes = review.spec, review.spec.resource_attributes
    assert attributes is not None
    assert (spec.user, spec.uid, spec.groups, spec.extra) == (
        wanted["user"], wanted.get("uid", ""), wanted.get("groups", []), wanted.get("extra", {}),
    )  # fmt: skip
    asked = {name: value for name, value in msgspec.structs.asdict(attributes).items() if value}
    assert asked == wanted["resourceAttributes"]


@async_test
async def test_approving_backs_off_as_kubernetes_does() -> None:
    (case,) = [case for case in APPROVER if "requeue_delays_ms" in case["then"]]
    given = case["given"]
    async with world() as at:
        at.reviews = _reviewer(given)
        await at.put(CERTIFICATE_SIGNING_REQUESTS, _csr(given["csr"]))
        running = await at.run(csr_approving.NAME)
        for delay in case["then"]["requeue_delays_ms"]:
            before = len(at.calls)
            await at.clock.run(delay / 1000 - 0.001)
            assert len(at.calls) == before
            await at.clock.run(0.001 + 2e-6)  # a float's last digit may cost the queue a microsecond
            await running.settle()
            assert len(at.calls) == before + 1


def test_every_approver_case_is_played() -> None:
    assert {c["id"] for c in APPROVER} - {c["id"] for c in SYNCED_APPROVALS} == {"ctl-approver-backoff-series"}


# ------------------------------------------------------------------ signing

SYNCED = [case for case in SIGNER if case["when"]["action"] == "sync"]
CONSTRUCTED = [case for case in SIGNER if case["when"]["action"] == "construct-signer" and "cert_file" in case["given"]]
FLAGS = [case for case in SIGNER if case["when"]["action"] == "validate-flags"]


def _stamped(csr: CertificateSigningRequest) -> CertificateSigningRequest:
    """With the times that the server gives every condition; without them it refuses each later write."""
    at = csr.metadata.creation_timestamp
    conditions = [
        msgspec.structs.replace(condition, last_update_time=at, last_transition_time=at)
        for condition in csr.status.conditions
    ]
    return msgspec.structs.replace(csr, status=msgspec.structs.replace(csr.status, conditions=conditions))


def _approved(name: str) -> CertificateSigningRequest:
    conditions = [{"type": "Approved", "status": "True"}]
    signer = wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER
    return _stamped(_csr({"name": name, "signerName": signer, "conditions": conditions}))


def _signing(given: Case, when: Case) -> SigningOptions:
    duration = parse_duration(given["clusterSigningDuration"])
    rules = SigningRules(signing_duration=duration, profile=Profile(when.get("profile", "compatible")))
    pair = PairFiles(str(FIXTURES / f"{given['ca']}.crt"), str(FIXTURES / f"{given['ca']}.key"))
    return SigningOptions(pair, rules=rules)


@pytest.mark.parametrize("case", SYNCED, ids=ids(SYNCED))
@async_test
async def test_signing(case: Case) -> None:
    given, then = case["given"], case["then"]
    now = dt.datetime.fromisoformat(case["when"]["now"])
    csr = _stamped(_csr(given["csr"]))
    if "expirationSeconds" in given:
        csr = msgspec.structs.replace(
            csr, spec=msgspec.structs.replace(csr.spec, expiration_seconds=given["expirationSeconds"])
        )
    async with world(now) as at:
        if "status_http_status" in given:
            at.failures["PUT"] = answer(given["status_http_status"])
        await at.put(CERTIFICATE_SIGNING_REQUESTS, csr)
        with capture_logs() as logs:
            running = await at.run(csr_signing.NAME, signing=_signing(given, case["when"]))
        failures, writes = _failed(logs), at.writes("PUT")
        if case["id"] in REFUSED:
            assert [condition.type for condition in writes[0].status.conditions] == ["Approved", "Failed"]
            return
        match then["outcome"]:
            case "issued":
                _check_issued(writes[0].status, then, now)
            case "failed-condition":
                # A server has never let such a request in, so it does not take the answer either.
                assert failures == [] or not csr.spec.usages
                _check_condition(writes[0], then["appended_condition"])
                assert writes[0].status.conditions[-1].last_update_time == Time.of(now)
                assert writes[0].status.certificate == b""
            case "no-op":
                assert failures == [] and at.calls == []
            case "error":
                ((level, text),) = failures
                assert level == "error"
                assert text == then["error"] if "error" in then else text.startswith(then["error_prefix"])
                assert _retries(running, csr.metadata.name) == 1
            case other:
                raise AssertionError(f"a case with the outcome {other}")


def _check_issued(status: CertificateSigningRequestStatus, then: Case, now: dt.datetime) -> None:
    (certificate,) = x509_certificate.parse_bundle(status.certificate)
    extensions = [{"oid": e.oid, "critical": e.critical, "value_hex": e.value.hex()} for e in certificate.extensions]
    if "certificate" in then:
        assert certificate.subject_name.hex() == then["certificate"]["subject_der_hex"]
        assert certificate.issuer_name.hex() == then["certificate"]["issuer_der_hex"]
        assert extensions == then["certificate"]["extensions"]
    if "span_s" in then:
        assert (certificate.not_before - now).total_seconds() == then["not_before_offset_s"]
        assert (certificate.not_after - now).total_seconds() == then["not_after_offset_s"]


@pytest.mark.parametrize("case", CONSTRUCTED, ids=ids(CONSTRUCTED))
def test_a_pair_that_cannot_be_loaded_keeps_the_signer_from_starting(case: Case) -> None:
    given, then = case["given"], case["then"]
    files = {"<cert>": given["cert_file"], "<key>": given["key_file"]}
    names = {mark: str(FIXTURES / name) if name else "" for mark, name in files.items()}
    pair = PairFiles(names["<cert>"], names["<key>"])
    if not pair.certificate_file:
        with pytest.raises(SignerError, match="cannot specify key without cert"):
            build_signers(SigningOptions(pairs={given["signerName"]: pair}))
        return
    with pytest.raises(SignerError) as refusal:
        build_signers(SigningOptions(pairs={given["signerName"]: pair}))
    text = str(refusal.value)
    for mark, name in names.items():
        text = text.replace(name, mark)
    start = f"failed to init {given['signerName']} certificate controller: "
    assert text.startswith(start + (then["error"] if "error" in then else then["error_prefix"]))


@pytest.mark.parametrize("case", FLAGS, ids=ids(FLAGS))
def test_flags(case: Case) -> None:
    assert _options(case["given"]["flags"]).problems() == case["then"]["errors"]


def _options(flags: dict[str, str]) -> SigningOptions:
    def pair(prefix: str) -> PairFiles:
        return PairFiles(flags.pop(f"--{prefix}-cert-file", ""), flags.pop(f"--{prefix}-key-file", ""))

    flags = dict(flags)
    options = SigningOptions(pair("cluster-signing"), {name: pair(prefix) for name, prefix in FLAG_PREFIXES.items()})
    assert flags == {}
    return options


def test_one_pair_signs_for_all_four() -> None:
    (case,) = [case for case in SIGNER if case["id"] == "ctl-signer-flags-generic"]
    given = case["given"]["flags"]
    files = {"--cluster-signing-cert-file": "ca-ec.crt", "--cluster-signing-key-file": "ca-ec.key"}
    signers = build_signers(_options({flag: str(FIXTURES / files[flag]) for flag in given}))
    assert list(signers) == case["then"]["running_signers"] == list(KUBERNETES_SIGNERS)
    assert signers[KUBERNETES_SIGNERS[0]].rules.signing_duration == parse_duration(case["then"]["duration_default"])


def _write(pair: PairFiles, certificate: str, key: str) -> None:
    Path(pair.certificate_file).write_bytes(fixture(certificate))
    Path(pair.key_file).write_bytes(fixture(key))


@async_test
async def test_a_half_written_pair_is_not_taken_over(tmp_path: Path) -> None:
    (case,) = [case for case in SIGNER if case["when"]["action"] == "sign-next-csr"]
    given = case["given"]
    pair = PairFiles(str(tmp_path / "ca.crt"), str(tmp_path / "ca.key"))
    running_with = given["running_with"]
    _write(pair, f"{running_with}.crt", f"{running_with}.key")
    async with world() as at:
        running = await at.run(csr_signing.NAME, signing=SigningOptions(pair))
        _write(pair, given["files_replaced_by"]["cert"], given["files_replaced_by"]["key"])
        await at.put(CERTIFICATE_SIGNING_REQUESTS, _approved("csr-1"))
        await running.settle()
        (issued,) = at.writes("PUT")
        (certificate,) = x509_certificate.parse_bundle(issued.status.certificate)
        (authority,) = x509_certificate.parse_bundle(fixture(f"{case['then']['issuer_key']}.crt"))
        signature.verify(
            certificate.signature_algorithm, authority.public_key, certificate.signed, certificate.signature
        )


# ------------------------------------------------------------------ cleaning

PODS_CLEANED = "ctl-cleaner-pcr-exact"
CLEANED = [
    case for case in CLEANER if case["when"]["action"] == "pass" and case["id"] not in (*DIFFERENT, PODS_CLEANED)
]

PREDICATES = {
    "issued": "Cleaning CSR as it is more than approvedExpiration duration old and approved.",
    "denied": "Cleaning CSR as it is more than deniedExpiration duration old and denied.",
    "failed": "Cleaning CSR as it is more than deniedExpiration duration old and failed.",
    "pending": "Cleaning CSR as it is more than pendingExpiration duration old and unhandled.",
    "issued-and-expired": "Cleaning CSR as the associated certificate is expired.",
    "approved-unissued": "Cleaning CSR as it is approved but unissued for more than pendingExpiration duration.",
}


@pytest.mark.parametrize("case", CLEANED, ids=ids(CLEANED))
@async_test
async def test_cleaning(case: Case) -> None:
    """Every deletion names the UID, where Kubernetes names nothing."""
    given, then = case["given"], case["then"]
    csr = _csr(given["csr"])
    async with world(dt.datetime.fromisoformat(case["when"]["now"])) as at:
        if "delete_http_status" in given:
            at.failures["DELETE"] = answer(given["delete_http_status"])
        await at.put(CERTIFICATE_SIGNING_REQUESTS, csr)
        with capture_logs() as logs:
            await at.run(csr_cleaner.NAME)
        deletions = at.writes("DELETE")
        lines = [line for line in logs if line["event"] in (*PREDICATES.values(), then.get("log"))]
        match then["outcome"]:
            case "kept":
                assert at.calls == [] and lines == []
                assert await _names(at) == [csr.metadata.name]
            case "deleted":
                assert [line["event"] for line in lines] == [PREDICATES[then["predicate"]]]
                ((name, options),) = deletions
                assert (name, options.preconditions.uid) == (csr.metadata.name, csr.metadata.uid)
                assert await _names(at) == []
            case "error-logged":
                assert lines[-1]["event"] == then["log"]
                assert lines[-1]["err"].startswith(then["error_prefix"])
            case other:
                raise AssertionError(f"a case with the outcome {other}")


async def _names(at: World) -> list[str]:
    return [csr.metadata.name for csr in (await at.client.list(CERTIFICATE_SIGNING_REQUESTS)).items]


@async_test
async def test_the_first_pass_waits_for_the_cache_and_the_next_comes_an_hour_later() -> None:
    (case,) = [case for case in CLEANER if case["id"] == "ctl-cleaner-first-pass-after-sync-kubevouch"]
    assert case["then"]["deleted_in_first_pass"] == case["given"]["csrs"]
    denied = [{"type": "Denied", "status": "True", "lastUpdateTime": "2026-11-21T10:00:00Z"}]
    async with world() as at:
        for name in case["given"]["csrs"]:
            await at.put(CERTIFICATE_SIGNING_REQUESTS, _csr({"name": name, "conditions": denied}))
        running = await at.run(csr_cleaner.NAME)
        assert await _names(at) == []
        await at.put(CERTIFICATE_SIGNING_REQUESTS, _csr({"name": "late", "conditions": denied}))
        await at.clock.run(3599)
        assert await _names(at) == ["late"]
        await at.clock.run(1)
        await running.settle()
        assert await _names(at) == []


@pytest.mark.parametrize(("seconds", "outcome"), [(0, "deleted"), (-1, "kept")])
@async_test
async def test_cleaning_of_pods_requests(seconds: int, outcome: str) -> None:
    (case,) = [case for case in CLEANER if case["id"] == PODS_CLEANED]
    given, then = case["given"]["podcertificaterequest"], case["then"]
    now = dt.datetime.fromisoformat(case["when"]["now"]) + dt.timedelta(seconds=seconds)
    assert then["outcome"] == "deleted"
    async with world(now, "certificates.k8s.io/v1beta1=true") as at:
        created = Time.parse(given["creationTimestamp"])
        metadata = ObjectMeta(
            name=given["name"], namespace=given["namespace"], uid=given["uid"], creation_timestamp=created
        )
        await at.put(POD_CERTIFICATE_REQUESTS, PodCertificateRequest(metadata=metadata))
        running = await at.run(case["when"]["controller"])
        if outcome == "kept":
            assert at.writes("DELETE") == []
            await at.clock.run(pod_certificate_cleaner.INTERVAL_SECONDS)
            await running.settle()
        ((name, options),) = at.writes("DELETE")
        assert (name, options.preconditions.uid) == (given["name"], then["preconditions"]["uid"])
        assert (await at.client.list(POD_CERTIFICATE_REQUESTS)).items == []


def test_every_cleaner_case_is_played_or_named() -> None:
    played = {case["id"] for case in CLEANED} | {"ctl-cleaner-first-pass-after-sync-kubevouch", PODS_CLEANED}
    assert played | DIFFERENT == {case["id"] for case in CLEANER}


# ------------------------------------------------------------------ from request to certificate


@async_test
async def test_a_bootstrap_users_request_becomes_a_certificate() -> None:
    async with world() as at:
        running = await at.run("*")
        kubelet = at.as_user(
            "system:bootstrap:abcdef", "system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token"
        )
        given = _csr({"name": "node-csr", "signerName": wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER})
        await kubelet.create(CERTIFICATE_SIGNING_REQUESTS, given)
        await running.settle()
        csr = await kubelet.get(CERTIFICATE_SIGNING_REQUESTS, "node-csr")
        (approval,) = csr.status.conditions
        assert (approval.type, approval.reason) == ("Approved", "AutoApproved")
        (certificate,) = x509_certificate.parse_bundle(csr.status.certificate)
        assert certificate.subject.common_name == "system:node:n1"
        assert certificate.not_after == NOW + dt.timedelta(days=365, minutes=-5)
        assert at.writes("PUT").count(csr) <= 1


@async_test
async def test_two_signers_issue_once() -> None:
    """As after a lost lease: both read the same version, one write wins, the other finds the certificate."""
    async with world() as at:
        first, second = at.start(csr_signing.NAME), at.start(csr_signing.NAME)
        await first.settle()
        await second.settle()
        for number in range(20):
            await at.put(CERTIFICATE_SIGNING_REQUESTS, _approved(f"csr-{number}"))
        for running in (first, second):
            await running.settle()
        await at.clock.run(1.0)
        for running in (first, second):
            await running.settle()
        stored = {csr.metadata.name: csr for csr in (await at.client.list(CERTIFICATE_SIGNING_REQUESTS)).items}
        assert len(stored) == 20 and all(csr.status.certificate for csr in stored.values())


@async_test
async def test_a_crash_in_one_object_stays_there() -> None:
    async with world() as at:
        running = at.start(csr_approving.NAME)
        at.reviews = None
        (controller,) = running.manager.controllers
        assert isinstance(controller, QueueController)
        reconcile, poisoned = controller._reconciler.reconcile, Request("poison")

        class Poisoned:
            async def reconcile(self, request: Request) -> Any:
                if request == poisoned:
                    raise RuntimeError("a bug")
                return await reconcile(request)

        controller._reconciler = Poisoned()
        given = {"signerName": wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER}
        bootstrap = {"username": "u", "groups": ["system:bootstrappers:kubeadm:default-node-token"]}
        for name in ("poison", "good"):
            csr = _csr({"name": name, "spec": {**given, **bootstrap, "request_fixture": "client-good.csr"}})
            await at.put(CERTIFICATE_SIGNING_REQUESTS, csr)
        with capture_logs() as logs:
            await running.settle()
        assert [line["event"] for line in logs if line["log_level"] == "error"] == ["reconcile crashed"]
        good = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "good")
        assert [condition.type for condition in good.status.conditions] == ["Approved"]
        assert _retries(running, "poison") == 1


@async_test
async def test_an_identity_may_not_do_what_another_controller_does() -> None:
    async with world() as at:
        running = at.start(csr_approving.NAME)
        await running.settle()
        await at.put(CERTIFICATE_SIGNING_REQUESTS, _approved("csr-1"))
        stored = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "csr-1")
        approver = at.server.api.loopback(controller_user(csr_approving.NAME), "test")
        issued = msgspec.structs.replace(
            stored, status=msgspec.structs.replace(stored.status, certificate=fixture("issued-valid.crt"))
        )
        with pytest.raises(APIStatusError) as refusal:
            await approver.update(CERTIFICATE_SIGNING_REQUESTS, issued, subresource="status")
        assert refusal.value.code == 403
