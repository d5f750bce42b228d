"""The attested document of a machine: whose it is, in Azure's words.

Source: Azure Instance Metadata Service, "Attested data". Its signer has a certificate of the public web's roots, so
that the name in it is what makes it Azure's.
"""

from __future__ import annotations

import datetime as dt
import hmac
import re
from collections.abc import Collection, Sequence

import msgspec

from kubevouch.attestation import documents
from kubevouch.attestation.azure.evidence import Document
from kubevouch.attestation.azure.resource_ids import GUID
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.pki import client_certificate
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import ClientCertificateError, ParseError, SignatureError
from kubevouch.pki.x509 import cms
from kubevouch.pki.x509.usages import SERVER_AUTH_OID
from kubevouch.pki.x509.x509_certificate import Certificate

PUBLIC_DOMAIN = "metadata.azure.com"
LEEWAY = dt.timedelta(minutes=2)
"""By which clocks may differ."""

_LABEL = re.compile(r"\*|[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_MOMENT = re.compile(r"[0-9]{2}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} -0000", re.ASCII)


class TimeStamp(msgspec.Struct, frozen=True, rename="camel"):
    created_on: str
    expires_on: str


class AttestedData(msgspec.Struct, frozen=True, rename="camel"):
    """What the document says."""

    nonce: str
    time_stamp: TimeStamp
    vm_id: str
    subscription_id: str
    sku: str = ""


class Opened(msgspec.Struct, frozen=True):
    """A document that the key of ``signer`` has signed, who may be anybody."""

    content: bytes
    signer: Certificate
    certificates: tuple[Certificate, ...]


def open_document(document: Document) -> Opened:
    """Raises :class:`RefusedEvidenceError`: ``structure``, ``signature``."""
    # 1. Its form: one signature, the document inside, nothing behind.
    if document.encoding != "pkcs7":
        raise RefusedEvidenceError("structure", f"got the encoding {document.encoding[:32]!r}, expected pkcs7")
    try:
        signed = cms.parse_base64(document.signature)
    except ParseError as err:
        raise RefusedEvidenceError("structure", str(err)) from err
    # 2. The signature, by a certificate that came along.
    try:
        signer = cms.signer(signed)
        return Opened(cms.verify(signed, signer), signer, signed.certificates)
    except SignatureError as err:
        raise RefusedEvidenceError("signature", str(err)) from err


def verify_signer(
    opened: Opened,
    roots: TrustAnchors,
    *,
    now: dt.datetime,
    intermediates: Sequence[Certificate] = (),
    domains: Collection[str] = (PUBLIC_DOMAIN,),
) -> None:
    """The signer is Azure's metadata service.

    Args:
        intermediates: beside those that came along.
        domains: the signer's name is one of them, or a label (a region) before one.

    Raises:
        RefusedEvidenceError: ``chain``, ``signer``.
    """
    # 3. The chain.
    try:
        client_certificate.verify_chain(
            opened.signer, [*opened.certificates, *intermediates], roots, now=now, usage=SERVER_AUTH_OID
        )
    except ClientCertificateError as err:
        raise RefusedEvidenceError("chain", str(err)) from err
    # 4. The name: those roots certify everybody's. A common name is nobody's by now (RFC 9525 section 2).
    names = opened.signer.meaning.alt_names.dns_names
    if not any(_is_of(name.lower(), domain.lower()) for name in names for domain in domains):
        raise RefusedEvidenceError(
            "signer", f"got {', '.join(names)[:200]!r}, expected {' or '.join(sorted(domains))} or a name below"
        )


def verify_content(content: bytes, *, nonce: str, subscriptions: Collection[str], now: dt.datetime) -> AttestedData:
    """What a document says whose signer was verified.

    Args:
        subscriptions: whose machines may join.

    Raises:
        RefusedEvidenceError: ``structure``, ``duplicate-key``, ``nonce``, ``time``, ``subscription``, ``claims``.
    """
    said = documents.decode(content, AttestedData, "an attested document")
    # 5. It was made for this key and this challenge.
    if not nonce or not hmac.compare_digest(said.nonce.encode(), nonce.encode()):
        raise RefusedEvidenceError("nonce", f"got {said.nonce[:64]!r}, expected {nonce!r}")
    # 6. Now.
    created, expires = _moment(said.time_stamp.created_on), _moment(said.time_stamp.expires_on)
    if created - LEEWAY > now:
        raise RefusedEvidenceError("time", f"it is made at {created.isoformat()}")
    if now > expires:
        raise RefusedEvidenceError("time", f"it ended at {expires.isoformat()}")
    # 7. It is one of ours.
    if said.subscription_id.lower() not in {each.lower() for each in subscriptions}:
        raise RefusedEvidenceError("subscription", f"got {said.subscription_id[:64]!r}, which may not join")
    # 8. It says which: an identity that is compared, in one way of writing.
    if not GUID.fullmatch(said.vm_id):
        raise RefusedEvidenceError("claims", f"got the vmId {said.vm_id[:64]!r}")
    return msgspec.structs.replace(said, vm_id=said.vm_id.lower(), subscription_id=said.subscription_id.lower())


def _is_of(name: str, domain: str) -> bool:
    label, _, rest = name.partition(".")
    return name == domain or (rest == domain and _LABEL.fullmatch(label) is not None)


def _moment(text: str) -> dt.datetime:
    try:
        if _MOMENT.fullmatch(text):
            return dt.datetime.strptime(text, "%m/%d/%y %H:%M:%S %z")
    except ValueError:
        pass
    raise RefusedEvidenceError("time", f"got {text[:64]!r}, expected MM/DD/YY HH:MM:SS -0000")
