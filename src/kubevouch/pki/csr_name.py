"""The name a kubelet gives its CSR, and whether a CSR found under it is one's own (client-go ``util/certificate/csr``).

Names are guessable, so whoever may create CSRs can be there first. A CSR found by name is used only when it is for
one's own key; approvers never judge by the name.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
from collections.abc import Sequence

import msgspec

from kubevouch.machinery.text.gotext import go_time, quote
from kubevouch.pki.errors import IncompatibleRequestError, NameSquattedError, ParseError, SignatureError
from kubevouch.pki.x509 import signature, x509_certificate, x509_request
from kubevouch.pki.x509.public_key import PublicKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.x509_request import CertificateRequest

PREFIX = "node-csr-"


def digested_name(public_key_info: bytes, subject: Subject, usages: Sequence[str]) -> str:
    """``node-csr-`` and 43 characters that depend on key, common name, organizations and usages, in this order.

    Args:
        public_key_info: SubjectPublicKeyInfo in DER.
        usages: in the order of the request; kubelets hash ``digital signature, client auth[, key encipherment]``.
    """
    digest = hashlib.new("sha512_256")
    texts = (subject.common_name, *subject.organizations, *usages)
    for part in (public_key_info, *(text.encode() for text in texts)):
        digest.update(_base64url(part) + b"|")
    return PREFIX + _base64url(digest.digest()).decode("ascii")


def _base64url(octets: bytes) -> bytes:
    return base64.urlsafe_b64encode(octets).rstrip(b"=")


class FoundRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What counts of a CSR read from the API; ``certificate`` is ``status.certificate``."""

    request: bytes
    signer_name: str
    usages: tuple[str, ...]
    username: str = ""
    certificate: bytes = b""


class OwnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What one would have created.

    Args:
        usernames: who may have posted it: oneself now, or oneself before the credentials changed. Empty asks nothing.
    """

    subject: Subject
    public_key: PublicKey
    signer_name: str
    usages: tuple[str, ...]
    usernames: tuple[str, ...] = ()


def verify_found(found: FoundRequest, own: OwnRequest, *, now: dt.datetime) -> CertificateRequest:
    """The request of a CSR that already has the name, once it is as good as one's own.

    Raises:
        NameSquattedError: it is for another key. Use another name.
        IncompatibleRequestError: it differs otherwise, or has an expired certificate; with client-go's text.
    """
    try:
        request = x509_request.parse_pem(found.request)
    except ParseError as error:
        raise _incompatible(f"unable to parse original csr: {error}") from error
    # 1. The key: client-go verifies the signature with its own key, which comes to the same.
    if request.public_key.canonical_info != own.public_key.canonical_info:
        raise NameSquattedError(
            "retrieved csr is not compatible: error validating signature new CSR against old key: it is for another "
            f"key, {request.public_key.fingerprint().hex()} instead of {own.public_key.fingerprint().hex()}"
        )
    try:
        signature.verify(
            request.signature_algorithm, own.public_key, request.signed, request.signature, allow_sha1=True
        )
    except SignatureError as error:
        raise _incompatible(f"error validating signature new CSR against old key: {error}") from error
    # 2. What is asked for.
    if _fields(request.subject) != _fields(own.subject):
        raise _incompatible(f"csr subjects differ: new: {_printed(own.subject)}, orig: {_printed(request.subject)}")
    if found.signer_name and own.signer_name and found.signer_name != own.signer_name:
        raise _incompatible(f"csr signerNames differ: new {quote(own.signer_name)}, orig: {quote(found.signer_name)}")
    if sorted(found.usages) != sorted(own.usages):
        raise _incompatible(f"csr usages differ: new {list(own.usages)}, orig: {list(found.usages)}")
    # 3. Who asked: a CSR that somebody else posted is approved or refused by his rights.
    if own.usernames and found.username not in own.usernames:
        raise _incompatible(f"csr was posted by {quote(found.username)}")
    # 4. A certificate that has already ended is of no use.
    for certificate in _certificates(found.certificate):
        if now > certificate.not_after:
            raise _incompatible(f"one of the certificates for the CSR has expired: {go_time(certificate.not_after)}")
    return request


def _incompatible(why: str) -> IncompatibleRequestError:
    return IncompatibleRequestError(f"retrieved csr is not compatible: {why}")


def _fields(subject: Subject) -> Subject:
    return msgspec.structs.replace(subject, attributes=())


def _printed(subject: Subject) -> str:
    return f"CN={quote(subject.common_name)} O={[*subject.organizations]}"


def _certificates(text: bytes) -> list[x509_certificate.Certificate]:
    if not text:
        return []
    try:
        return x509_certificate.parse_bundle(text)
    except ParseError as error:
        raise _incompatible(f"error parsing signed certificate for CSR: {error}") from error


def other_name(public_key_info: bytes, salt: bytes) -> str:
    """A name for the same key after :class:`NameSquattedError`, not to be guessed without ``salt``."""
    return PREFIX + _base64url(hashlib.new("sha512_256", public_key_info + salt).digest()).decode("ascii")
