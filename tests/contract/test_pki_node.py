"""The pure halves of ``node.jsonl``: JWS, pins, CSR names, rotation, serving names, and the shape of what is approved.

:data:`LEFT` names the cases of these areas that are about calls, loops or files, and are played by their owners.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import json
import math
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from kubevouch.agent.rotation_plan import Retries
from kubevouch.pki import authority, csr_name, issuance, jws, keys, pins, policy, recognizers, rotation
from kubevouch.pki.errors import (
    IncompatibleRequestError,
    NameSquattedError,
    PinError,
    PKIError,
    PolicyError,
    SignatureError,
)
from kubevouch.pki.x509 import request_builder, usages, x509_certificate, x509_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames

VECTORS = Path(__file__).parents[1] / "vectors"
NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)

ALL: dict[str, dict[str, Any]] = {
    case["id"]: case for case in map(json.loads, (VECTORS / "node.jsonl").read_text().splitlines())
}
AREAS = ("jws", "pinning", "csr", "rotation", "serving", "approver")
MINE = {name: case for name, case in ALL.items() if case["area"] in AREAS}

LEFT = {
    # bootstrap-signer controller: which Secrets sign, and how often it writes.
    "jws-016",
    "jws-017",
    "jws-019",
    "jws-022",
    # The agent's calls: what it does about a 409 on a generated name, and about servers without v1.
    "csr-011",
    "csr-012",
    # signerName syntax belongs to the validation of the API group.
    "csr-016",
    "csr-017",
    # The rotation loop around the deadline, and the key it reuses: tests/unit/agent/test_certificate_manager.py.
    "rotation-016",
    "rotation-017",
    # The serving manager's loop (tests/unit/agent/test_certificate_manager.py), and a TLS listener, which is kubelet's.
    "serving-009",
    "serving-010",
    # kubevouch's own approver of serving certificates, which compares with the Node object.
    "approver-017",
    "approver-018",
    "approver-021",
    # The cleaner.
    "approver-025",
    "approver-026",
    "approver-028",
    "approver-030",
}
PLAYED = [case for name, case in MINE.items() if name not in LEFT]


def _of(area: str) -> list[dict[str, Any]]:
    return [case for case in PLAYED if case["area"] == area]


def _ids(cases: list[dict[str, Any]]) -> list[str]:
    return [case["id"] for case in cases]


def test_the_cases_left_to_others_exist() -> None:
    assert MINE.keys() >= LEFT
    assert {case["area"] for case in PLAYED} == set(AREAS)


def _pem(name: str) -> bytes:
    text: str = ALL[name]["given"]["pem"]
    return text.encode()


def _certificate(name: str) -> x509_certificate.Certificate:
    return x509_certificate.parse_pem(_pem(name))


def _key(label: str) -> ec.EllipticCurvePrivateKey:
    """The rule of ``fx-keys``."""
    scalar = int.from_bytes(hashlib.sha256(label.encode()).digest(), "big") % (1 << 255)
    return ec.derive_private_key(scalar, ec.SECP256R1())


def _time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


@pytest.mark.parametrize("case", _of("jws"), ids=_ids(_of("jws")))
def test_jws(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]
    token_id, _, secret = given["token"].partition(".")
    content = given["content"].encode()
    if case["when"] == "sign detached":
        assert jws.sign(content, token_id, secret) == then["value"]
    elif then["ok"]:
        assert jws.verify(given["value"], content, token_id, secret) == content
    else:
        with pytest.raises(SignatureError, match="failed to verify JWS signature"):
            jws.verify(given["value"], content, token_id, secret)


@pytest.mark.parametrize("name", ["fx-kubeconfig-alpha", "fx-kubeconfig-alpha-beta", "fx-kubeconfig-beta"])
def test_signed_kubeconfigs(name: str) -> None:
    text = ALL[name]["given"]["text"]
    for token, value in ALL[name]["then"]["jws_for_token"].items():
        token_id, _, secret = token.partition(".")
        entries = {"kubeconfig": text, f"jws-kubeconfig-{token_id}": value}
        assert jws.verify_cluster_info(entries, token_id, secret) == text


BOOTSTRAP_SIGNER_JWS = [
    case
    for case in map(json.loads, (VECTORS / "controllers.jsonl").read_text().splitlines())
    if case["area"] == "bootstrapsigner" and case["when"]["action"] in {"compute-jws", "verify-jws"}
]


@pytest.mark.parametrize("case", BOOTSTRAP_SIGNER_JWS, ids=_ids(BOOTSTRAP_SIGNER_JWS))
def test_jws_vectors_of_the_bootstrap_signer(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]
    content = given["content"].encode()
    if case["when"]["action"] == "compute-jws":
        assert jws.sign(content, given["id"], given["secret"]) == then["jws"]
    elif then["valid"]:
        assert jws.verify(given["jws"], content, given["id"], given["secret"]) == content
    else:
        with pytest.raises(SignatureError):
            jws.verify(given["jws"], content, given["id"], given["secret"])


CA_FIXTURES = [name for name, case in ALL.items() if case["area"] == "fixtures" and "pin" in case["then"]]


@pytest.mark.parametrize("name", CA_FIXTURES)
def test_pins_of_the_fixtures(name: str) -> None:
    assert pins.pin_of(_certificate(name)) == ALL[name]["then"]["pin"]


@pytest.mark.parametrize("case", _of("pinning"), ids=_ids(_of("pinning")))
def test_pinning(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]
    if case["when"] == "hash":
        assert pins.pin_of(_certificate(given["cert"])) == then["value"]
        return
    if case["when"] == "check" and then.get("ok", True):
        bundle = [_certificate(name) for name in given["bundle"]]
        trusted = pins.verify(pins.parse(given["pins"]), bundle)
        # Recommended over kubeadm's "any pin admits the whole bundle": what is not pinned is not trusted.
        assert trusted == tuple(bundle[:1])
        return
    with pytest.raises(PinError) as refusal:
        pins.verify(pins.parse(given["pins"]), [_certificate(name) for name in given.get("bundle", [])])
    assert then.get("error_contains", "") in str(refusal.value)


@pytest.mark.parametrize("case", _of("csr"), ids=_ids(_of("csr")))
def test_csr(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]
    if case["when"] == "digested name":
        key = keys.public_key_of(_key(given["key"]))
        subject = Subject(common_name=given["cn"], organizations=tuple(given["o"]))
        assert csr_name.digested_name(key.info, subject, given["usages"]) == then["name"]
    elif case["when"] == "usages client":
        assert usages.usages_for_key("client auth", rsa=False) == tuple(then["usages"])
    else:
        assert case["when"] == "request with fixed name"
        with pytest.raises(IncompatibleRequestError) as refusal:
            _verify_found(given)
        assert not isinstance(refusal.value, NameSquattedError)
        assert then["error_contains"] in str(refusal.value)


def _verify_found(given: dict[str, Any]) -> None:
    existing = given["existing"]
    key = _key(given["my_key"])
    certificate = b""
    if "status.certificate" in existing:
        ca = authority.create_authority("ca", _key("ca alpha"), now=NOW - dt.timedelta(days=3))
        spec = authority.LeafSpec(common_name="x", purposes=("client auth",), validity=dt.timedelta(days=1))
        certificate = authority.issue_leaf(ca, spec, key, now=NOW - dt.timedelta(days=2)).pem()
    own = csr_name.OwnRequest(
        subject=Subject(common_name="system:node:worker-7", organizations=("system:nodes",)),
        public_key=keys.public_key_of(key),
        signer_name="kubernetes.io/kube-apiserver-client-kubelet",
        usages=("digital signature", "client auth"),
    )
    found = csr_name.FoundRequest(
        request=_pem(existing["spec.request"]),
        signer_name=existing["spec.signerName"],
        usages=own.usages,
        certificate=certificate,
    )
    csr_name.verify_found(found, own, now=NOW)


@pytest.mark.parametrize("case", _of("rotation"), ids=_ids(_of("rotation")))
def test_rotation(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]
    match case["when"]:
        case "deadline":
            _check_deadline(given, then)
        case "satisfies":
            wanted = rotation.WantedCertificate(
                common_name=given["template"]["cn"],
                organizations=tuple(given["template"]["o"]),
                alt_names=_names(given["template"]),
            )
            assert rotation.satisfies(_issue_with(given["cert"]), wanted) is then["value"]
        case "back-off schedule":
            # Kubernetes' at most: the jitter is ours, as docs/compatibility.md says.
            retries = Retries(lambda: 1.0)
            delays = [retries.delay(spent=False, left=dt.timedelta()) for _ in range(7)]
            assert delays == [*then["sleeps_s"], *[then["then_every_s"]] * 3]
        case "metric ttl":
            expected = math.inf if then["value"] == "+Inf" else then["value"]
            assert rotation.seconds_to_expiry(_time(given["notAfter"]), now=_time(given["now"])) == expected
        case other:
            assert other == "issue"
            _check_lifetime(given, then)


def _check_deadline(given: dict[str, Any], then: dict[str, Any]) -> None:
    start, end = _time(given["notBefore"]), _time(given["notAfter"])
    if given.get("force"):
        certificate = _issue_with({"cn": "x", "o": [], "dns": [], "ips": []})
        now = _time(given["now"])
        assert rotation.next_rotation(certificate, None, now=now, draw=0.5, forced=True) == _time(then["at"])
    elif "draws" in given:
        earliest, latest = map(_time, then["all_between"])
        deadlines = [rotation.rotation_deadline(start, end, n / given["draws"]) for n in range(given["draws"])]
        assert all(earliest <= deadline < latest for deadline in deadlines)
    else:
        assert rotation.rotation_deadline(start, end, given["random_0_1"]) == _time(then["at"])


def _check_lifetime(given: dict[str, Any], then: dict[str, Any]) -> None:
    duration = dt.timedelta(hours=given.get("cluster_signing_duration_h", 8760))
    ttl = policy.lifetime(given.get("csr_expirationSeconds"), duration)
    if "ttl_h" in then:
        assert ttl == dt.timedelta(hours=then["ttl_h"])
        return
    end = _time(given["ca_notAfter"]) if "ca_notAfter" in given else NOW + dt.timedelta(days=3650)
    period = policy.validity(_time(given["now"]), ttl, end)
    assert period.not_after == _time(then["notAfter"])
    if "notBefore" in then:
        assert period.not_before == _time(then["notBefore"])


def _names(of: dict[str, Any]) -> SubjectAltNames:
    return SubjectAltNames(
        dns_names=tuple(of["dns"]), ip_addresses=tuple(ipaddress.ip_address(address) for address in of["ips"])
    )


def _issue_with(of: dict[str, Any]) -> x509_certificate.Certificate:
    ca = authority.create_authority("ca", _key("ca alpha"), now=NOW)
    spec = authority.LeafSpec(
        common_name=of["cn"], organizations=tuple(of["o"]), purposes=("server auth",), alt_names=_names(of)
    )
    return authority.issue_leaf(ca, spec, _key("kubelet worker-7"), now=NOW)


@pytest.mark.parametrize("case", _of("serving"), ids=_ids(_of("serving")))
def test_serving(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]
    addresses = given.get("addresses", given.get("addresses_change_to"))
    names = rotation.serving_names([(address["type"], address["address"]) for address in addresses])
    assert names is not None
    if case["when"] == "template":
        assert [str(address) for address in names.ip_addresses] == then["ips"]
        assert list(names.dns_names) == then.get("dns", [])
        return
    split = {
        "dns": [n for n in given["cert_sans"] if n[0].isalpha()],
        "ips": [n for n in given["cert_sans"] if n[0].isdigit()],
    }
    current = _issue_with({"cn": "system:node:worker-7", "o": ["system:nodes"], **split})
    wanted = rotation.WantedCertificate(
        common_name="system:node:worker-7", organizations=("system:nodes",), alt_names=names
    )
    assert rotation.satisfies(current, wanted) is (then["action"] == "none")


@pytest.mark.parametrize("case", _of("approver"), ids=_ids(_of("approver")))
def test_approver_and_signer_shapes(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]
    request = x509_request.verify_signature(x509_request.parse_pem(_pem(given["request"])))
    if case["when"] == "sign":
        ca = authority.create_authority("ca", _key("ca alpha"), now=NOW)
        with pytest.raises(PolicyError) as refusal:
            issuance.issue(
                ca, request, signer_name=given["signerName"], usages=given["usages"], expiration_seconds=None, now=NOW
            )
        assert str(refusal.value) == then["message"]
        return
    recognized = recognizers.recognize(given["signerName"], request, given["usages"], username=given["username"])
    allowed = [r for r in recognized if given.get("sar", {}).get(r.subresource)]
    assert bool(allowed) is then["approved"]
    if "message" in then:
        assert allowed[0].message == then["message"]


REQUEST_FIXTURES = [n for n, c in ALL.items() if c["area"] == "fixtures" and "spki_sha256" in c["then"]]


@pytest.mark.parametrize("name", REQUEST_FIXTURES)
def test_keys_of_the_request_fixtures(name: str) -> None:
    request = x509_request.verify_signature(x509_request.parse_pem(_pem(name)))
    assert request.public_key.fingerprint().hex() == ALL[name]["then"]["spki_sha256"]
    if name != "fx-csr-client-key2":
        assert request.public_key == keys.public_key_of(_key("kubelet worker-7"))


ATTESTED = [c for c in ALL.values() if c["area"] == "attest-format" and "request" in c["given"]]


@pytest.mark.parametrize("case", ATTESTED, ids=_ids(ATTESTED))
def test_evidence_behind_the_request_changes_nothing(case: dict[str, Any]) -> None:
    """What the blocks behind the first one mean is the attestation package's; here they are not seen at all."""
    text = case["given"]["request"].encode()
    first = text[: text.index(b"-----END") + text[text.index(b"-----END") :].index(b"\n") + 1]
    try:
        expected = x509_request.parse_pem(first)
    except PKIError as refusal:
        with pytest.raises(type(refusal)):
            x509_request.parse_pem(text)
    else:
        assert x509_request.parse_pem(text) == expected


def test_a_request_is_built_as_the_fixtures_are() -> None:
    """Apart from the signature and the string type (UTF8String there), which Go also writes differently."""
    subject = Subject(common_name="system:node:worker-7", organizations=("system:nodes",))
    built = x509_request.parse_pem(request_builder.build_request(_key("kubelet worker-7"), subject))
    fixture = x509_request.parse_pem(_pem("fx-csr-client"))
    assert built.subject == fixture.subject
    assert built.public_key == fixture.public_key
    assert built.extensions == fixture.extensions == ()
