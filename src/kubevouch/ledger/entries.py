"""What is written down of a decision, a signature, a revocation; and how it is found again. No I/O.

An entry is encoded once, as JSON. These bytes are what is hashed, chained and proven (``chain``, ``proofs``); nothing
encodes an entry again to compare it, so that a later version may know more fields than an older one wrote.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.records.bootstrap_tokens import token_id_of_user

APPROVED, DENIED = "approved", "denied"
"""A decision of the approving controller; written before the condition."""
INTENDED, ISSUED = "intended", "issued"
"""Before a key is used, and before the certificate can be seen."""
FAILED = "failed"
"""A request that the signer can never sign."""
DISCARDED = "discarded"
"""A certificate that was signed and never handed out: another one of the same request counts."""
REVOKED, POLICY = "revoked", "policy"
IN_FORCE, RELEASED, PUT_BACK = "in-force", "released", "put-back"
"""Of an object that stands until an admitted request takes it back (``policy.standing_decisions``): what it says, that
it was taken back, and that it went or became weaker by other ways and was put back."""
BEGUN, RESTORED = "begun", "restored"
"""Of the ledger itself: since when it is kept, for what was issued before is not in it, or only as it was found; and
that it goes on from a copy, for what was written to the other after it is not here."""

MAX_TRACE_BYTES = 16 << 10
MAX_IDENTITY_BYTES = 16 << 10
"""Of the requester's groups and ``extra``, which who issues credentials may make as long as a header is."""
MAX_TEXT = 4 << 10
"""Characters of a reason, a message, a name."""
MAX_ENTRY_BYTES = 256 << 10
"""A request has 64 KiB at most (``x509_request.MAX_REQUEST_BYTES``), a certificate no more than its request says."""

_CUT = "…"


class EntryTooLarge(ValueError):
    """An entry has more than :data:`MAX_ENTRY_BYTES`."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One line of the ledger. What does not apply to its kind is empty.

    Args:
        kind: one of the constants of this module, or a later version's.
        at: when it was written, in UTC.
        signer: the signer's name.
        request: the name of the CertificateSigningRequest; ``namespace/name`` of a PodCertificateRequest.
        uid: of that object.
        requester: the user that the server stamped it with; for ``revoked`` and ``policy`` who did that.
        digest: what exactly was asked for, see :func:`digest_of`.
        pkcs10: the request in DER.
        created: when the request was made.
        approver, reason, message: who decided or refused, and why.
        trace: how it came to that: plain JSON of at most 16 KiB; see :func:`bounded_trace`.
        evidence: what the machine has proven, as plain JSON of at most 16 KiB, as ``attestation.interface.Attested``.
        rules: SHA-256 of the operator's rules by which it was decided, in hexadecimal digits.
        certificate: in DER.
        serial: in lower-case hexadecimal digits, as everywhere.
        issuer_key: the issuer's key identifier in hexadecimal digits, empty when the certificate names none.
        subject: the common name.
        names: the alternative names, each as text.
        key: SHA-256 of the SubjectPublicKeyInfo, in hexadecimal digits.
        token: the ID of the bootstrap token that let the machine in.
        node: the machine's name.
        resource: of ``in-force``, ``released`` and ``put-back``: the plural of the object whose name is ``request``.
        document: the object as JSON, or a part of it.
        part, parts: which part of how many: the document is those of consecutive entries in their order.
    """

    kind: str
    at: dt.datetime
    signer: str = ""
    request: str = ""
    uid: str = ""
    requester: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}
    digest: str = ""
    pkcs10: bytes = b""
    usages: tuple[str, ...] = ()
    expiration_seconds: int | None = None
    created: dt.datetime | None = None
    approver: str = ""
    reason: str = ""
    message: str = ""
    trace: Any = None
    evidence: Any = None
    rules: str = ""
    certificate: bytes = b""
    serial: str = ""
    issuer_key: str = ""
    subject: str = ""
    names: tuple[str, ...] = ()
    key: str = ""
    not_before: dt.datetime | None = None
    not_after: dt.datetime | None = None
    token: str = ""
    node: str = ""
    resource: str = ""
    document: bytes = b""
    part: int = 0
    parts: int = 0


class Recorded(msgspec.Struct, frozen=True):
    """An entry and its place: the first has the sequence 0, as leaves of a Merkle tree are counted."""

    sequence: int
    entry: Entry


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for; all that is given has to hold.

    Args:
        name: the common name, the node's name, or an alternative name; upper and lower case are the same.
        since, until: of ``at``; from, and before.
        nothing_before: of ``at``, and no condition: nothing older is looked for, so a ledger that knows all since then
            need not read. Older ones are given all the same: a clock may have been set back.
        ends_after, ends_before: of ``not_after``; from, and before.
        after, before: sequences, both exclusive: where the last page ended.
        newest_first: from the end on.
        limit: entries to give at most.
    """

    kinds: frozenset[str] = frozenset()
    signer: str = ""
    request: str = ""
    uid: str = ""
    requester: str = ""
    serial: str = ""
    name: str = ""
    key: str = ""
    token: str = ""
    node: str = ""
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    nothing_before: dt.datetime | None = None
    ends_after: dt.datetime | None = None
    ends_before: dt.datetime | None = None
    after: int = -1
    before: int | None = None
    newest_first: bool = False
    limit: int = 1000


_BY_FIELD = ("signer", "request", "uid", "requester", "serial", "key", "token", "node")


def matches(query: Query, sequence: int, entry: Entry) -> bool:
    """Whether an entry is what ``query`` looks for, its ``limit`` aside."""
    if query.kinds and entry.kind not in query.kinds:
        return False
    if sequence <= query.after or (query.before is not None and sequence >= query.before):
        return False
    for field in _BY_FIELD:
        wanted = getattr(query, field)
        if wanted and wanted != getattr(entry, field):
            return False
    if query.name and query.name.lower() not in names_of(entry):
        return False
    return _between(entry.at, query.since, query.until) and _between(
        entry.not_after, query.ends_after, query.ends_before
    )


def _between(moment: dt.datetime | None, first: dt.datetime | None, end: dt.datetime | None) -> bool:
    if first is None and end is None:
        return True
    return moment is not None and (first is None or moment >= first) and (end is None or moment < end)


def names_of(entry: Entry) -> set[str]:
    """What an entry is found under by name, in lower case."""
    return {each.lower() for each in (entry.subject, entry.node, *entry.names) if each}


# Those first that fewest entries share.
_INDEXED = ("serial", "uid", "key", "request", "node", "token", "requester")


def terms_of(entry: Entry) -> Iterator[str]:
    """What an entry is found under, each with its field in front; the rest of a query is compared entry by entry."""
    for field in _INDEXED:
        if value := getattr(entry, field):
            yield f"{field}\0{value}"
    for name in names_of(entry):
        yield f"name\0{name}"


def terms_wanted(query: Query) -> list[str]:
    """Of :func:`terms_of`, all that an entry must have, the rarest first; none if the query names no such thing."""
    wanted = [f"{field}\0{value}" for field in _INDEXED if (value := getattr(query, field))]
    return [f"name\0{query.name.lower()}", *wanted] if query.name else wanted


def entry_of_request(
    kind: str,
    at: dt.datetime,
    request: CertificateRequest,
    *,
    name: str,
    uid: str,
    signer: str,
    requester: str,
    groups: Sequence[str] = (),
    extra: Mapping[str, Sequence[str]] | None = None,
    usages: Sequence[str] = (),
    expiration_seconds: int | None = None,
    created: dt.datetime | None = None,
) -> Entry:
    """All that a request says, for an entry of ``kind``; what was decided goes in with ``msgspec.structs.replace``."""
    kept_groups, kept_extra = _bounded_identity(groups, extra or {})
    return Entry(
        kind=kind,
        at=at,
        signer=_bounded(signer),
        request=name,
        uid=uid,
        requester=_bounded(requester),
        groups=kept_groups,
        extra=kept_extra,
        digest=digest_of(signer, request.contents, usages, expiration_seconds),
        pkcs10=request.contents,
        usages=tuple(usages),
        expiration_seconds=expiration_seconds,
        created=created,
        token=token_id_of_user(requester),
        **_subject(request.subject, request.alt_names),
        key=request.public_key.fingerprint().hex(),
    )


def with_certificate(entry: Entry, certificate: Certificate, kind: str = ISSUED) -> Entry:
    """``entry`` with the certificate and what it says; the request itself is in the entry before it."""
    return msgspec.structs.replace(
        entry,
        kind=kind,
        groups=(),
        extra={},
        pkcs10=b"",
        usages=(),
        certificate=certificate.contents,
        serial=f"{certificate.serial:x}",
        issuer_key=(certificate.meaning.authority_key_id or b"").hex(),
        **_subject(certificate.subject, certificate.meaning.alt_names),
        key=certificate.public_key.fingerprint().hex(),
        not_before=certificate.not_before,
        not_after=certificate.not_after,
    )


def _subject(subject: Subject, alt_names: SubjectAltNames) -> dict[str, Any]:
    common_name = _bounded(subject.common_name)
    names = (
        *alt_names.dns_names,
        *map(str, alt_names.ip_addresses),
        *alt_names.email_addresses,
        *map(str, alt_names.uris),
    )
    return {"subject": common_name, "names": names, "node": node_name_of(common_name)}


def digest_of(signer: str, pkcs10: bytes, usages: Sequence[str], expiration_seconds: int | None) -> str:
    """SHA-256 in hexadecimal digits of what a request asks for, so that "this was approved" is about exactly this.

    The order of usages does not count, for it says nothing.
    """
    parts = (signer.encode(), pkcs10, "\0".join(sorted(set(usages))).encode(), str(expiration_seconds or "").encode())
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def encode(entry: Entry) -> bytes:
    """What is hashed and kept. Raises EntryTooLarge."""
    body = msgspec.json.encode(entry)
    if len(body) > MAX_ENTRY_BYTES:
        raise EntryTooLarge(f"got an entry of {len(body)} bytes for {entry.request}, expected {MAX_ENTRY_BYTES}")
    return body


def decode(body: bytes) -> Entry:
    """Raises ``msgspec.MsgspecError`` for what is no entry."""
    try:
        return _DECODER.decode(body)
    except RecursionError:
        raise msgspec.DecodeError("JSON that is nested too deeply") from None


_DECODER = msgspec.json.Decoder(Entry)


def bounded_trace(steps: Sequence[Any], most: int = MAX_TRACE_BYTES) -> list[Any]:
    """The first of ``steps``, which msgspec can encode: as many as ``most`` bytes hold, and how many were cut."""
    kept: list[Any] = []
    size = 2
    for position, step in enumerate(steps):
        plain = msgspec.to_builtins(step)
        size += len(msgspec.json.encode(plain)) + 1
        if size > most:
            return [*kept, {"cut": len(steps) - position}]
        kept.append(plain)
    return kept


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + _CUT


def _bounded_identity(
    groups: Sequence[str], extra: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """In the order in which they came, as far as they fit."""
    left = MAX_IDENTITY_BYTES
    kept_groups: list[str] = []
    for group in groups:
        left -= len(group.encode())
        if left < 0:
            return (*kept_groups, _CUT), {}
        kept_groups.append(group)
    kept_extra: dict[str, tuple[str, ...]] = {}
    for key, values in extra.items():
        left -= len(key.encode()) + sum(len(value.encode()) for value in values)
        if left < 0:
            return tuple(kept_groups), kept_extra | {_CUT: ()}
        kept_extra[key] = tuple(values)
    return tuple(kept_groups), kept_extra
