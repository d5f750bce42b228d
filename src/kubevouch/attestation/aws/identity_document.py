"""The identity document of an instance and its three signatures.

Source: Amazon EC2 User Guide, "Instance identity documents". The steps are numbered in docs/attestation/aws.
"""

from __future__ import annotations

import binascii
import datetime as dt
import re
from collections.abc import Callable, Collection

import msgspec

from kubevouch.attestation import documents
from kubevouch.attestation.aws.evidence import Form
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.pki.errors import ParseError, SignatureError
from kubevouch.pki.x509 import cms, signature
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.pki.x509.signature import Digest, SignatureAlgorithm
from kubevouch.pki.x509.x509_certificate import Certificate

MAX_DOCUMENT = 16 << 10
"""Octets; those of AWS have some 500."""
MAX_SIGNATURE = 24 << 10
"""Characters of base64."""
REGION = re.compile(r"[a-z]{2,8}(-[a-z]{2,16}){1,3}-[0-9]{1,3}", re.ASCII)
INSTANCE_ID = re.compile(r"i-[0-9a-z]{8,32}", re.ASCII)
ACCOUNT = re.compile(r"[0-9]{12}", re.ASCII)
_ZONE = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)
_SHA256_RSA = SignatureAlgorithm("SHA256-RSA", KeyKind.RSA, Digest.SHA256)

Certificates = Callable[[str, Form], Collection[Certificate]]
"""Those that AWS signs a form with in a region; none for a region that is not known."""


class Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Of an identity document, what counts. ``pending_time`` is when the instance was started last."""

    account_id: str
    region: str
    instance_id: str
    image_id: str = ""
    instance_type: str = ""
    availability_zone: str = ""
    private_ip: str | None = None
    pending_time: dt.datetime | None = None

    @property
    def identity(self) -> str:
        """Which instance it is, of all of AWS."""
        return f"{self.account_id}/{self.region}/{self.instance_id}"

    @property
    def provider_id(self) -> str:
        """As ``spec.providerID`` has it (cloud-provider-aws 1.34); empty if the zone is not told."""
        return f"aws:///{self.availability_zone}/{self.instance_id}" if self.availability_zone else ""


def verify_document(
    document: bytes,
    form: Form,
    signed: str,
    certificates: Certificates,
    *,
    accounts: Collection[str],
    forms: Collection[Form] = tuple(Form),
    now: dt.datetime,
) -> Document:
    """What AWS says of an instance of these accounts.

    Raises:
        RefusedEvidenceError: with the step, in this order: ``form``, ``size``, ``structure`` and ``duplicate-key`` of
            document and signature, ``region``, ``validity``, ``signature``, ``content``, ``account``.
        UnavailableError: of ``certificates``.
    """
    if form not in forms:
        raise RefusedEvidenceError("form", f"got the form {form}, expected {', '.join(sorted(forms))}")
    if len(document) > MAX_DOCUMENT or len(signed) > MAX_SIGNATURE:
        raise RefusedEvidenceError("size", f"expected a document of at most {MAX_DOCUMENT} bytes, and its signature")
    told = _decode(document)
    verify = _bare(signed, document) if form is Form.SIGNATURE else _cms(signed, document, form is Form.PKCS7)
    # By the region that the document itself tells: a key of one region is none of another's (and no region is tried
    # for the sake of a document that names none of ours).
    found = certificates(told.region, form) if REGION.fullmatch(told.region) else ()
    if not found:
        raise RefusedEvidenceError("region", f"no certificate for {form} in {told.region[:64]!r} is known here")
    current = [each for each in found if each.not_before <= now <= each.not_after]
    if not current:
        raise RefusedEvidenceError("validity", f"every certificate for {form} in {told.region} has ended")
    _verify_by_one(verify, current, told.region)
    if told.account_id not in accounts:
        raise RefusedEvidenceError("account", f"got account {told.account_id}, expected one of those in the settings")
    return told


def _decode(document: bytes) -> Document:
    told = documents.decode(document, Document, "the identity document")
    for text, pattern, what in (
        (told.account_id, ACCOUNT, "account"),
        (told.instance_id, INSTANCE_ID, "instance id"),
        (told.availability_zone or "none", _ZONE, "availability zone"),
    ):
        if not pattern.fullmatch(text):
            raise RefusedEvidenceError("structure", f"got {text[:64]!r} in the identity document, expected an {what}")
    return told


_Verify = Callable[[Certificate], None]


def _verify_by_one(verify: _Verify, certificates: Collection[Certificate], region: str) -> None:
    """A region has two certificates while AWS replaces one."""
    said = ""
    for each in certificates:
        try:
            return verify(each)
        except SignatureError as err:
            said = str(err)
    raise RefusedEvidenceError("signature", f"not signed by AWS in {region}: {said}")


def _cms(signed: str, document: bytes, allow_sha1: bool) -> _Verify:
    try:
        read = cms.parse_base64(signed)
    except ParseError as err:
        raise RefusedEvidenceError("structure", str(err)) from err

    def verify(certificate: Certificate) -> None:
        # A certificate that came inside counts for nothing: any could.
        content = cms.verify(read, certificate, allow_sha1=allow_sha1)
        if content != document:
            raise RefusedEvidenceError("content", "the document is not the one inside of the signature")

    return verify


def _bare(signed: str, document: bytes) -> _Verify:
    try:
        octets = binascii.a2b_base64("".join(signed.split()), strict_mode=True)
    except (binascii.Error, ValueError) as err:
        raise RefusedEvidenceError("structure", "the signature of the document is not base64") from err

    def verify(certificate: Certificate) -> None:
        signature.verify(_SHA256_RSA, certificate.public_key, document, octets)

    return verify
