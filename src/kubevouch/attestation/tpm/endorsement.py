"""Steps 1 to 10: which TPM it is, and whether it is one at all. Pure; raises RefusedEvidenceError with the step."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import DeviceChainError, ParseError, StructureError
from kubevouch.pki.tpm import algorithms, ek_certificate, public_area
from kubevouch.pki.tpm.public_area import RESIDENT, Attributes, Public
from kubevouch.pki.tpm.templates import ENDORSEMENT_KEYS
from kubevouch.pki.tpm.weak_keys import is_known_weak
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.pki.x509.x509_certificate import Certificate

_STORAGE = RESIDENT | Attributes.RESTRICTED | Attributes.DECRYPT
# One template for each kind of key. With two of them one key would be two machines, for a certificate is for the key.
_TEMPLATES = {each.kind: each.template for each in ENDORSEMENT_KEYS}
KINDS = tuple(_TEMPLATES)
"""Endorsement keys that certificates are read for."""


class Trust(msgspec.Struct, frozen=True):
    """Which TPMs count.

    Args:
        roots: of their makers.
        intermediates: certificates between, which nodes need not bring.
        allowed: hexadecimal SHA-256 of the TPMT_PUBLIC of endorsement keys that need no certificate.
        kinds: of endorsement keys that count, such as ``RSA-2048``. A TPM has one of each kind that it knows, so that
            several kinds let one TPM be several machines.
        revoked: hexadecimal SHA-256 of certificates, or of endorsement keys as in ``allowed``, that count no more.
    """

    roots: TrustAnchors
    intermediates: Sequence[Certificate] = ()
    allowed: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset(KINDS)
    revoked: frozenset[str] = frozenset()


class Endorsement(msgspec.Struct, frozen=True):
    """A TPM that counts.

    Args:
        ek_hash: hexadecimal SHA-256 of the TPMT_PUBLIC.
        facts: of the certificate, by the names of their claims; empty for a TPM that is known by its key.
    """

    key: Public
    ek_hash: str
    facts: Mapping[str, str] = msgspec.field(default_factory=dict)


def verify_endorsement(
    public: bytes, certificate: bytes, chain: Sequence[bytes], trust: Trust, *, now: dt.datetime
) -> Endorsement:
    """The endorsement key in ``public``, a TPM2B_PUBLIC, if it is that of a TPM that counts.

    Args:
        certificate: in DER or the contents of its NV index; empty if there is none.
        chain: further certificates in DER, in any order.

    Raises:
        RefusedEvidenceError: with the step, in this order: ``structure``, ``ek-attributes``, ``ek-kind``,
            ``weak-key``, ``revoked``. For a key that is on the list nothing more. Else ``ek-allow-list`` where there is
            no certificate; ``structure`` of what there is, ``ek-template``, ``ek-key``, those of
            :func:`~kubevouch.pki.tpm.ek_certificate.verify`, ``revoked``.
    """
    try:
        key = public_area.parse(public, "the endorsement key")
    except StructureError as err:
        raise RefusedEvidenceError("structure", str(err)) from err
    if not key.has(_STORAGE) or key.attributes & Attributes.SIGN:
        raise RefusedEvidenceError(
            "ek-attributes", f"got attributes {key.attributes:08x}, expected a restricted decryption key of that TPM"
        )
    if key.kind not in trust.kinds:
        expected = ", ".join(sorted(trust.kinds))
        raise RefusedEvidenceError("ek-kind", f"got an endorsement key {key.kind}, expected {expected}")
    if is_known_weak(key):
        raise RefusedEvidenceError(
            "weak-key", "the endorsement key is one of CVE-2017-15361: its private half is known"
        )
    try:
        spki = key.spki()
    except StructureError as err:
        raise RefusedEvidenceError("structure", str(err)) from err
    ek_hash = hashlib.sha256(public[2:]).hexdigest()
    if ek_hash in trust.revoked:
        raise RefusedEvidenceError("revoked", f"the endorsement key {ek_hash} is revoked here")
    if ek_hash in trust.allowed:
        return Endorsement(key, ek_hash)
    if not certificate:
        raise RefusedEvidenceError("ek-allow-list", f"the TPM has no certificate, and {ek_hash} is not on the list")
    return Endorsement(key, ek_hash, _certified(key, spki, certificate, chain, trust, now))


def _certified(
    key: Public, spki: bytes, certificate: bytes, chain: Sequence[bytes], trust: Trust, now: dt.datetime
) -> dict[str, str]:
    try:
        leaf = ek_certificate.parse(ek_certificate.from_nv(certificate))
        others = [*_parsed(chain), *trust.intermediates]
    except ParseError as err:
        raise RefusedEvidenceError("structure", str(err)) from err
    # The certificate is for the key, and everything else in the public area is the node's word: another word would be
    # another machine.
    if not _is_template(key):
        raise RefusedEvidenceError(
            "ek-template", f"the public area is not that of the standard endorsement key {key.kind}"
        )
    if leaf.public_key.canonical_info != spki or leaf.public_key.kind not in {KeyKind.RSA, KeyKind.ECDSA}:
        raise RefusedEvidenceError("ek-key", "the certificate is for another endorsement key")
    try:
        way, endorsed = ek_certificate.verify(leaf, others, trust.roots, now)
    except DeviceChainError as err:
        raise RefusedEvidenceError(err.step, str(err)) from err
    for each in way:
        if each.fingerprint().hex() in trust.revoked:
            raise RefusedEvidenceError("revoked", f"the certificate {each.fingerprint().hex()} is revoked here")
    return {
        "tpm.manufacturer": endorsed.manufacturer,
        "tpm.model": endorsed.model,
        "tpm.version": endorsed.firmware,
        "tpm.ekCertificate": leaf.fingerprint().hex(),
        "tpm.root": way[-1].fingerprint().hex(),
    }


def _parsed(chain: Sequence[bytes]) -> list[Certificate]:
    if len(chain) > ek_certificate.MAX_CHAIN:
        raise ParseError(f"got {len(chain)} certificates, expected at most {ek_certificate.MAX_CHAIN}")
    longest = max(map(len, chain), default=0)
    if longest > ek_certificate.MAX_CERTIFICATE_BYTES:
        raise ParseError(
            f"got a certificate of {longest} bytes, expected at most {ek_certificate.MAX_CERTIFICATE_BYTES}"
        )
    read = [x509_certificate.parse_draft(each) for each in chain]
    if any(each.contents != contents for each, contents in zip(read, chain, strict=True)):
        raise ParseError("got bytes behind a certificate")
    return read


def _is_template(key: Public) -> bool:
    """Whether it differs from its kind's one template by nothing but the key, which makes one TPM one machine."""
    blank = msgspec.structs.replace(_TEMPLATES[key.kind], unique=())
    return msgspec.structs.replace(key, unique=()) == blank and all(
        len(each) == _coordinate_bytes(key) for each in key.unique
    )


def _coordinate_bytes(key: Public) -> int:
    curve = algorithms.CURVES.get(key.curve)
    return key.bits // 8 if curve is None else (curve.key_size + 7) // 8
