"""What a node signs to get a certificate after its own has ended, and how that is verified.

Source: kubevouch's own; docs/adr/0010-recovery-is-a-request-of-its-own-user.md.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from kubevouch.pki import keys
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.errors import (
    ClientCertificateError,
    KeyMaterialError,
    ParseError,
    RecoveryProofError,
    SignatureError,
)
from kubevouch.pki.x509 import signature, x509_certificate, x509_request
from kubevouch.pki.x509.public_key import PublicKey
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.wellknown import NODE_USER_PREFIX, NODES_GROUP

RECOVERY_KEY = keys.KeyAlgorithm.ECDSA_P256
"""The one kind of recovery key: every machine and every FIPS module can make it."""

MAX_CERTIFICATES = 5
_CONTEXT = b"kubevouch node recovery v1"


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A node's reply to a challenge, as it is sent: nothing in it has been verified.

    Args:
        certificates: PEM of the chain that has ended, leaf first.
        request: PEM of the certificate request.
        key, next_key: the registered recovery key and the one that replaces it, as SubjectPublicKeyInfo.
        certificate_signature, key_signature, next_key_signature: of :func:`statement`.
    """

    node_name: str
    challenge: str
    certificates: str
    request: str
    key: bytes
    next_key: bytes
    certificate_signature: bytes
    key_signature: bytes
    next_key_signature: bytes


class ProvenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer has proven. ``chain``: the node's certificate first, the anchor last."""

    node_name: str
    chain: tuple[Certificate, ...]
    request: CertificateRequest
    key: PublicKey
    next_key: PublicKey


def statement(
    node_name: str, challenge: str, certificate: Certificate, request: PublicKey, key: PublicKey, next_key: PublicKey
) -> bytes:
    """The bytes that are signed. Lengths in front keep one part from passing for another."""
    named = (node_name.encode(), challenge.encode(), certificate.fingerprint())
    parts = (_CONTEXT, *named, request.info, key.info, next_key.info)
    return b"".join(len(part).to_bytes(4) + part for part in parts)


def answer(
    node_name: str,
    challenge: str,
    chain: Sequence[Certificate],
    certificate_key: PrivateKey,
    request: bytes,
    recovery: tuple[PrivateKey, PrivateKey],
) -> Answer:
    """The node's side.

    Args:
        request: PEM.
        recovery: the registered recovery key and the next one.

    Raises:
        ParseError: the request cannot be read.
        KeyMaterialError: the certificate's key cannot sign.
    """
    key, next_key = (keys.public_key_of(each) for each in recovery)
    requested = x509_request.parse_pem(request).public_key
    signed = statement(node_name, challenge, chain[0], requested, key, next_key)
    signatures = [signature.signing(each).sign(signed) for each in (certificate_key, *recovery)]
    return Answer(
        node_name=node_name,
        challenge=challenge,
        certificates=b"".join(each.pem() for each in chain).decode(),
        request=request.decode(),
        key=key.info,
        next_key=next_key.info,
        certificate_signature=signatures[0],
        key_signature=signatures[1],
        next_key_signature=signatures[2],
    )


def verify_answer(given: Answer, anchors: TrustAnchors, *, now: dt.datetime, max_age: dt.timedelta) -> ProvenAnswer:
    """What ``given`` proves. That its challenge is ours and fresh has been verified before.

    Args:
        anchors: whose certificates count.
        max_age: for how long a certificate may have ended.

    Raises:
        RecoveryProofError: the first step that failed.
    """
    # 1. Everything can be read, and the recovery keys are two.
    try:
        chain = x509_certificate.parse_bundle(given.certificates.encode())
        request = x509_request.verify_signature(x509_request.parse_pem(given.request.encode()), post_quantum=True)
        key, next_key = keys.load_public_key(given.key), keys.load_public_key(given.next_key)
    except (ParseError, SignatureError, UnicodeEncodeError) as err:
        raise RecoveryProofError(f"the answer cannot be read: {err}") from err
    if len(chain) > MAX_CERTIFICATES:
        raise RecoveryProofError(f"got {len(chain)} certificates, expected {MAX_CERTIFICATES} at most")
    if (key.name, next_key.name) != (RECOVERY_KEY, RECOVERY_KEY) or key.info == next_key.info:
        raise RecoveryProofError(f"expected two different recovery keys of {RECOVERY_KEY}")
    # 2. Certificate and request are this node's.
    leaf, *intermediates = chain
    wanted = (f"{NODE_USER_PREFIX}{given.node_name}", (NODES_GROUP,))
    for what, subject in (("certificate", leaf.subject), ("request", request.subject)):
        if (subject.common_name, subject.organizations) != wanted:
            raise RecoveryProofError(f"the {what} is for {subject.common_name!r}, expected {wanted[0]!r}")
    # 3. Our CA has issued the certificate, and but for its end it would be valid.
    if now <= leaf.not_after:
        raise RecoveryProofError("the certificate has not ended yet: it is renewed with itself")
    if now - leaf.not_after > max_age:
        raise RecoveryProofError(f"the certificate ended at {leaf.not_after:%Y-%m-%d}, longer ago than is allowed")
    try:
        verified = verify_chain(leaf, intermediates, anchors, now=leaf.not_after)
    except ClientCertificateError as err:
        raise RecoveryProofError(f"the certificate is not one of this cluster's: {err}") from err
    # 4. All three private keys are at hand, and have signed this request under this challenge.
    signed = statement(given.node_name, given.challenge, leaf, request.public_key, key, next_key)
    for what, public_key, made in (
        ("the certificate's key", leaf.public_key, given.certificate_signature),
        ("the recovery key", key, given.key_signature),
        ("the next recovery key", next_key, given.next_key_signature),
    ):
        try:
            signature.verify(signature.algorithm_for(public_key), public_key, signed, made, post_quantum=True)
        except (SignatureError, KeyMaterialError) as err:
            raise RecoveryProofError(f"{what} has not signed this: {err}") from err
    return ProvenAnswer(node_name=given.node_name, chain=verified, request=request, key=key, next_key=next_key)
