"""The four signers for every kind of key, field by field, against a certificate that another library writes.

The recordings of kube-controller-manager (controllers.jsonl) have elliptic keys on P-256 nearly alone; the profile that
they show is written down again here with the builder of ``cryptography``, and compared to the byte.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa, rsa
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

import identity_world as world
from kubevouch.pki import issuance
from kubevouch.pki.authority import CertificateAuthority, create_authority
from kubevouch.pki.errors import PolicyError, SignatureError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.profile import Profile
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames

NOW = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
SERIAL = 0x0123456789ABCDEF0123456789ABCDEF
KEYS: dict[str, PrivateKey] = {
    "RSA": rsa.generate_private_key(65537, 2048),
    "P-256": ec.generate_private_key(ec.SECP256R1()),
    "P-384": ec.generate_private_key(ec.SECP384R1()),
    "P-521": ec.generate_private_key(ec.SECP521R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate(),
}
CAS = {name: create_authority("kubernetes", key, now=NOW) for name, key in KEYS.items()}
ML_DSA = mldsa.MLDSA44PrivateKey.generate()
HASHES: dict[str, Any] = {
    "RSA": hashes.SHA256(),
    "P-256": hashes.SHA256(),
    "P-384": hashes.SHA384(),
    "P-521": hashes.SHA512(),
    "Ed25519": None,
}
SIGNERS = (world.NODE_CLIENT, world.NODE_SERVING, world.CLIENT, world.LEGACY)


def asked(signer: str, key: PrivateKey) -> tuple[bytes, tuple[str, ...]]:
    node = signer in (world.NODE_CLIENT, world.NODE_SERVING)
    subject = world.node_subject("worker-1") if node else Subject(common_name="jane", organizations=("dev",))
    names = SubjectAltNames()
    if signer != world.NODE_CLIENT:
        names = SubjectAltNames(dns_names=("worker-1",), ip_addresses=(ipaddress.ip_address("10.0.0.7"),))
    usages = ["digital signature", "server auth" if signer == world.NODE_SERVING else "client auth"]
    if isinstance(key, rsa.RSAPrivateKey):
        usages.append("key encipherment")
    return world.request(subject, key, names), tuple(usages)


def issued(signer: str, ca: CertificateAuthority, key: PrivateKey, **rules: Any) -> Any:
    request, usages = asked(signer, key)
    settings = SigningRules(profile=Profile.COMPATIBLE, verify_signature=True, **rules)
    return issuance.issue(
        ca, x509_request.parse_pem(request), signer_name=signer, usages=usages, expiration_seconds=3600, now=NOW,
        rules=settings, serial=SERIAL,
    )  # fmt: skip


def name(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value, _ASN1Type.PrintableString) for oid, value in attributes])


def written(signer: str, ca_kind: str, key: PrivateKey) -> bytes:
    """TBSCertificate as kube-controller-manager's profile has it, by another library."""
    ca, node = CAS[ca_kind], signer in (world.NODE_CLIENT, world.NODE_SERVING)
    group, who = ("system:nodes", "system:node:worker-1") if node else ("dev", "jane")
    others = ("data_encipherment", "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    bits = dict.fromkeys(("content_commitment", *others), False)
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if signer == world.NODE_SERVING else ExtendedKeyUsageOID.CLIENT_AUTH
    encipherment = isinstance(key, rsa.RSAPrivateKey)
    builder = (
        x509.CertificateBuilder()
        .serial_number(SERIAL)
        .issuer_name(name((NameOID.COMMON_NAME, "kubernetes")))
        .subject_name(name((NameOID.ORGANIZATION_NAME, group), (NameOID.COMMON_NAME, who)))
        .public_key(key.public_key())
        .not_valid_before(NOW - dt.timedelta(minutes=5))
        .not_valid_after(NOW + dt.timedelta(hours=1))
        .add_extension(x509.KeyUsage(digital_signature=True, key_encipherment=encipherment, **bits), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier(ca.certificate.meaning.subject_key_id, None, None), critical=False)
    )
    if signer != world.NODE_CLIENT:
        names = [x509.DNSName("worker-1"), x509.IPAddress(ipaddress.ip_address("10.0.0.7"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(KEYS[ca_kind], HASHES[ca_kind]).tbs_certificate_bytes


@pytest.mark.parametrize("leaf", [*KEYS, "ML-DSA"])
@pytest.mark.parametrize("ca", CAS)
def test_every_signer_writes_what_kube_controller_manager_would(ca: str, leaf: str) -> None:
    key = KEYS.get(leaf, ML_DSA)
    for signer in SIGNERS:
        made = issued(signer, CAS[ca], key, post_quantum=leaf == "ML-DSA")
        assert made.signed == written(signer, ca, key), signer


def test_ml_dsa_is_behind_its_gate() -> None:
    for signer in SIGNERS:
        with pytest.raises((SignatureError, PolicyError)):
            issued(signer, CAS["P-256"], ML_DSA)


@pytest.mark.parametrize("signer", SIGNERS)
def test_the_strict_profile_binds_every_signer(signer: str) -> None:
    request, usages = asked(signer, ec.generate_private_key(ec.SECP224R1()))
    parsed = x509_request.parse_pem(request)
    settings: dict[str, Any] = {"signer_name": signer, "usages": usages, "expiration_seconds": None, "now": NOW}
    assert issuance.issue(CAS["P-256"], parsed, rules=SigningRules(profile=Profile.COMPATIBLE), **settings)
    with pytest.raises(PolicyError, match="expected at least 256"):
        issuance.issue(CAS["P-256"], parsed, rules=SigningRules(profile=Profile.STRICT), **settings)
