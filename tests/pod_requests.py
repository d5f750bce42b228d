"""Requests for pods' certificates, and what signers may answer, made with another library than ours."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Sequence
from functools import cache

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, padding, rsa, x25519
from cryptography.x509.oid import NameOID

from kubevouch.api.meta_v1 import Condition
from kubevouch.api.pod_certificate_requests_v1beta1 import (
    PodCertificateRequest,
    PodCertificateRequestSpec,
    PodCertificateRequestStatus,
)
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
POD_UID = "11111111-2222-3333-4444-555555555555"
SIGNER = "example.com/pods"
HOUR, MINUTE = dt.timedelta(hours=1), dt.timedelta(minutes=1)

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@cache
def key_of(name: str) -> Key:
    """``Ed25519``, ``P-256`` and its like, ``RSA-3072`` and its like; the same one each time."""
    kind, _, size = name.partition("-")
    if kind == "RSA":
        return rsa.generate_private_key(65537, int(size))
    if kind == "P":
        curves: dict[str, ec.EllipticCurve] = {
            "224": ec.SECP224R1(),
            "256": ec.SECP256R1(),
            "384": ec.SECP384R1(),
            "521": ec.SECP521R1(),
        }
        return ec.generate_private_key(curves[size])
    return ed25519.Ed25519PrivateKey.generate()


def digest_for(key: Key) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()


def stub(key: Key, subject: str = "", encoding: serialization.Encoding = serialization.Encoding.DER) -> bytes:
    """A PKCS #10 request with nothing but the key, unless there is a ``subject``."""
    names = [x509.NameAttribute(NameOID.COMMON_NAME, subject)] if subject else []
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, digest_for(key))
    return made.public_bytes(encoding)


def public_key(key: Key | x25519.X25519PrivateKey | dsa.DSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def proof(
    key: Key, digest: hashes.HashAlgorithm | None = None, scheme: padding.AsymmetricPadding | None = None
) -> bytes:
    """The key's signature over the UID of the pod."""
    message, digest = POD_UID.encode(), digest or hashes.SHA256()
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(message)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(message, ec.ECDSA(digest))
    return key.sign(message, scheme or padding.PSS(padding.MGF1(digest), digest.digest_size), digest)


def request(key: Key | None = None, name: str = "c1", **changes: object) -> PodCertificateRequest:
    """A good one, but for ``changes`` of its spec."""
    spec = PodCertificateRequestSpec(
        signer_name=SIGNER,
        pod_name="p",
        pod_uid=POD_UID,
        service_account_name="app",
        service_account_uid="u2",
        node_name="n1",
        node_uid="u3",
        max_expiration_seconds=86400,
        stub_pkcs10_request=stub(key or key_of("P-256")),
    )
    metadata = ObjectMeta(name=name, namespace="default", uid="u0", resource_version="1")
    return PodCertificateRequest(metadata=metadata, spec=msgspec.structs.replace(spec, **changes))


def certificate(
    key: Key,
    not_before: dt.datetime = NOW,
    lifetime: dt.timedelta = 24 * HOUR,
    names: Sequence[x509.GeneralName] = (),
) -> bytes:
    """A leaf in DER by nobody in particular."""
    issuer = key_of("P-256")
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pods")]))
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(not_before)
        .not_valid_after(not_before + lifetime)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
    return builder.sign(issuer, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def pem(contents: bytes, label: str = "CERTIFICATE") -> str:
    body = base64.encodebytes(contents).decode()
    return f"-----BEGIN {label}-----\n{body}-----END {label}-----\n"


def condition(kind: str = "Denied", **changes: object) -> Condition:
    made = Condition(type=kind, status="True", reason="R", message="m", last_transition_time=Time.of(NOW))
    return msgspec.structs.replace(made, **changes)


def status(
    key: Key | None = None,
    not_before: dt.datetime = NOW,
    lifetime: dt.timedelta = 24 * HOUR,
    names: Sequence[x509.GeneralName] = (),
    **changes: object,
) -> PodCertificateRequestStatus:
    """Issued, and good, but for ``changes``."""
    made = PodCertificateRequestStatus(
        conditions=[condition("Issued")],
        certificate_chain=pem(certificate(key or key_of("P-256"), not_before, lifetime, names)),
        not_before=Time.of(not_before),
        not_after=Time.of(not_before + lifetime),
        begin_refresh_at=Time.of(not_before + lifetime / 2),
    )
    return msgspec.structs.replace(made, **changes)
