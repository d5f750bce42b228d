"""Who has come with a bootstrap token: the record that its Secret keeps in an annotation.

It says which uses are taken, so that its writes carry the Secret's resourceVersion; and it outlives the requests, which
are cleaned away an hour after they are decided.

TokenRecordError     the annotation cannot be read
UsesTakenError       no use is left; ``final`` says whether that can still change

Source: kubevouch's own; docs/adr/0009-bounds-of-bootstrap-tokens.md.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from kubevouch import wellknown
from kubevouch.api.certificates_v1 import CertificateSigningRequest, has_condition
from kubevouch.machinery.text.times import Time
from kubevouch.pki import pins
from kubevouch.pki.errors import ParseError
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.x509 import x509_certificate, x509_request
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION, Bounds, TokenBoundError

RECORD_ANNOTATION = "bootstrap-token.kubevouch.io/record"

# Of requests that hold no use; the oldest are forgotten.
MAX_OTHERS = 100
_MAX_BYTES = 256 * 1024
# A node's user name fits; what does not must not fill the record.
_MAX_SUBJECT = 300


class TokenRecordError(ValueError):
    """The annotation cannot be read."""


class UsesTakenError(TokenBoundError):
    """No use is left. ``final`` when each has become a certificate; else one may be released."""

    def __init__(self, message: str, *, final: bool) -> None:
        super().__init__(message)
        self.final = final


class State(StrEnum):
    """What became of a request. RESERVED and ISSUED hold a use."""

    PENDING = "Pending"
    RESERVED = "Reserved"
    ISSUED = "Issued"
    DENIED = "Denied"
    FAILED = "Failed"
    GONE = "Gone"


_HOLDING = (State.RESERVED, State.ISSUED)


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request that was made with the token.

    Args:
        request, uid: of the CertificateSigningRequest.
        subject: the common name that is asked for; empty if it cannot be read.
        key: ``sha256:`` and the digest of the SubjectPublicKeyInfo; empty as above.
        source: the address it came from; empty where the API server does not say.
        when: of its creation, RFC 3339.
        decided: when its certificate was seen first, or its end.
        serial: of the certificate, in hexadecimal.
    """

    request: str
    uid: str
    state: State
    subject: str = ""
    key: str = ""
    source: str = ""
    when: str = ""
    decided: str = ""
    serial: str = ""

    @property
    def holds(self) -> bool:
        return self.state in _HOLDING

    @property
    def machine(self) -> tuple[str, str]:
        """Who asks again with the same key for the same name uses the same use."""
        return self.subject, self.key

    @property
    def node_name(self) -> str:
        """Empty unless it asks for a node."""
        return node_name_of(self.subject)


Record = tuple[Attempt, ...]


# ------------------------------------------------------------------ requests


def attempt_of(csr: CertificateSigningRequest) -> Attempt:
    """The request as it stands. Only :func:`reserve` makes RESERVED."""
    meta = csr.metadata
    try:
        wanted = x509_request.parse_pem(csr.spec.request or b"")
        subject = wanted.subject.common_name[:_MAX_SUBJECT]
        key = f"{pins.FORMAT}:{wanted.public_key.fingerprint().hex()}"
    except ParseError:
        subject = key = ""
    return Attempt(
        request=meta.name,
        uid=meta.uid,
        state=state_of(csr),
        subject=subject,
        key=key,
        source=meta.annotations.get(SOURCE_ADDRESS_ANNOTATION, ""),
        when="" if meta.creation_timestamp is None else str(meta.creation_timestamp),
        decided=_decided(csr),
        serial=_serial(csr.status.certificate),
    )


def state_of(csr: CertificateSigningRequest) -> State:
    """A certificate counts whatever else is said: it cannot be taken back."""
    if csr.status.certificate:
        return State.ISSUED
    if has_condition(csr, wellknown.CSR_FAILED):
        return State.FAILED
    return State.DENIED if has_condition(csr, wellknown.CSR_DENIED) else State.PENDING


def _decided(csr: CertificateSigningRequest) -> str:
    types = (wellknown.CSR_FAILED, wellknown.CSR_DENIED, wellknown.CSR_APPROVED)
    times = {each.type: each.last_update_time for each in csr.status.conditions}
    moment = next((times[each] for each in types if each in times), None)
    return "" if moment is None or state_of(csr) is State.PENDING else str(moment)


def _serial(certificate: bytes) -> str:
    try:
        return f"{x509_certificate.parse_bundle(certificate)[0].serial:x}" if certificate else ""
    except ParseError:
        return ""


# ------------------------------------------------------------------ uses


def machines(record: Record, *states: State) -> set[tuple[str, str]]:
    """Whose requests are in one of ``states``; without any, those that hold a use."""
    return {each.machine for each in record if each.state in (states or _HOLDING)}


def uses_left(bounds: Bounds, record: Record) -> int | None:
    """How many machines more may come; what is reserved is not left. None where uses are not counted."""
    return None if bounds.uses is None else max(bounds.uses - len(machines(record)), 0)


def reserve(record: Record, uses: int, wanted: Attempt) -> Record:
    """A use for the machine behind ``wanted``; the same record if it has one for this request.

    Raises:
        UsesTakenError
    """
    if any(each.uid == wanted.uid and each.holds for each in record):
        return record
    taken = machines(record)
    if wanted.machine not in taken and len(taken) >= uses:
        issued = machines(record, State.ISSUED)
        whose = ", ".join(sorted(subject or "<unreadable>" for subject, _ in taken)[:5])
        what = "its only use" if uses == 1 else f"all its {uses} uses"
        raise UsesTakenError(f"the token has given {what} to {whose}", final=len(issued) >= uses)
    reserved = msgspec.structs.replace(wanted, state=State.RESERVED)
    return (*(each for each in record if each.uid != wanted.uid), reserved)


def settle(
    record: Record,
    seen: Mapping[str, Attempt],
    gone: Iterable[str] = (),
    *,
    now: dt.datetime | None = None,
    since: dt.datetime | None = None,
    limited: bool,
) -> Record:
    """The record after a look at the requests.

    Args:
        seen: the requests that are there, by UID.
        gone: UIDs of the record that are there no more.
        now: stamps what is new; None leaves the times of the decisions, which may be long before the certificate.
        since: when the token was made; older requests came with another one of the same ID.
        limited: whether its uses are counted, so that those that hold one are never forgotten.
    """
    ended, moment = set(gone), "" if now is None else str(Time.of(now))
    known = {each.uid: _settled(each, seen.get(each.uid), each.uid in ended, moment) for each in record}
    for uid, attempt in seen.items():
        if uid not in known and not _is_older(attempt, since):
            known[uid] = _stamped(attempt, moment)
    ordered = sorted(known.values(), key=lambda each: (each.when, each.request))
    others = [each for each in ordered if not (limited and each.holds)]
    dropped = {each.uid for each in others[: max(len(others) - MAX_OTHERS, 0)]}
    return tuple(each for each in ordered if each.uid not in dropped)


def _settled(former: Attempt, seen: Attempt | None, gone: bool, moment: str) -> Attempt:
    if former.state is State.ISSUED:
        return former
    if seen is None:
        undecided = former.state in (State.PENDING, State.RESERVED)
        return msgspec.structs.replace(former, state=State.GONE, decided=moment) if gone and undecided else former
    if seen.state is State.PENDING and former.state is State.RESERVED:
        return former
    return former if seen.state is former.state else _stamped(seen, moment)


def _stamped(attempt: Attempt, moment: str) -> Attempt:
    if attempt.state is State.PENDING or not moment:
        return attempt
    return msgspec.structs.replace(attempt, decided=moment)


def _is_older(attempt: Attempt, since: dt.datetime | None) -> bool:
    if since is None or not attempt.when:
        return False
    return Time.parse(attempt.when).datetime() < since


def last_issued(record: Record) -> dt.datetime | None:
    """When the newest certificate was seen."""
    times = [Time.parse(each.decided).datetime() for each in record if each.state is State.ISSUED and each.decided]
    return max(times, default=None)


# ------------------------------------------------------------------ annotation


def read(annotations: Mapping[str, str]) -> Record:
    """Raises :class:`TokenRecordError`."""
    text = annotations.get(RECORD_ANNOTATION, "")
    if not text:
        return ()
    if len(text) > _MAX_BYTES:
        raise TokenRecordError(f"{RECORD_ANNOTATION} has {len(text)} characters, expected at most {_MAX_BYTES}")
    try:
        record = msgspec.json.decode(text, type=tuple[Attempt, ...])
        for each in record:
            if each.decided:
                Time.parse(each.decided)
        return record
    except (msgspec.DecodeError, ValueError) as err:
        raise TokenRecordError(f"{RECORD_ANNOTATION} cannot be read: {err}") from err


def written(annotations: Mapping[str, str], record: Record) -> dict[str, str]:
    """``annotations`` with ``record`` in them."""
    kept = {key: value for key, value in annotations.items() if key != RECORD_ANNOTATION}
    return {**kept, RECORD_ANNOTATION: msgspec.json.encode(record).decode()} if record else kept
