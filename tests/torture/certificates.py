"""What must be true of certificates, tokens and revocations in a history. Pure, as ``checker``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from torture.history import BROKEN, Answered, Asked, Bound, Damaged, Fence, Issued, Record, Revoked, Seen, Told
from torture.violations import Violation

CERTIFICATE_REQUESTS = "certificatesigningrequests/"
WITHIN_SECONDS = 1.0
"""From the acknowledgement of a revocation on; after it, nobody is served who shows the certificate."""
_TELLS_NOTHING = (BROKEN, 401, 429)


@dataclass(slots=True)
class _Request:
    """All that was seen of one CertificateSigningRequest."""

    key: str
    requester: str = ""
    certificates: dict[str, int] = field(default_factory=dict)
    """By certificate, the first revision that had it."""
    approved: list[int] = field(default_factory=list)
    denied: list[int] = field(default_factory=list)
    ops: set[int] = field(default_factory=set)
    newest: int = 0
    waits: bool = False
    """Whether it is approved, and nothing more, at its newest revision."""


def check(records: list[Record]) -> Iterator[Violation]:
    requests: dict[str, _Request] = {}
    bounds: list[Bound] = []
    fenced = False
    ledger: list[Issued] = []
    for record in records:
        if isinstance(record, Answered):
            for seen in record.items:
                _note(requests, seen, record.op)
        elif isinstance(record, Told) and record.seen is not None:
            _note(requests, record.seen, record.op)
        elif isinstance(record, Bound):
            bounds.append(record)
        elif isinstance(record, Fence):
            fenced = True
        elif isinstance(record, Issued):
            ledger.append(record)
        elif isinstance(record, Damaged):
            yield Violation("damaged files", record.what)
    for request in requests.values():
        yield from _check_request(request)
        if fenced:
            yield from _check_end(request)
    if ledger:
        yield from _check_ledger(ledger, requests)
    for bound in bounds:
        yield from _check_uses(bound, [each for each in requests.values() if each.requester == bound.user])
    yield from _check_revoked(records)


def _note(requests: dict[str, _Request], seen: Seen, op: int) -> None:
    shown = seen.request
    if shown is None:
        return
    request = requests.setdefault(seen.uid, _Request(seen.key, shown.requester))
    if seen.revision > request.newest:
        request.newest = seen.revision
        request.waits = shown.approved and not (shown.certificate or shown.failed or shown.denied)
    if shown.approved:
        request.ops.add(op)
        request.approved.append(seen.revision)
    if shown.denied:
        request.denied.append(seen.revision)
        request.ops.add(op)
    if shown.certificate:
        first = request.certificates.get(shown.certificate, seen.revision)
        request.certificates[shown.certificate] = min(first, seen.revision)
        request.ops.add(op)


def _check_request(request: _Request) -> Iterator[Violation]:
    ops, keys = frozenset(request.ops), frozenset({request.key})
    if not request.certificates:
        return
    first = min(request.certificates.values())
    if request.denied:
        what = f"{request.key} is denied at {min(request.denied)} and has a certificate at {first}"
        yield Violation("a denied request that was signed", what, ops, keys)
    elif not request.approved or min(request.approved) > first:
        what = f"{request.key} has a certificate at {first} and no approval until then"
        yield Violation("a certificate without an approval", what, ops, keys)
    if len(request.certificates) > 1:
        at = ", ".join(map(str, sorted(request.certificates.values())))
        yield Violation("two certificates for one request", f"{request.key} has others at {at}", ops, keys)


def _check_end(request: _Request) -> Iterator[Violation]:
    if request.waits:
        what = f"{request.key} was approved at {min(request.approved)} and has no certificate when all is well again"
        yield Violation("an approved request left lying", what, frozenset(request.ops), frozenset({request.key}))


def _check_ledger(ledger: list[Issued], requests: dict[str, _Request]) -> Iterator[Violation]:
    """Some ledger has what anybody was given, and each of what counts no more than one for a request.

    Two servers may have issued for the same: who dies before anybody is given a certificate has it in its own ledger.
    """
    known = {each.certificate for each in ledger}
    for request in requests.values():
        ops, keys = frozenset(request.ops), frozenset({request.key})
        if not request.certificates.keys() <= known:
            what = f"{request.key} has a certificate that the ledger does not have"
            yield Violation("a certificate without an entry", what, ops, keys)
    counted: dict[tuple[str, str], set[str]] = {}
    for each in ledger:
        if each.counts:
            counted.setdefault((each.ledger, each.uid), set()).add(each.certificate)
    for (_, uid), certificates in counted.items():
        if len(certificates) > 1:
            keys = frozenset({requests[uid].key}) if uid in requests else frozenset({uid})
            what = f"the ledger has {len(certificates)} certificates for one request of {', '.join(keys)}"
            yield Violation("two certificates for one request", what, frozenset(), keys)


def _check_uses(bound: Bound, requests: list[_Request]) -> Iterator[Violation]:
    issued = [each for each in requests if each.certificates]
    if len(issued) > bound.uses:
        what = f"{bound.user} may get {bound.uses} certificates and has {len(issued)}"
        ops = frozenset(op for each in issued for op in each.ops)
        yield Violation("a token used too often", what, ops, frozenset({bound.user, *(each.key for each in issued)}))


def _check_revoked(records: list[Record]) -> Iterator[Violation]:
    """Of an answer it counts when it was asked for; of an event, when the write was sent that it tells of."""
    since: dict[str, float] = {}
    shown: dict[int, Asked] = {}
    written: dict[str, float] = {}
    for record in records:
        if isinstance(record, Revoked):
            since.setdefault(record.identity, record.at)
        elif isinstance(record, Asked):
            if record.value:
                written[record.value] = record.at
            if record.identity:
                shown[record.op] = record
        elif isinstance(record, Answered) and record.op in shown:
            # A failure of the server's own says nothing of who asked; nor does the end of a watch.
            asked = shown[record.op]
            if record.code not in _TELLS_NOTHING and record.code < 500 and asked.verb != "watch":
                yield from _served(asked, asked.at, since, f"was answered with {record.code}")
        elif isinstance(record, Told) and record.op in shown and record.seen is not None:
            asked = shown[record.op]
            yield from _served(asked, written.get(record.seen.value, 0.0), since, f"was told of {record.revision}")


def _served(asked: Asked, at: float, since: dict[str, float], what: str) -> Iterator[Violation]:
    after = at - since.get(asked.identity, at)
    if after > WITHIN_SECONDS:
        said = f"{asked.identity[:12]} {what}, {after:.2f} s after it was revoked"
        yield Violation("a revoked certificate served", said, frozenset({asked.op}), frozenset({asked.identity}))
