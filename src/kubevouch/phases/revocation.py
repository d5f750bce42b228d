"""Revoking certificates: what it would reach, whom it would cut off, and what has to be done where.

RevocationError        it is not done; ``hint`` says what to do
├── CutsOffError       it would cut off whoever revokes, or the last administrator
└── HeldError          what was revoked for good is not lifted
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from sqlite3 import Connection

import msgspec

from kubevouch import wellknown
from kubevouch.api.authentication_v1 import SelfSubjectReview
from kubevouch.api.catalog import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
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
from kubevouch.ledger import reading
from kubevouch.ledger.entries import ISSUED, Entry, Query, Recorded, with_certificate
from kubevouch.ledger.interface import ReadableLedger
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.ledger.opening import connect_to_read
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki.errors import ParseError
from kubevouch.pki.policy import BACKDATE
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records import certificate_ledger
from kubevouch.records.bootstrap_tokens import token_id_of_user
from kubevouch.revocation.reach import fingerprint_of, reached
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


# ------------------------------------------------------------------ what is known of what was issued


class LedgerReader:
    """The ledger in a file, read beside the process that writes it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def find(self, query: Query) -> Sequence[Recorded]:
        """See ``ledger.interface.ReadableLedger``."""
        return reading.find(self._connection, query)


class Issued(msgspec.Struct, frozen=True):
    """Where certificates are known from."""

    ledger: ReadableLedger
    source: str


def ledger_file(path: Path) -> closing[Connection]:
    """Raises LedgerError."""
    return closing(connect_to_read(path, beside_writer=True))


async def of_cluster(client: Client, keys: Collection[str] = ()) -> Issued:
    """What the API tells: the requests of the last hour, and the newest certificate of each machine and signer.

    Args:
        keys: fingerprints that will be looked for; the records have the first half of each.

    Raises:
        APIStatusError, TransportError
    """
    entries: dict[tuple[str, str], Entry] = {}
    for csr in (await list_all(client, CERTIFICATE_SIGNING_REQUESTS, options=PAGES)).items:
        try:
            certificate = x509_certificate.parse_bundle(csr.status.certificate)[0] if csr.status.certificate else None
        except ParseError:
            continue
        if certificate is not None:
            entry = Entry(
                kind=ISSUED, at=certificate.not_before + BACKDATE, signer=csr.spec.signer_name,
                request=csr.metadata.name, uid=csr.metadata.uid, requester=csr.spec.username,
                token=token_id_of_user(csr.spec.username),
            )  # fmt: skip
            entry = with_certificate(entry, certificate)
            entries[entry.issuer_key, entry.serial] = entry
    whole = {key[:32]: key for key in keys}
    for name in certificate_ledger.LAYOUT.names:
        found = await stored.find(client, CONFIG_MAPS, name, wellknown.KUBE_SYSTEM_NAMESPACE)
        for each in certificate_ledger.decode({} if found is None else found.data).values():
            entries.setdefault(
                (each.authority, each.serial),
                Entry(
                    kind=ISSUED,
                    at=each.not_before + BACKDATE,
                    signer=each.signer_name,
                    serial=each.serial,
                    issuer_key=each.authority,
                    subject=each.common_name,
                    node=each.machine,
                    token=each.token,
                    key=whole.get(each.public_key, each.public_key),
                    requester=f"{wellknown.BOOTSTRAP_USER_PREFIX}{each.token}" if each.token else each.common_name,
                    not_before=each.not_before,
                    not_after=each.not_after,
                ),
            )
    ledger = MemoryLedger()
    await ledger.append(*sorted(entries.values(), key=lambda each: each.at))
    return Issued(ledger, "requests and records of the cluster: of each machine the newest certificate")


# ------------------------------------------------------------------ plan


class Plan(msgspec.Struct, frozen=True):
    """The objects that will be made, and what they reach. ``nobody``: names that reach nothing, such as ``node a``."""

    objects: tuple[CertificateRevocation, ...]
    reached: tuple[Entry, ...]
    unknown: tuple[str, ...] = ()
    cut_off: tuple[str, ...] = msgspec.field(default=())
    nobody: tuple[str, ...] = ()


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
    """What ``objects`` would reach. Raises LedgerError."""
    found: dict[tuple[str, str], Entry] = {}
    unknown: list[str] = []
    nobody: dict[str, None] = {}
    for obj in objects:
        targets = obj.spec.revoked
        until = now if targets.issued_until is None else targets.issued_until.datetime()
        entries = await reached(issued.ledger, targets, until, now=now)
        found |= {(entry.issuer_key, entry.serial): entry for entry in entries}
        for group in targets.serials:
            unknown += (number for number in group.numbers if (group.issuer, number) not in found)
        for kind, names, seen in (
            ("user", targets.users, {entry.subject for entry in entries}),
            ("node", targets.nodes, {entry.node for entry in entries}),
            ("requester", targets.requesters, {entry.requester for entry in entries}),
        ):
            nobody |= {f"{kind} {name}": None for name in names if name not in seen}
        for token in targets.tokens:
            # Of what a machine has renewed by itself the ledger does not name the token.
            if not await reached(issued.ledger, RevocationTargets(tokens=[token]), until, now=now):
                nobody[f"token {token}"] = None
    return Plan(tuple(objects), tuple(found.values()), tuple(unknown), nobody=tuple(nobody))


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
