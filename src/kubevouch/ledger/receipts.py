"""Receipts: what a machine got a certificate for, signed, for whoever has neither ledger nor cluster. No I/O.

A receipt is an in-toto statement (in-toto Attestation Framework, Statement v1) about a certificate, in a DSSE envelope
(DSSE 1.0) under the ledger's Ed25519 key.

    ReceiptError    text that is no receipt, or proves nothing
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from kubevouch.ledger import checkpoints
from kubevouch.ledger.checkpoints import VerifierKey
from kubevouch.ledger.entries import MAX_ENTRY_BYTES, Recorded

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://kubevouch.io/join/v1"
MAX_BYTES = 3 * MAX_ENTRY_BYTES
_MAX_SIGNATURES = 16


class ReceiptError(ValueError):
    """Text that is no receipt, or proves nothing."""


class Requested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The request: ``digest`` is that of what exactly was asked for, as ``ledger.entries.digest_of`` has it."""

    name: str
    uid: str
    signer: str
    requester: str
    digest: str
    token: str = ""


class Decided(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The decision.

    Args:
        rules_digest: SHA-256 of the operator's rules by which it was made; empty where nobody's were.
        trace: every rule that was looked at.
        sequence: of its entry in the ledger; -1 of a person's, which the ledger has with the certificate only.
    """

    at: dt.datetime
    approver: str = ""
    reason: str = ""
    message: str = ""
    rules_digest: str = ""
    trace: Any = None
    sequence: int = -1


class Proven(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What the machine has shown: ``digest`` is SHA-256 of all of ``proofs``, which hold the digest of each proof."""

    digest: str
    proofs: Any


class Join(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The predicate: why this certificate was given. ``sequence`` is of the certificate's entry in the ledger."""

    node: str = ""
    serial: str
    key_fingerprint: str
    not_before: dt.datetime
    not_after: dt.datetime
    issued_at: dt.datetime
    request: Requested
    decision: Decided
    evidence: Proven | None = None
    sequence: int


class _Subject(msgspec.Struct, frozen=True):
    name: str
    digest: dict[str, str]


class _Statement(msgspec.Struct, frozen=True, rename={"kind": "_type", "predicate_type": "predicateType"}):
    kind: str
    subject: list[_Subject]
    predicate_type: str
    predicate: Join


class _Signature(msgspec.Struct, frozen=True):
    sig: str
    keyid: str = ""


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    payload_type: str
    payload: str
    signatures: list[_Signature]


class Receipt(msgspec.Struct, frozen=True):
    """What a receipt says. ``certificate`` is the hexadecimal SHA-256 of the certificate's DER."""

    subject: str
    certificate: str
    join: Join


def make(decision: Recorded, issued: Recorded, key: Ed25519PrivateKey, name: str) -> str:
    """A receipt, in one line of JSON.

    Args:
        decision: the entry that the request was approved by, or, of a person's approval, that it was intended by.
        issued: the entry of the certificate.
        name: of the key, as in checkpoints.
    """
    entry, decided = issued.entry, decision.entry
    assert entry.not_before is not None and entry.not_after is not None  # an entry of this kind has them
    # As the approver has written it: {"proofs": […]}.
    proofs = decided.evidence.get("proofs") if isinstance(decided.evidence, dict) else None
    join = Join(
        node=entry.node,
        serial=entry.serial,
        key_fingerprint=entry.key,
        not_before=entry.not_before,
        not_after=entry.not_after,
        issued_at=entry.at,
        request=Requested(
            name=decided.request, uid=decided.uid, signer=decided.signer, requester=decided.requester,
            digest=decided.digest, token=decided.token,
        ),
        decision=Decided(
            at=decided.at, approver=decided.approver, reason=decided.reason, message=decided.message,
            rules_digest=decided.rules, trace=decided.trace, sequence=decision.sequence,
        ),
        evidence=None if proofs is None else Proven(digest=_digest(msgspec.json.encode(proofs)), proofs=proofs),
        sequence=issued.sequence,
    )  # fmt: skip
    subject = _Subject(entry.subject, {"sha256": _digest(entry.certificate)})
    payload = msgspec.json.encode(_Statement(STATEMENT_TYPE, [subject], PREDICATE_TYPE, join))
    known = checkpoints.verifier_key(name, key)
    signature = _Signature(_encoded(key.sign(_authenticated(PAYLOAD_TYPE, payload))), key_id(known))
    return msgspec.json.encode(_Envelope(PAYLOAD_TYPE, _encoded(payload), [signature])).decode() + "\n"


def verified(text: str, key: VerifierKey) -> Receipt:
    """What a receipt says, if ``key`` signed it, whoever else did.

    Nothing of the payload is read before its signature is good.

    Raises:
        ReceiptError
    """
    if len(text) > MAX_BYTES:
        raise ReceiptError(f"got {len(text)} characters, expected at most {MAX_BYTES}")
    try:
        envelope = msgspec.json.decode(text, type=_Envelope)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as err:
        raise ReceiptError(f"got text that is no DSSE envelope: {err}") from err
    if len(envelope.signatures) > _MAX_SIGNATURES:
        raise ReceiptError(f"got {len(envelope.signatures)} signatures, expected at most {_MAX_SIGNATURES}")
    payload = _decoded(envelope.payload)
    signed = _authenticated(envelope.payload_type, payload)
    # A key's name is a hint (DSSE 1.0, "keyid"): every signature is tried.
    if not any(_is_good(key, _decoded(each.sig), signed) for each in envelope.signatures):
        raise ReceiptError(f"got a receipt that {key.name} with the key {key.hint.hex()} has not signed")
    return _read(envelope.payload_type, payload)


def key_id(key: VerifierKey) -> str:
    """As envelopes name it: ``NAME+HASH`` of a checkpoint's key."""
    return f"{key.name}+{key.hint.hex()}"


def _read(payload_type: str, payload: bytes) -> Receipt:
    if payload_type != PAYLOAD_TYPE:
        raise ReceiptError(f"got a payload of type {payload_type[:80]}, expected {PAYLOAD_TYPE}")
    try:
        statement = msgspec.json.decode(payload, type=_Statement)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as err:
        raise ReceiptError(f"got a payload that is no statement about a join: {err}") from err
    if (statement.kind, statement.predicate_type) != (STATEMENT_TYPE, PREDICATE_TYPE):
        raise ReceiptError(
            f"got a {statement.predicate_type[:80]} in a {statement.kind[:80]}, expected {PREDICATE_TYPE}"
        )
    if len(statement.subject) != 1 or "sha256" not in statement.subject[0].digest:
        raise ReceiptError("expected one certificate with its SHA-256")
    join, subject = statement.predicate, statement.subject[0]
    if join.evidence is not None and join.evidence.digest != _digest(msgspec.json.encode(join.evidence.proofs)):
        raise ReceiptError("the digest of the evidence is another one than it says")
    return Receipt(subject.name, subject.digest["sha256"], join)


def _authenticated(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding (DSSE 1.0 protocol.md, "PAE")."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _is_good(key: VerifierKey, signature: bytes, signed: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key.public).verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def _digest(octets: bytes) -> str:
    return hashlib.sha256(octets).hexdigest()


def _encoded(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError) as err:
        raise ReceiptError(f"got {text[:40]!r}, expected base64") from err
