"""Which certificates a cluster is known to have, and from where each is known. All sources count together.

No source knows everything: a ledger has what was signed beside it, requests are deleted an hour after they are issued,
records have the newest certificate of each machine. A certificate that several know is one certificate, and what one of
them does not say of it another one may. Source: kubevouch's own; docs/howto/revocation.md.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence

import msgspec

from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity
from kubevouch.ledger.entries import ISSUED, Entry, Query, Recorded, matches, with_certificate
from kubevouch.ledger.interface import ReadableLedger
from kubevouch.pki.errors import ParseError
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.policy import BACKDATE
from kubevouch.pki.x509 import x509_certificate, x509_request
from kubevouch.records.bootstrap_tokens import token_id_of_user
from kubevouch.records.certificate_ledger import IssuedCertificate
from kubevouch.wellknown import BOOTSTRAP_USER_PREFIX, NODE_USER_PREFIX

Pause = Callable[[], Awaitable[None]]
LEDGER, REQUESTS, RECORDS, IDENTITIES = "the ledger", "requests", "records", "NodeIdentities"
KEY_DIGITS = 32
"""Of a key's fingerprint in the records, which have half of it."""
REQUESTS_END = "Kubernetes deletes a request an hour after it is issued"
RECORDS_KEEP = "of each machine and signer the newest certificate, without its fingerprint"
OTHERS_WRITE_NONE = "what another program has signed, such as kube-controller-manager, is not in it"

# Fingerprints of which it is remembered up to where they were looked for.
_MAX_LOOKED = 100_000
_FILLED = ("certificate", "signer", "request", "uid", "requester", "token", "node", "subject", "issuer_key", "serial",
           "created", "not_before", "not_after")  # fmt: skip


def fingerprint_of(entry: Entry) -> str:
    """SHA-256 of the certificate, in hexadecimal digits; empty where only what it says is known."""
    return hashlib.sha256(entry.certificate).hexdigest() if entry.certificate else ""


class Source(msgspec.Struct, frozen=True):
    """One place in which certificates are written down.

    Args:
        name: as people read it, such as "the ledger".
        limits: what it cannot know, as the end of a sentence.
    """

    name: str
    entries: ReadableLedger
    limits: str = ""


class KnownCertificate(msgspec.Struct, frozen=True):
    """A certificate, with all that any source says of it. ``sources`` are the names of those that know it."""

    entry: Entry
    sources: tuple[str, ...]


class KnownCertificates:
    """Several sources as one. What the first of them says of a certificate counts before what the others say.

    Args:
        pause: awaited between pages, so that others have their turn; None for whoever does nothing beside.
    """

    def __init__(self, *sources: Source, pause: Pause | None = None) -> None:
        self.sources = sources
        self.pause: Pause = pause or _no_pause
        self._fingerprints = [_Fingerprints(each.entries, self.pause) for each in sources]

    @classmethod
    def of(cls, ledger: ReadableLedger) -> KnownCertificates:
        """What a ledger alone knows."""
        return cls(Source(LEDGER, ledger))

    async def all(self, query: Query, fits: Callable[[Entry], bool] | None = None) -> list[KnownCertificate]:
        """What any source has of that, each certificate once, in the order in which they were issued.

        Args:
            fits: what else has to hold.

        Raises:
            LedgerError
        """
        found: list[tuple[str, Entry]] = []
        for source in self.sources:
            entries = _entries(source.entries, query, self.pause)
            found += [(source.name, each) async for each in entries if fits is None or fits(each)]
        known = joined(found)
        if len(self.sources) < 2:
            return known
        every = msgspec.structs.replace(query, after=-1, before=None)
        whole = [(each, await self._completed(each)) for each in known]
        # What a record alone has said, as who has asked for it, somebody else may know better.
        return [each for first, each in whole if first.sources != (RECORDS,) or each is first
                or matches(every, 0, each.entry)]  # fmt: skip

    async def of_fingerprints(self, query: Query, wanted: Collection[str]) -> list[KnownCertificate]:
        """The certificates of these fingerprints. Raises LedgerError."""
        found = [
            (source.name, each)
            for source, place in zip(self.sources, self._fingerprints, strict=True)
            for each in await place.find(query, wanted)
        ]
        return joined(found)

    async def _completed(self, known: KnownCertificate) -> KnownCertificate:
        """With what the other sources say, where none of those that were asked has the certificate itself."""
        entry = known.entry
        if entry.certificate or not entry.serial or not entry.issuer_key:
            return known
        query = Query(kinds=frozenset({ISSUED}), serial=entry.serial)
        found = [
            (source.name, each)
            for source in self.sources if source.name not in known.sources
            async for each in _entries(source.entries, query, self.pause) if each.issuer_key == entry.issuer_key
        ]  # fmt: skip
        return joined([*found, *((name, entry) for name in known.sources)])[0] if found else known

    async def find(self, query: Query) -> Sequence[Recorded]:
        """See ``ledger.interface.ReadableLedger``; a sequence is the place among what this query finds."""
        known = await self.all(msgspec.structs.replace(query, after=-1, before=None, newest_first=False))
        recorded = [Recorded(place, each.entry) for place, each in enumerate(known)]
        recorded = [each for each in recorded if each.sequence > query.after]
        if query.before is not None:
            recorded = [each for each in recorded if each.sequence < query.before]
        return (recorded[::-1] if query.newest_first else recorded)[: query.limit]

    def told(self) -> str:
        """Where was looked, and what each of these places cannot know."""
        return "; ".join(f"{each.name} ({each.limits})" if each.limits else each.name for each in self.sources)


async def _no_pause() -> None:
    """Nobody else waits for a turn."""


async def _pages(ledger: ReadableLedger, query: Query, pause: Pause) -> AsyncIterator[Recorded]:
    query = msgspec.structs.replace(query, limit=Query().limit)
    while True:
        page = await ledger.find(query)
        await pause()
        for each in page:
            yield each
        if len(page) < query.limit:
            return
        query = msgspec.structs.replace(query, after=page[-1].sequence)


async def _entries(ledger: ReadableLedger, query: Query, pause: Pause) -> AsyncIterator[Entry]:
    async for each in _pages(ledger, query, pause):
        yield each.entry


class _Fingerprints:
    """By which numbers the certificates of fingerprints are found, which no ledger is ordered by.

    A ledger is only ever appended to, so that nothing is looked at twice for one fingerprint.
    """

    def __init__(self, ledger: ReadableLedger, pause: Pause) -> None:
        self._ledger = ledger
        self._pause = pause
        self._serials: dict[str, str] = {}
        self._looked: dict[str, int] = {}

    async def find(self, query: Query, wanted: Collection[str]) -> list[Entry]:
        unknown = {each for each in wanted if each not in self._serials}
        if unknown:
            last = min(self._looked.get(each, -1) for each in unknown)
            async for recorded in _pages(self._ledger, Query(kinds=query.kinds, after=last), self._pause):
                last = recorded.sequence
                if (fingerprint := fingerprint_of(recorded.entry)) in unknown:
                    self._serials[fingerprint] = recorded.entry.serial
            if len(self._looked) + len(unknown) > _MAX_LOOKED:
                self._looked.clear()
            self._looked |= dict.fromkeys(unknown, last)
        found = []
        for serial in dict.fromkeys(self._serials[each] for each in wanted if each in self._serials):
            async for entry in _entries(self._ledger, msgspec.structs.replace(query, serial=serial), self._pause):
                if fingerprint_of(entry) in wanted:
                    found.append(entry)  # noqa: PERF401
        return found


def joined(found: Iterable[tuple[str, Entry]]) -> list[KnownCertificate]:
    """Each certificate once, with all that is said of it; by the moments at which they were issued.

    Two of one issuer and number that are not the same are two: who may write down certificates may write any.
    """
    groups: dict[tuple[str, ...], list[KnownCertificate]] = {}
    for name, entry in found:
        identity = _identity(entry)
        group = groups.get(identity)
        if group is None:
            groups[identity] = [KnownCertificate(entry, (name,))]
            continue
        for at, each in enumerate(group):
            if each.entry.certificate == entry.certificate or not (each.entry.certificate and entry.certificate):
                sources = each.sources if name in each.sources else (*each.sources, name)
                group[at] = KnownCertificate(each.entry if each.entry is entry else _filled(each.entry, entry), sources)
                break
        else:
            group.append(KnownCertificate(entry, (name,)))
    return sorted((each for group in groups.values() for each in group), key=lambda each: each.entry.at)


def _identity(entry: Entry) -> tuple[str, ...]:
    if entry.issuer_key and entry.serial:
        return entry.issuer_key, entry.serial
    if entry.certificate:
        return (fingerprint_of(entry),)
    return entry.issuer_key, entry.serial, entry.uid, entry.subject, entry.signer


def _filled(first: Entry, other: Entry) -> Entry:
    """``first``, with what only the other one says."""
    changes = {each: getattr(other, each) for each in _FILLED if not getattr(first, each) and getattr(other, each)}
    if len(other.key) > len(first.key):
        changes["key"] = other.key
    if other.at < first.at:
        # Whatever wrote it down first was there when it was issued.
        changes["at"] = other.at
    return msgspec.structs.replace(first, **changes)


# ------------------------------------------------------------------ what is said


def counted(found: Sequence[KnownCertificate]) -> str:
    """How many are known from where: "12 certificates: 3 from the ledger, 11 from requests, 2 from both"."""
    if not found:
        return "no certificate"
    by_source: dict[str, int] = {}
    for each in found:
        for name in each.sources:
            by_source[name] = by_source.get(name, 0) + 1
    told = [f"{count} from {name}" for name, count in by_source.items()]
    several = sum(len(each.sources) > 1 for each in found)
    if several:
        told.append(f"{several} from both" if len(by_source) == 2 else f"{several} from more than one of these")
    return f"{len(found)} certificate{'' if len(found) == 1 else 's'}: {', '.join(told)}"


# ------------------------------------------------------------------ what sources are made of


def of_request(csr: CertificateSigningRequest) -> Entry | None:
    """What an issued request says of its certificate.

    Nothing is believed of one whose certificate is of another key than was asked for: an API server ties neither to the
    other, and who may sign for any name could have a stranger's certificate revoked with his own.
    """
    if not csr.status.certificate:
        return None
    try:
        leaf = x509_certificate.parse_pem(csr.status.certificate)
        asked = x509_request.parse_pem(csr.spec.request or b"")
    except ParseError:
        return None
    if leaf.public_key.fingerprint() != asked.public_key.fingerprint():
        return None
    made = csr.metadata.creation_timestamp
    entry = Entry(
        kind=ISSUED, at=leaf.not_before + BACKDATE, signer=csr.spec.signer_name, request=csr.metadata.name,
        uid=csr.metadata.uid, requester=csr.spec.username, token=token_id_of_user(csr.spec.username),
        created=None if made is None else made.datetime(),
    )  # fmt: skip
    return with_certificate(entry, leaf)


def of_record(record: IssuedCertificate) -> Entry:
    """What a record says of a certificate that it names: neither its fingerprint nor its whole key."""
    return Entry(
        kind=ISSUED,
        at=record.not_before + BACKDATE,
        signer=record.signer_name,
        serial=record.serial,
        issuer_key=record.authority,
        subject=record.common_name,
        node=record.machine,
        token=record.token,
        key=record.public_key,
        requester=f"{BOOTSTRAP_USER_PREFIX}{record.token}" if record.token else record.common_name,
        not_before=record.not_before,
        not_after=record.not_after,
    )


def of_identity(identity: NodeIdentity) -> Entry | None:
    """As who a machine has come first: no certificate, though by it those of the node are found that a token let in."""
    status, name = identity.status, identity.metadata.name
    if not status.requester or status.first_seen is None:
        return None
    user = f"{NODE_USER_PREFIX}{name}"
    return Entry(
        kind=ISSUED, at=status.first_seen.datetime(), uid=identity.metadata.uid, requester=status.requester,
        token=token_id_of_user(status.requester), subject=user, node=node_name_of(user),
    )  # fmt: skip


class HalfKeys:
    """Records, which have the first half of a key's fingerprint: asked for the whole, they answer with it."""

    def __init__(self, records: ReadableLedger) -> None:
        self._records = records

    async def find(self, query: Query) -> Sequence[Recorded]:
        """See ``ledger.interface.ReadableLedger``."""
        found = await self._records.find(msgspec.structs.replace(query, key=query.key[:KEY_DIGITS]))
        if not query.key:
            return found
        return [Recorded(each.sequence, msgspec.structs.replace(each.entry, key=query.key)) for each in found]


def asked_at(entry: Entry) -> dt.datetime:
    """When a certificate was asked for: what was asked for before a revocation is not signed after it by us."""
    return entry.at if entry.created is None else min(entry.at, entry.created)
