"""Revoking certificates: what it would reach, whom it would cut off, and what has to be done where.

RevocationError        it is not done; ``hint`` says what to do
├── CutsOffError       it would cut off whoever revokes, or the last administrator
└── HeldError          what was revoked for good is not lifted
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

import msgspec

from kubevouch import wellknown
from kubevouch.api.authentication_v1 import SelfSubjectReview
from kubevouch.api.catalog import (
    CLUSTER_ROLE_BINDINGS,
    SELF_SUBJECT_REVIEWS,
)
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import (
    HOLD,
    MAX_NUMBERS,
    CertificateRevocation,
    CertificateRevocationSpec,
    IssuedNumbers,
    RevocationTargets,
)
from kubevouch.client import stored
from kubevouch.client.interface import Client, WriteOptions
from kubevouch.client.pager import PAGES, list_all
from kubevouch.controllers.revocation_enforcement import OWN_BUILD
from kubevouch.ledger.entries import ISSUED, Entry, Query
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.phases.known_certificates import Issued
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.revocation.known import counted, fingerprint_of, joined
from kubevouch.revocation.reach import reached
from kubevouch.revocation.revocations import Revocations, mark_of

MAX_SERIALS = 100_000
"""That one command revokes."""
ADMIN_GROUPS = frozenset((wellknown.MASTERS_GROUP, wellknown.CLUSTER_ADMINS_GROUP))


class RevocationError(Exception):
    """It is not done; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class CutsOffError(RevocationError):
    """It would cut off whoever revokes, or the last administrator."""


class HeldError(RevocationError):
    """What was revoked for good is not lifted."""


# ------------------------------------------------------------------ plan


class Plan(msgspec.Struct, frozen=True):
    """The objects that will be made, and what they reach.

    Args:
        nobody: names that reach nothing, such as ``node a``.
        later: what reaches nothing yet and may: keys, and names until a moment that is yet to come.
        counted: how many certificates are known from where.
        sources: of each certificate, by fingerprint or number, from where it is known.
    """

    objects: tuple[CertificateRevocation, ...]
    reached: tuple[Entry, ...]
    unknown: tuple[str, ...] = ()
    cut_off: tuple[str, ...] = msgspec.field(default=())
    nobody: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    counted: str = ""
    sources: tuple[tuple[str, ...], ...] = ()


async def issuers_of(
    issued: Issued, serials: Iterable[str], *, issuer: str = "", fallback: str = ""
) -> list[IssuedNumbers]:
    """Whose certificates have these serial numbers.

    Args:
        issuer: whose they are said to be.
        fallback: whose those are that nobody knows.

    Raises:
        RevocationError: two issuers have given one number, or none is known.
    """
    if issuer:
        return [IssuedNumbers(issuer=issuer, numbers=list(serials))]
    found: dict[str, list[str]] = {}
    for serial in serials:
        known = await issued.ledger.find(Query(kinds=frozenset({ISSUED}), serial=serial))
        issuers = {each.entry.issuer_key for each in known if each.entry.issuer_key} or ({fallback} - {""})
        if len(issuers) != 1:
            told = f"it is one of {', '.join(sorted(issuers))}" if issuers else "nobody is known to have issued it"
            raise RevocationError(
                f"whose certificate {serial} is cannot be told: {told}", "--issuer KEY-ID says which authority is meant"
            )
        found.setdefault(issuers.pop(), []).append(serial)
    return [IssuedNumbers(issuer=issuer, numbers=numbers) for issuer, numbers in sorted(found.items())]


def objects_of(
    name: str, targets: RevocationTargets, reason: str, message: str, by: str
) -> tuple[CertificateRevocation, ...]:
    """One object, or as many as the serial numbers need."""
    parts: list[RevocationTargets] = []
    for group in targets.serials:
        for start in range(0, len(group.numbers), MAX_NUMBERS):
            part = IssuedNumbers(issuer=group.issuer, numbers=group.numbers[start : start + MAX_NUMBERS])
            parts.append(RevocationTargets(serials=[part]))
    whole = len(targets.serials) and len(parts) == 1
    others = msgspec.structs.replace(targets, serials=parts[0].serials if whole else [])
    if whole:
        parts = []
    if others != RevocationTargets(issued_until=targets.issued_until):
        parts.insert(0, others)
    names = (name if len(parts) == 1 else f"{name}-{number}" for number in count(1))
    return tuple(
        CertificateRevocation(
            metadata=ObjectMeta(name=each),
            spec=CertificateRevocationSpec(revoked=part, reason=reason, message=message, requested_by=by),
        )
        for each, part in zip(names, parts, strict=False)
    )


def default_name(targets: RevocationTargets, now: dt.datetime) -> str:
    digest = hashlib.sha256(msgspec.json.encode(msgspec.to_builtins(targets, enc_hook=str))).hexdigest()
    return f"revoked-{now:%Y%m%d-%H%M%S}-{digest[:6]}"


async def planned(issued: Issued, objects: Sequence[CertificateRevocation], *, now: dt.datetime) -> Plan:
    """What ``objects`` would reach, which then name the fingerprints of all that is found.

    A deny list or a webhook knows a certificate by its fingerprint, and whoever runs no controller of ours has nobody
    else to look it up. Raises LedgerError.
    """
    found: list[tuple[str, Entry]] = []
    made: list[CertificateRevocation] = []
    unknown: list[str] = []
    nobody: dict[str, None] = {}
    later: dict[str, None] = {}
    for obj in objects:
        targets = obj.spec.revoked
        until = now if targets.issued_until is None else targets.issued_until.datetime()
        known = await reached(issued.ledger, targets, until, now=now)
        entries = [each.entry for each in known]
        found += ((name, each.entry) for each in known for name in each.sources)
        numbers = {(entry.issuer_key, entry.serial) for entry in entries}
        for group in targets.serials:
            unknown += (number for number in group.numbers if (group.issuer, number) not in numbers)
        # Of what may be issued yet nothing can be known.
        none = nobody if until <= now else later
        for kind, names, seen in (
            ("user", targets.users, {entry.subject for entry in entries}),
            ("node", targets.nodes, {entry.node for entry in entries}),
            ("requester", targets.requesters, {entry.requester for entry in entries}),
        ):
            none |= {f"{kind} {name}": None for name in names if name not in seen}
        for token in targets.tokens:
            # Of what a machine has renewed by itself the ledger does not name the token.
            if not await reached(issued.ledger, RevocationTargets(tokens=[token]), until, now=now):
                none[f"token {token}"] = None
        later |= {f"key {key}": None for key in targets.keys if key not in {entry.key for entry in entries}}
        for period in targets.periods:
            if not await reached(issued.ledger, RevocationTargets(periods=[period]), until, now=now):
                ended = period.until is not None and period.until.datetime() <= now
                (nobody if ended else later)[f"period {period.since} to {period.until}"] = None
        made += _naming(obj, [fingerprint_of(each) for each in entries if each.certificate])
    everything_found = joined(found)
    return Plan(
        tuple(made), tuple(each.entry for each in everything_found), tuple(unknown), nobody=tuple(nobody),
        later=tuple(later), counted=counted(everything_found),
        sources=tuple(each.sources for each in everything_found),
    )  # fmt: skip


def _naming(obj: CertificateRevocation, fingerprints: Sequence[str]) -> list[CertificateRevocation]:
    """``obj`` with these fingerprints, and more objects for those of which it has no room."""
    targets = obj.spec.revoked
    named = frozenset(targets.certificates)
    more = [each for each in dict.fromkeys(fingerprints) if each not in named]
    if sum(len(group.numbers) for group in targets.serials) + len(targets.keys) > MAX_NUMBERS // 2:
        # The object is large as it is; what it names is named apart from what that is found to be.
        room = 0
    else:
        room = MAX_NUMBERS - len(targets.certificates)
    first = msgspec.structs.replace(targets, certificates=[*targets.certificates, *more[:room]])
    parts = [first, *(RevocationTargets(certificates=each) for each in _batched(more[room:], MAX_NUMBERS))]
    name = obj.metadata.name
    return [
        msgspec.structs.replace(
            obj,
            metadata=msgspec.structs.replace(obj.metadata, name=f"{name}-found-{number}" if number else name),
            spec=msgspec.structs.replace(obj.spec, revoked=part),
        )
        for number, part in enumerate(parts)
    ]


def _batched(values: Sequence[str], most: int) -> Iterator[list[str]]:
    for start in range(0, len(values), most):
        yield list(values[start : start + most])


# ------------------------------------------------------------------ who must not be cut off


async def verify_not_oneself(
    client: Client, plan: Plan, own: Sequence[Certificate], *, now: dt.datetime
) -> SelfSubjectReview:
    """Who revokes, once it is known that he goes on.

    Args:
        own: the certificates of the kubeconfig, the client's own first.

    Raises:
        CutsOffError
        APIStatusError, TransportError
    """
    me = await client.create(SELF_SUBJECT_REVIEWS, SelfSubjectReview(), WriteOptions())
    revocations = Revocations()
    made = Time.of(now)
    revocations.load(
        msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, creation_timestamp=made))
        for each in plan.objects
    )
    why = ""
    for certificate in own[:1]:
        revoked = revocations.find(mark_of(certificate, certificate.meaning.authority_key_id))
        why = "" if revoked is None else f"the certificate of {certificate.subject.common_name} in this kubeconfig"
    user = me.status.user_info
    mine = set(user.extra.get(wellknown.CREDENTIAL_ID_EXTRA, ()))
    if any(f"X509SHA256={fingerprint_of(entry)}" in mine for entry in plan.reached if entry.certificate):
        why = why or f"the certificate with which {user.username} asks"
    # A certificate that has been issued before all this is one of the user's.
    if not why and revocations.user(user.username, now) is not None:
        why = f"the user {user.username}"
    if why:
        raise CutsOffError(f"this revokes {why}: you would be cut off yourself", "--even-myself revokes it")
    return me


async def verify_an_admin_is_left(
    client: Client, issued: Issued, plan: Plan, own: Sequence[Certificate], *, now: dt.datetime
) -> None:
    """Raises :class:`CutsOffError` if no administrator is known who could undo it; APIStatusError, TransportError."""
    users, groups = await _administrators(client)

    def is_admin(certificate: Certificate) -> bool:
        subject = certificate.subject
        return subject.common_name in users or bool(groups.intersection(subject.organizations))

    cut = [each for each in map(_parsed, plan.reached) if each is not None and is_admin(each)]
    planned, former = Revocations(), Revocations()
    planned.load(plan.objects)
    former.load(await _known(client))

    def is_revoked(certificate: Certificate, by: Revocations) -> bool:
        return by.find(mark_of(certificate, certificate.meaning.authority_key_id)) is not None

    for each in filter(is_admin, own[:1]):
        if is_revoked(each, planned):
            cut.append(each)
        elif not is_revoked(each, former):
            return
    if not cut:
        return
    fingerprints = {each.fingerprint() for each in cut}
    query = Query(kinds=frozenset({ISSUED}), ends_after=now, limit=MAX_SERIALS)
    for recorded in await issued.ledger.find(query):
        certificate = _parsed(recorded.entry)
        if certificate is None or not is_admin(certificate) or certificate.fingerprint() in fingerprints:
            continue
        # Administrators may be revoked one after the other: who was revoked before is not left.
        if not is_revoked(certificate, former):
            return
    raise CutsOffError(
        f"this revokes {cut[0].subject.common_name}, the last administrator that is known",
        "--even-the-last-admin revokes it; super-admin.conf and service accounts are not counted",
    )


async def _known(client: Client) -> list[CertificateRevocation]:
    """What is revoked already, as far as it may be read."""
    try:
        return await revocations(client)
    except APIStatusError as err:
        if err.code != 403:
            raise
        return []


def _parsed(entry: Entry) -> Certificate | None:
    try:
        return x509_certificate.parse_der(entry.certificate) if entry.certificate else None
    except ParseError:
        return None


async def _administrators(client: Client) -> tuple[frozenset[str], frozenset[str]]:
    """Users and groups that may do everything; Kubernetes' own where the bindings may not be read."""
    users, groups = set[str](), set(ADMIN_GROUPS)
    try:
        bindings = (await list_all(client, CLUSTER_ROLE_BINDINGS, options=PAGES)).items
    except APIStatusError as err:
        if err.code != 403:
            raise
        return frozenset(users), frozenset(groups)
    for binding in bindings:
        if binding.role_ref.name == wellknown.CLUSTER_ADMIN_ROLE:
            users |= {each.name for each in binding.subjects if each.kind == "User"}
            groups |= {each.name for each in binding.subjects if each.kind == "Group"}
    return frozenset(users), frozenset(groups)


# ------------------------------------------------------------------ do it, and undo it


async def revoke(client: Client, plan: Plan) -> list[CertificateRevocation]:
    """Raises RevocationError, APIStatusError, TransportError."""
    made = []
    for obj in plan.objects:
        try:
            made.append(await client.create(CERTIFICATE_REVOCATIONS, obj))
        except APIStatusError as err:
            if err.code == 404:
                raise _no_kind() from err
            raise
    return made


def _no_kind() -> RevocationError:
    return RevocationError(
        "this cluster has no kind CertificateRevocation", "kubectl apply -f deploy/crds/ makes it; kubevouch up has it"
    )


async def revocations(client: Client) -> list[CertificateRevocation]:
    """All there are. Raises RevocationError, APIStatusError, TransportError."""
    try:
        return sorted(
            (await list_all(client, CERTIFICATE_REVOCATIONS, options=PAGES)).items, key=lambda each: each.metadata.name
        )
    except APIStatusError as err:
        if err.code == 404:
            raise _no_kind() from err
        raise


async def one(client: Client, name: str) -> CertificateRevocation:
    """Raises RevocationError, APIStatusError, TransportError."""
    found = await stored.find(client, CERTIFICATE_REVOCATIONS, name)
    if found is None:
        raise RevocationError(f"there is no revocation {name}", "kubevouch revoke list shows all")
    return found


async def lift(client: Client, name: str) -> CertificateRevocation:
    """Let what is on hold count again.

    Raises:
        HeldError: it is no hold.
        RevocationError, APIStatusError, TransportError
    """
    found = await one(client, name)
    if found.spec.reason != HOLD:
        raise HeldError(
            f"{name} is revoked for {found.spec.reason}, and only {HOLD} is lifted", "issue another certificate"
        )
    await client.delete(CERTIFICATE_REVOCATIONS, name)
    return found


# ------------------------------------------------------------------ which ways reach


class Way(msgspec.Struct, frozen=True):
    """One way by which somebody learns of a revocation.

    Args:
        reaches: None if that cannot be told from here.
        exposed: how long what is revoked still counts there.
    """

    name: str
    reaches: bool | None
    exposed: str


async def ways(client: Client, plan: Plan) -> tuple[Way, ...]:
    """Each way, with what it leaves open, before anything is revoked. Raises APIStatusError, TransportError."""
    version = msgspec.json.decode((await client.raw("GET", "/version")).body)
    is_ours = OWN_BUILD in str(version.get("gitVersion", ""))
    ends = [entry.not_after for entry in plan.reached if entry.not_after is not None]
    last = f"until they end, {max(ends):%Y-%m-%d %H:%M} UTC at the latest" if ends else "until they end"
    masters = [
        each for each in map(_parsed, plan.reached) if each and wellknown.MASTERS_GROUP in each.subject.organizations
    ]
    webhook = "where it is asked (kubevouch revoke webhook-config), 0.05 s; open watches go on until they end"
    if masters:
        webhook = f"{len(masters)} of them are system:masters, who is never asked about: {last}"
    lists: tuple[bool | None, str, str] = (
        None, "relying parties that fetch it, until the nextUpdate of the one they have",
        "relying parties that ask, until the nextUpdate of the answer they have",
    )  # fmt: skip
    if is_ours and (found := await _published(client, plan)) is not None:
        lists = (
            found,
            "relying parties until the nextUpdate of the one they have, within a day (delta: two hours)",
            "relying parties until the nextUpdate of the answer they have, within an hour",
        )
        if not found:
            lists = False, "the key of that authority is not at hand here, or the controllers are off", ""
    return (
        Way("this API server", is_ours, "nothing stays exposed; open connections and watches end" if is_ours else last),
        Way(
            "deny webhook of a kube-apiserver",
            False if is_ours else None,
            "nobody asks it here" if is_ours else webhook,
        ),
        Way("CRL", lists[0], lists[1]),
        Way("OCSP", lists[0], lists[2] or lists[1]),
        Way("removal of the CA", False, "reaches everybody of that CA, and is not done here: kubevouch ca rotate"),
    )


async def _published(client: Client, plan: Plan) -> bool | None:
    """Whether there are CRLs of all authorities that are meant; None if none is named. Raises TransportError."""
    issuers = {entry.issuer_key for entry in plan.reached if entry.issuer_key}
    issuers |= {group.issuer for each in plan.objects for group in each.spec.revoked.serials}
    try:
        for issuer in sorted(issuers):
            await client.raw("GET", f"/pki/crl/{issuer}/full.crl")
    except APIStatusError:
        return False
    return True if issuers else None
