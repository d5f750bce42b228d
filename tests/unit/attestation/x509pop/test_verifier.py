"""Possession of the key of a device's certificate."""

from __future__ import annotations

import base64
import datetime as dt
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

import evidence_cases
from asynctest import async_test
from device_certificates import NOW, Issued, authority, issue
from evidence_cases import Case
from kubevouch.attestation import catalog
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Strength,
    UnsupportedVersionError,
)
from kubevouch.attestation.x509pop.attestor import make_attestor
from kubevouch.attestation.x509pop.evidence import Proof, SignatureForm, signed_message
from kubevouch.attestation.x509pop.verifier import NodeName, X509PopVerifier, make_verifier, verify_proof
from kubevouch.pki import keys
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.testing.clock import FakeClock
from verifier_sources import AROUND

_CASES = [json.loads(line) for line in (Path(__file__).parents[3] / "vectors" / "node.jsonl").read_text().splitlines()]
_FIXTURES = {case["id"]: case["given"] for case in _CASES if case["area"] == "fixtures"}
POSSESSION = [case for case in _CASES if case["when"] == "verify x509 proof of possession"]
ROOT = authority("root")
LINE = authority("line", ROOT)
DEVICE = issue("device-7", LINE, dns=["device-7.factory.example"], uris=["urn:serial:7"])
BINDING = Binding(spki=b"an spki", cluster_id="c", nonce=b"n" * 32)
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)


@pytest.mark.parametrize("case", evidence_cases.of("x509pop"))
def test_evidence_of_real_tools(case: Case) -> None:
    roots = TrustAnchors.from_pem("".join(case.roots).encode())
    proof = Proof(
        certificates=tuple(map(base64.b64decode, case.given["certificates_b64"])),
        client_nonce=case.octets("client_nonce"),
        signature=case.octets("signature"),
        signature_form=case.text("signature_form"),
    )
    case.judge(lambda: verify_proof(proof, roots, nonce=case.nonce, now=case.now))


@pytest.mark.parametrize("case", POSSESSION, ids=[case["id"] for case in POSSESSION])
def test_the_cases(case: dict[str, Any]) -> None:
    given = case["given"]
    proof = Proof(
        certificates=tuple(map(base64.b64decode, given["certificates"])),
        client_nonce=bytes.fromhex(given["client_nonce_hex"]),
        signature=bytes.fromhex(given["signature_der_hex"]),
        signature_form=SignatureForm.ECDSA,
    )
    roots = TrustAnchors.from_pem(_FIXTURES[given["root"]]["pem"].encode())
    now = dt.datetime.fromisoformat(given["now"])
    expected = {
        "chain does not reach the root": "chain",
        "leaf key usage lacks digital signature": "key-usage",
        "leaf expired": "validity",
    }
    step = step_of(proof, roots, bytes.fromhex(given["server_nonce_hex"]), now)
    assert step == ("" if case["then"]["ok"] else expected.get(case["then"]["why"], step or "some step"))


def step_of(
    proof: Proof, roots: TrustAnchors = ROOT.anchors, nonce: bytes = BINDING.digest, now: dt.datetime = NOW
) -> str:
    """The one that fails; empty if none does."""
    try:
        verify_proof(proof, roots, nonce=nonce, now=now)
    except RefusedEvidenceError as err:
        return err.step
    return ""


def prove(device: Issued = DEVICE, *above: Issued, nonce: bytes = BINDING.digest) -> Proof:
    client_nonce = b"c" * 32
    message = signed_message(nonce, client_nonce)
    assert isinstance(device.key, ec.EllipticCurvePrivateKey)
    return Proof(
        certificates=tuple(each.der for each in (device, *(above or (LINE,)))),
        client_nonce=client_nonce,
        signature=device.key.sign(message, ec.ECDSA(hashes.SHA256())),
        signature_form=SignatureForm.ECDSA,
    )


def changed(**fields: Any) -> Proof:
    return msgspec.structs.replace(prove(), **fields)


def raw(signature: bytes) -> bytes:
    return b"".join(each.to_bytes(32, "big") for each in utils.decode_dss_signature(signature))


def by_another_hash() -> Proof:
    assert isinstance(DEVICE.key, ec.EllipticCurvePrivateKey)
    message = signed_message(BINDING.digest, b"c" * 32)
    return changed(signature=DEVICE.key.sign(message, ec.ECDSA(hashes.SHA384())))


@pytest.mark.parametrize(
    ("step", "proof"),
    [
        ("", prove()),
        ("nonce", changed(client_nonce=b"")),
        ("nonce", changed(client_nonce=b"c" * 31)),
        ("nonce", changed(client_nonce=b"c" * 33)),
        ("size", changed(certificates=())),
        ("chain", changed(certificates=(DEVICE.der,))),
        ("ca", changed(certificates=(LINE.der, DEVICE.der))),
        ("structure", changed(certificates=(DEVICE.der + b"\0", LINE.der))),
        ("signature", changed(client_nonce=b"d" * 32)),
        ("signature", prove(nonce=Binding(spki=b"another key", cluster_id="c", nonce=b"n" * 32).digest)),
        ("signature", prove(nonce=Binding(spki=b"an spki", cluster_id="c", nonce=b"m" * 32).digest)),
        ("signature", by_another_hash()),
        ("signature", changed(certificates=(issue("device-8", LINE).der, LINE.der))),
        ("signature", changed(signature=b"\0" * 2000)),
        ("signature-form", changed(signature=raw(prove().signature))),
        ("signature-form", changed(signature=b"")),
        ("signature-form", changed(signature_form="ecdsa-sha256-raw")),
        ("signature-form", changed(signature_form="ecdsa-sha384-der")),
        ("signature-form", changed(signature_form="rsa-pss-sha256")),
        ("signature-form", changed(signature_form="none")),
        ("signature-form", changed(signature_form="")),
    ],
)
def test_tampered_proofs(step: str, proof: Proof) -> None:
    assert step_of(proof) == step


def test_rsa_signatures_of_other_forms() -> None:
    """The certificate is that of a real RSA device; a key of our own would take a test's time to make."""
    case = evidence_cases.named("ev-x509pop-003")
    good = Proof(
        certificates=tuple(map(base64.b64decode, case.given["certificates_b64"])),
        client_nonce=case.octets("client_nonce"),
        signature=case.octets("signature"),
        signature_form="rsa-pss-sha256",
    )
    roots = TrustAnchors.from_pem("".join(case.roots).encode())
    for form in ("rsa-pkcs1v15-sha256", "rsa-pss-sha1", "rsa-pss-sha512", "ecdsa-sha256-der"):
        with pytest.raises(RefusedEvidenceError, match="signature-form"):
            verify_proof(msgspec.structs.replace(good, signature_form=form), roots, nonce=case.nonce, now=case.now)
    # Another form below the right name.
    other = evidence_cases.named("ev-x509pop-011")
    lied = Proof(
        certificates=tuple(map(base64.b64decode, other.given["certificates_b64"])),
        client_nonce=other.octets("client_nonce"),
        signature=other.octets("signature"),
        signature_form="rsa-pss-sha256",
    )
    with pytest.raises(RefusedEvidenceError, match=r"^signature: "):
        verify_proof(lied, roots, nonce=other.nonce, now=other.now)


@pytest.mark.parametrize("salt", [32, 0, 20])
def test_a_salt_of_any_length(salt: int) -> None:
    key = keys.generate(KeyAlgorithm.RSA_2048)
    device = issue("rsa", ROOT, key=key)  # type: ignore[arg-type]
    message = signed_message(BINDING.digest, b"c" * 32)
    digest = hashes.SHA256()
    signature = key.sign(message, padding.PSS(padding.MGF1(digest), salt), digest)  # type: ignore[call-arg, arg-type]
    proof = Proof(
        certificates=(device.der,), client_nonce=b"c" * 32, signature=signature, signature_form="rsa-pss-sha256"
    )
    verify_proof(proof, ROOT.anchors, nonce=BINDING.digest, now=NOW)


def evidence(proof: Proof, version: str = "v1") -> Evidence:
    return Evidence(provider="x509pop", version=version, data=msgspec.json.encode(proof), challenge="attest-1")


def verifier(**settings: Any) -> X509PopVerifier:
    return make_verifier({"roots": ROOT.pem, **settings}, AROUND)


async def attested(proof: Proof, **settings: Any) -> Attested:
    return await verifier(**settings).verify_client(evidence(proof), BINDING, Challenge(), NOW)


@async_test
async def test_what_is_known_afterwards() -> None:
    known = await attested(prove())
    assert (known.provider, known.version, known.strength, known.renewable) == ("x509pop", "v1", Strength.KEY, True)
    assert known.identity.startswith("sha256:")
    assert len(known.identity) == 71
    assert (known.node_name, known.dns_names) == ("", ("device-7.factory.example",))
    assert {each.name: each.value for each in known.claims}["x509pop.uri"] == "urn:serial:7"
    serving = await verifier().verify_serving(known, ["DEVICE-7.factory.example", "10.0.0.1", "a"], NOW)
    assert serving == {"DEVICE-7.factory.example": "x509pop"}


@async_test
async def test_a_certificate_that_is_renewed_for_its_key_is_the_same_device() -> None:
    renewed = issue("device-7", LINE, key=DEVICE.key)
    assert (await attested(prove(renewed))).identity == (await attested(prove())).identity
    assert (await attested(prove(issue("device-7", LINE)))).identity != (await attested(prove())).identity


@async_test
async def test_names_that_the_factory_gave() -> None:
    assert (await attested(prove(), nodeName="commonName")).node_name == "device-7"
    assert (await attested(prove(), nodeName="dnsName")).node_name == "device-7.factory.example"
    for device, setting in (
        (issue("Device 7", LINE), "commonName"),
        (issue("a/../b", LINE), "commonName"),
        (issue("device-7\n", LINE), "commonName"),
        (issue("d", LINE), "dnsName"),
        (issue("d", LINE, dns=["a.example", "b.example"]), "dnsName"),
        (issue("d", LINE, dns=["*.example"]), "dnsName"),
    ):
        with pytest.raises(RefusedEvidenceError, match=r"^name: "):
            await attested(prove(device), nodeName=setting)


@async_test
async def test_a_ca_that_is_held_to_names_cannot_give_others_in_a_common_name() -> None:
    held = authority("held", ROOT, permitted=["line1.example"])
    with pytest.raises(RefusedEvidenceError, match=r"^name: "):
        await attested(prove(issue("control-plane-1", held), held), nodeName=NodeName.COMMON_NAME)


@async_test
async def test_revoked_certificates() -> None:
    for certificate in (DEVICE, LINE):
        digest = certificate.certificate.fingerprint(hashes.SHA256()).hex()
        with pytest.raises(RefusedEvidenceError, match=r"^revoked: "):
            await attested(prove(), revoked=[digest.upper()])


@async_test
async def test_what_is_asked_before_the_proof_is_looked_at() -> None:
    with pytest.raises(UnsupportedVersionError) as caught:
        await verifier().verify_client(evidence(prove(), "v2"), BINDING, Challenge(), NOW)
    assert caught.value.supported == ("v1",)
    with pytest.raises(RefusedEvidenceError, match=r"^nonce: got no challenge"):
        await verifier().verify_client(evidence(prove()), BINDING, None, NOW)
    twice = msgspec.json.encode(prove())[:-1] + b',"signature":"AA=="}'
    for step, text in (("structure", b"{}"), ("structure", b"[]"), ("duplicate-key", twice)):
        with pytest.raises(RefusedEvidenceError) as refused:
            await verifier().verify_client(
                Evidence(provider="x509pop", version="v1", data=text), BINDING, Challenge(), NOW
            )
        assert refused.value.step == step


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"roots": ""}, {"roots": "no pem"}, {"roots": issue("no ca").pem}, {"rootsFile": "/nowhere"},
        {"roots": ROOT.pem, "rootsFile": "/nowhere"}, {"roots": ROOT.pem, "nodeName": "label"},
        {"roots": ROOT.pem, "more": 1}, {"roots": 7},
    ],
)  # fmt: skip
def test_settings_that_it_cannot_work_with(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="settings of x509pop"):
        make_verifier(settings, AROUND)


@async_test
async def test_the_node_s_side_proves_what_the_server_s_side_asks(tmp_path: Path) -> None:
    certificate, key = DEVICE.write(tmp_path, LINE)
    (tmp_path / "roots.pem").write_text(ROOT.pem)
    attestor = await catalog.attestor("x509pop")({"certificate": str(certificate), "key": str(key)}, FakeClock())
    verify = catalog.verifier("x509pop")({"rootsFile": str(tmp_path / "roots.pem")}, AROUND)
    shown = await attestor.attest("v1", KEY, BINDING, None)
    proof = Evidence(provider="x509pop", version="v1", data=shown, challenge="a")
    assert (await verify.verify_client(proof, BINDING, Challenge(), NOW)).strength is Strength.KEY
    assert shown != await attestor.attest("v1", KEY, BINDING, None)
    await attestor.close()


@async_test
async def test_a_pair_that_is_none(tmp_path: Path) -> None:
    certificate, key = DEVICE.write(tmp_path, LINE)
    other = tmp_path / "other"
    other.mkdir()
    _, another_key = issue("d").write(other)
    loose = tmp_path / "loose.key"
    loose.write_bytes(key.read_bytes())
    loose.chmod(0o644)
    for settings, expected in (
        ({"certificate": str(certificate)}, "key"),
        ({"certificate": str(certificate), "key": str(another_key)}, "is not the key of"),
        ({"certificate": str(key), "key": str(key)}, "certificate"),
        ({"certificate": str(certificate), "key": str(certificate)}, "key"),
        ({"certificate": str(tmp_path / "none"), "key": str(key)}, "No such file"),
        ({"certificate": str(certificate), "key": str(loose)}, "expected 0600"),
    ):
        with pytest.raises(SettingsError, match=expected):
            await make_attestor(settings, FakeClock())
