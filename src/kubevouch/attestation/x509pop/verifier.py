"""The server's side of x509pop: a chain to the device's root, and a signature by its key over this challenge."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

from kubevouch.attestation import serving_names, settings
from kubevouch.attestation.answering import Answering, require
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Claim,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Sources,
    Strength,
)
from kubevouch.attestation.x509pop.evidence import (
    MAX_SIGNATURE_BYTES,
    NAME,
    NONCE_BYTES,
    VERSIONS,
    Proof,
    SignatureForm,
    identity,
    signed_message,
)
from kubevouch.machinery.text import names
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.device_chain import verify_device_chain
from kubevouch.pki.errors import DeviceChainError, KeyMaterialError, ParseError
from kubevouch.pki.x509.public_key import KeyKind, PublicKey
from kubevouch.pki.x509.x509_certificate import Certificate

_FORMS = {KeyKind.RSA: SignatureForm.RSA_PSS, KeyKind.ECDSA: SignatureForm.ECDSA}


class NodeName(StrEnum):
    """What of the device's certificate names its Node."""

    NONE = "none"
    COMMON_NAME = "commonName"
    DNS_NAME = "dnsName"


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    roots, roots_file: trust anchors of the devices, in PEM; one of them.
    node_name: where the Node's name is; ``none`` leaves it to inventory and policy.
    revoked: hexadecimal SHA-256 of device certificates, or of certificates above them, that count no more.
    """

    roots: str = ""
    roots_file: str = ""
    node_name: NodeName = NodeName.NONE
    revoked: frozenset[str] = frozenset()


def make_verifier(settings_: Mapping[str, Any], sources: Sources) -> X509PopVerifier:
    """Raises :class:`SettingsError`."""
    read = settings.read(settings_, Settings, NAME)
    text = settings.text_or_file(read.roots, read.roots_file, NAME, "roots")
    try:
        roots = TrustAnchors.from_pem(text)
    except ParseError as err:
        raise SettingsError(f"settings of {NAME}: roots: {err}", hint="give the roots of the devices in PEM") from err
    for each in roots.certificates:
        if not each.meaning.is_ca:
            raise SettingsError(f"settings of {NAME}: roots: {each.subject.common_name!r} is no CA")
    return X509PopVerifier(roots, read.node_name, frozenset(each.lower() for each in read.revoked))


class X509PopVerifier(Answering):
    """A :class:`~kubevouch.attestation.interface.Verifier`."""

    name = NAME
    versions: Sequence[str] = VERSIONS
    needs_challenge = True

    def __init__(self, roots: TrustAnchors, node_name: NodeName, revoked: frozenset[str] = frozenset()) -> None:
        self._roots = roots
        self._node_name = node_name
        self._revoked = revoked

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        proof = self.shown(evidence, Proof, "the proof of x509pop")
        require(challenge)
        chain = verify_proof(proof, self._roots, nonce=binding.digest, now=now)
        for each in chain:
            if each.fingerprint().hex() in self._revoked:
                raise RefusedEvidenceError("revoked", f"the certificate {each.fingerprint().hex()} is revoked here")
        device = chain[0]
        alt_names = device.meaning.alt_names
        return Attested(
            provider=NAME,
            version=evidence.version,
            identity=identity(device.public_key.canonical_info),
            strength=Strength.KEY,
            node_name=_node_name(chain, self._node_name),
            renewable=True,
            addresses=tuple(str(each) for each in alt_names.ip_addresses),
            dns_names=tuple(alt_names.dns_names),
            claims=tuple(_claims(chain)),
            evidence_digest=hashlib.sha256(evidence.data).hexdigest(),
        )

    async def verify_serving(self, attested: Attested, names: Iterable[str], now: dt.datetime) -> Mapping[str, str]:
        """Those in the device's own certificate."""
        return serving_names.among(attested, names)


def verify_proof(proof: Proof, roots: TrustAnchors, *, nonce: bytes, now: dt.datetime) -> tuple[Certificate, ...]:
    """The chain of the device whose key has signed ``nonce``, itself first and the root last.

    Raises:
        RefusedEvidenceError: with the step, in this order: ``nonce``, those of
            :func:`~kubevouch.pki.device_chain.verify_device_chain`, ``signature-form``, ``signature``.
    """
    if len(proof.client_nonce) != NONCE_BYTES:
        raise RefusedEvidenceError(
            "nonce", f"got a client nonce of {len(proof.client_nonce)} bytes, expected {NONCE_BYTES}"
        )
    try:
        chain = verify_device_chain(proof.certificates, roots, now=now)
    except DeviceChainError as err:
        raise RefusedEvidenceError(err.step, str(err)) from err
    key = chain[0].public_key
    expected = _FORMS.get(key.kind)
    if expected is None or proof.signature_form != expected:
        raise RefusedEvidenceError(
            "signature-form",
            f"got {proof.signature_form[:64]!r} by a key {key.name}, expected {expected or 'RSA or ECDSA'}",
        )
    _verify_signature(key, proof.signature, signed_message(nonce, proof.client_nonce))
    return chain


def _verify_signature(key: PublicKey, signature: bytes, message: bytes) -> None:
    if len(signature) > MAX_SIGNATURE_BYTES:
        raise RefusedEvidenceError("signature", f"got {len(signature)} bytes, expected at most {MAX_SIGNATURE_BYTES}")
    if key.kind is KeyKind.ECDSA:
        _verify_der(signature)
    digest = hashes.SHA256()
    try:
        if key.kind is KeyKind.RSA:
            key.key().verify(signature, message, padding.PSS(padding.MGF1(digest), padding.PSS.AUTO), digest)
        else:
            key.key().verify(signature, message, ec.ECDSA(digest))
    except (InvalidSignature, KeyMaterialError, ValueError) as err:
        raise RefusedEvidenceError("signature", "the key of the device has not signed this challenge") from err


def _verify_der(signature: bytes) -> None:
    try:
        utils.decode_dss_signature(signature)
    except ValueError as err:
        raise RefusedEvidenceError("signature-form", "got no ECDSA signature in DER") from err


def _node_name(chain: Sequence[Certificate], wanted: NodeName) -> str:
    device = chain[0]
    if wanted is NodeName.NONE:
        return ""
    if wanted is NodeName.DNS_NAME:
        found = tuple(device.meaning.alt_names.dns_names)
    else:
        found = tuple(filter(None, [device.subject.common_name]))
        # Name constraints say nothing of common names: whoever is held to some names would be held to none.
        if any(each.meaning.name_constraints is not None for each in chain):
            raise RefusedEvidenceError("name", "a CA of the device has name constraints, which hold no common name")
    if len(found) != 1:
        raise RefusedEvidenceError("name", f"got {len(found)} names in {wanted}, expected the one of the Node")
    faults = names.subdomain(found[0])
    if faults:
        raise RefusedEvidenceError("name", f"{wanted} {found[0][:64]!r}: {faults[0]}")
    return found[0]


def _claims(chain: Sequence[Certificate]) -> Iterable[Claim]:
    device, root = chain[0], chain[-1]

    def claim(name: str, value: str) -> Claim:
        return Claim(name=f"{NAME}.{name}", value=value[:256], source=NAME, strength=Strength.KEY)

    yield claim("certificate", device.fingerprint().hex())
    yield claim("root", root.fingerprint().hex())
    for name, value in (("commonName", device.subject.common_name), ("issuer", device.issuer.common_name)):
        if value:
            yield claim(name, value)
    for uri in device.meaning.alt_names.uris[:4]:
        yield claim("uri", uri)
