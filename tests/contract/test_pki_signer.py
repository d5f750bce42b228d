"""The pure halves of the signer and approver cases of ``controllers.jsonl``: parsing, shape, lifetime, recognition.

What a controller reads and writes around them (conditions already there, SubjectAccessReviews, retries, flags) is
played by the controllers' own tests; :data:`LEFT` names every such case, so that none is dropped unseen.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from kubevouch.machinery.text.gotext import parse_duration, quote
from kubevouch.pki import issuance, policy, recognizers
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import AuthorityError, ParseError, PKIError, PolicyError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.profile import Profile, verify_profile
from kubevouch.pki.x509 import der, x509_certificate, x509_request
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER, KUBELET_SERVING_SIGNER

VECTORS = Path(__file__).parents[1] / "vectors"
FIXTURES = VECTORS / "fixtures-controllers"


def _cases(area: str) -> dict[str, dict[str, Any]]:
    lines = (VECTORS / "controllers.jsonl").read_text().splitlines()
    return {case["id"]: case for case in map(json.loads, lines) if case["area"] == area}


SIGNER = _cases("signer")
APPROVER = _cases("approver")

LEFT = {
    # The controller's own order of checks and its writes.
    "ctl-signer-flow-approved-and-denied",
    "ctl-signer-flow-failed-empty-status",
    "ctl-signer-flow-has-certificate",
    "ctl-signer-status-write-409",
    # Which files are read when, and what the program is started with.
    "ctl-signer-ca-reload-half-written",
    "ctl-signer-flags-both",
    "ctl-signer-flags-key-only-kubelet-client",
    "ctl-signer-flags-key-only-kube-apiserver-client",
    "ctl-signer-flags-key-only-legacy-unknown",
    "ctl-signer-flags-generic",
    # What the approver asks of the API server, and what it makes of the answers.
    "ctl-approver-backoff-series",
    "ctl-approver-sar-denied-flag-ignored",
    "ctl-approver-sar-evaluation-error-ignored",
    "ctl-approver-approval-conflict-409",
    "ctl-approver-already-approved-status-false",
}

# What Kubernetes signs and this package does in no profile, and why not.
REFUSED = {
    "ctl-signer-client-nul-cn": "is not a node name",
    "ctl-signer-profile-cn-nul-cn": "is not a node name",
    "ctl-signer-user-system-masters-not-refused-by-signer": "never issues the system:masters group",
}


def _action(case: dict[str, Any]) -> str:
    action: str = case["when"]["action"]
    return action


SYNC = [c for i, c in SIGNER.items() if _action(c) == "sync" and i not in LEFT]
PARSE = [c for c in SIGNER.values() if _action(c) == "parse-request"]
CONSTRUCT = [c for c in SIGNER.values() if _action(c) == "construct-signer"]
DEFAULTS = [c for c in SIGNER.values() if _action(c) == "default-signerName"]
APPROVE = [c for i, c in APPROVER.items() if i not in LEFT]


def _ids(cases: list[dict[str, Any]]) -> list[str]:
    return [case["id"] for case in cases]


def test_every_case_is_played_or_named_as_left() -> None:
    played = {case["id"] for cases in (SYNC, PARSE, CONSTRUCT, DEFAULTS, APPROVE) for case in cases}
    assert played.isdisjoint(LEFT)
    assert played | LEFT == SIGNER.keys() | APPROVER.keys()


def _authority(name: str) -> CertificateAuthority:
    return CertificateAuthority.load(
        (FIXTURES / f"{name}.crt").read_bytes(),
        (FIXTURES / f"{name}.key").read_bytes(),
        certificate_file="<cert>",
        key_file="<key>",
    )


def _time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def _sync(case: dict[str, Any]) -> x509_certificate.Certificate:
    """What the signing controller asks of this package, with the texts it puts around."""
    given = case["given"]
    spec = given["csr"]["spec"]
    try:
        request = x509_request.parse_pem((FIXTURES / spec["request_fixture"]).read_bytes())
    except ParseError as error:
        raise ParseError(f"unable to parse csr {quote(given['csr']['name'])}: {error}") from error
    serial = given.get("injected_serial_hex")
    try:
        return issuance.issue(
            _authority(given["ca"]),
            request,
            signer_name=spec["signerName"],
            usages=spec["usages"],
            expiration_seconds=spec.get("expirationSeconds", given.get("expirationSeconds")),
            now=_time(case["when"]["now"]),
            rules=SigningRules(
                signing_duration=parse_duration(given["clusterSigningDuration"]),
                profile=Profile(case["when"].get("profile", "compatible")),
                verify_signature=True,
            ),
            serial=None if serial is None else int(serial, 16),
        )
    except PolicyError:
        raise
    except PKIError as error:
        raise AuthorityError(f"error auto signing csr: {error}") from error


@pytest.mark.parametrize("case", SYNC, ids=_ids(SYNC))
def test_signing(case: dict[str, Any]) -> None:
    then = case["then"]
    if case["id"] in REFUSED:
        assert then["outcome"] == "issued"
        with pytest.raises(PolicyError, match=REFUSED[case["id"]]):
            _sync(case)
        return
    if then["outcome"] == "failed-condition":
        with pytest.raises(PolicyError) as refusal:
            _sync(case)
        condition = then["appended_condition"]
        assert str(refusal.value) == condition["message"]
        assert condition["reason"] == policy.FAILED_REASON
        return
    if then["outcome"] == "error":
        with pytest.raises(PKIError) as failure:
            _sync(case)
        assert str(failure.value) == then["error"]
        return
    assert then["outcome"] == "issued"
    _check_issued(_sync(case), case)


def _check_issued(certificate: x509_certificate.Certificate, case: dict[str, Any]) -> None:
    then = case["then"]
    values = {extension.oid: extension.value.hex() for extension in certificate.extensions}
    assert certificate.pem().count(b"-----BEGIN CERTIFICATE-----") == then.get("pem_blocks", 1)
    if "extension_oids" in then:
        assert list(values) == then["extension_oids"]
    if "key_usage_hex" in then:
        assert values["2.5.29.15"] == then["key_usage_hex"]
        assert values["2.5.29.19"] == then["basic_constraints_hex"]
    if "span_s" in then:
        now = _time(case["when"]["now"])
        assert (certificate.not_before - now).total_seconds() == then["not_before_offset_s"]
        assert (certificate.not_after - now).total_seconds() == then["not_after_offset_s"]
        assert (certificate.not_after - certificate.not_before).total_seconds() == then["span_s"]
    if "certificate" in then:
        _check_fields(certificate, then["certificate"])
        assert hashlib.sha256(certificate.signed).hexdigest() == then["tbs_sha256"]
    if "der_sha256" in then:
        assert certificate.fingerprint().hex() == then["der_sha256"]


def _check_fields(certificate: x509_certificate.Certificate, fields: dict[str, Any]) -> None:
    assert certificate.version == fields["version"]
    assert certificate.serial == int(fields["serial_hex"], 16)
    assert certificate.issuer_name.hex() == fields["issuer_der_hex"]
    assert certificate.subject_name.hex() == fields["subject_der_hex"]
    assert certificate.not_before == _time(fields["not_before"])
    assert certificate.not_after == _time(fields["not_after"])
    assert [
        {"oid": e.oid, "critical": e.critical, "value_hex": e.value.hex()} for e in certificate.extensions
    ] == fields["extensions"]
    assert der.encode_object_identifier(fields["signature_algorithm_oid"]) in certificate.contents


@pytest.mark.parametrize("case", PARSE, ids=_ids(PARSE))
def test_parser_differentials(case: dict[str, Any]) -> None:
    spec = case["given"]["csr"]["spec"]
    text = (FIXTURES / spec["request_fixture"]).read_bytes()
    then = case["then"]
    if then["outcome"] == "parsed":
        request = x509_request.parse_pem(text)
        assert request.subject.common_name == then["CN"]
        assert list(request.subject.organizations) == then["O"]
    elif case["when"].get("profile") == "strict":
        request = x509_request.parse_pem(text)
        with pytest.raises(PolicyError, match="version"):
            verify_profile(Profile.STRICT, spec["signerName"], request, spec["usages"])
    else:
        with pytest.raises(ParseError) as refusal:
            x509_request.parse_pem(text)
        assert str(refusal.value) == then["error"]


@pytest.mark.parametrize("case", CONSTRUCT, ids=_ids(CONSTRUCT))
def test_constructing_a_signer(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]

    def construct() -> None:
        if "ca" in given:
            request = x509_request.parse_pem((FIXTURES / "client-good.csr").read_bytes())
            policy.verify_shape(given["signerName"], request, [])
        else:
            CertificateAuthority.load(
                (FIXTURES / given["cert_file"]).read_bytes() if given["cert_file"] else b"",
                (FIXTURES / given["key_file"]).read_bytes(),
                certificate_file="<cert>" if given["cert_file"] else "",
                key_file="<key>",
            )

    with pytest.raises(AuthorityError) as refusal:
        construct()
    if "error" in then:
        assert str(refusal.value) == then["error"]
    else:
        assert str(refusal.value).startswith(then["error_prefix"])


@pytest.mark.parametrize("case", DEFAULTS, ids=_ids(DEFAULTS))
def test_v1beta1_default_signer_name(case: dict[str, Any]) -> None:
    given = case["given"]
    request = x509_request.parse_pem((FIXTURES / given["request_fixture"]).read_bytes())
    assert policy.default_signer_name(request, given["usages"]) == case["then"]["signerName"]


@pytest.mark.parametrize("case", APPROVE, ids=_ids(APPROVE))
def test_recognising(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]
    csr = given["csr"]
    spec = csr["spec"]
    text = (FIXTURES / spec["request_fixture"]).read_bytes()
    if then["outcome"] == "error":
        with pytest.raises(ParseError) as refusal:
            x509_request.parse_pem(text)
        assert f"unable to parse csr {quote(csr['name'])}: {refusal.value}" == then["error"]
        return
    request = x509_request.parse_pem(text)
    recognized = recognizers.recognize(spec["signerName"], request, spec["usages"], username=spec["username"])
    allowed = [r for r in recognized if r.subresource in given["sar_allows"]]
    if then["outcome"] == "approved":
        if "appended_condition" in then:
            assert allowed[0].message == then["appended_condition"]["message"]
            assert then["appended_condition"]["reason"] == recognizers.APPROVED_REASON
        assert allowed
    elif then["outcome"] == "ignorable-error":
        assert not allowed
        assert recognizers.not_approved(csr["name"], recognized) == then["error"]
        assert len(recognized) == then.get("sar_count", len(recognized))
    else:
        assert then["outcome"] == "no-op"
        assert recognized == ()
    if "parsed" in then:
        assert request.subject.common_name == then["parsed"]["CN"]
        assert list(request.subject.organizations) == then["parsed"]["O"]
    if "reason" in then:
        with pytest.raises(PolicyError) as shape:
            policy.verify_shape(KUBE_APISERVER_CLIENT_KUBELET_SIGNER, request, spec["usages"])
        assert str(shape.value) == then["reason"]


ORDINARY = (
    *(f"client-{name}" for name in ("good", "good-rsa", "good-p384", "good-p521", "good-ed25519", "good-pss")),
    *(f"serving-{name}" for name in ("good", "dns", "ip")),
)


@pytest.mark.parametrize("name", ORDINARY)
def test_what_kubelets_and_kubeadm_ask_for_passes_the_strict_profile(name: str) -> None:
    request = x509_request.parse_pem((FIXTURES / f"{name}.csr").read_bytes())
    serving = name.startswith("serving")
    signer = KUBELET_SERVING_SIGNER if serving else KUBE_APISERVER_CLIENT_KUBELET_SIGNER
    usages = ("digital signature", "server auth" if serving else "client auth")
    policy.verify_shape(signer, request, usages)
    verify_profile(Profile.STRICT, signer, request, usages)
    verify_profile(Profile.STRICT, signer, request, (*usages, "key encipherment"))
