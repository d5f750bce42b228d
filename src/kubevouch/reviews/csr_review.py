"""What a CertificateSigningRequest asks for, who asks, and what speaks for or against it.

A request is shown to a person in the words of what it would mean. Nothing here decides; :func:`decide` writes down what
the person has decided, about the very object that was shown.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, SECRETS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    has_condition,
)
from kubevouch.api.core_v1 import Secret
from kubevouch.api.kubevouch_v1alpha1.catalog import NODE_IDENTITIES
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity
from kubevouch.client import stored
from kubevouch.client.interface import Client
from kubevouch.client.pager import PAGES, list_all
from kubevouch.controllers import join_status
from kubevouch.controllers.approval import csr_outlook
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki import policy
from kubevouch.pki.errors import AuthorityError, ParseError, PolicyError, SignatureError
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.x509 import x509_certificate, x509_request
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.records.bootstrap_tokens import secret_name
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.util.nearest import meant

MIN_RSA_BITS = 2048
# csrcleaner removes what nobody has decided after a day; an hour is long for whoever waits.
LONG_WAIT = dt.timedelta(hours=1)
REASONS = {wellknown.CSR_APPROVED: "KubevouchApprove", wellknown.CSR_DENIED: "KubevouchDeny"}


class State(StrEnum):
    """Where a request stands."""

    PENDING = "Pending"
    APPROVED = "Approved"
    ISSUED = "Issued"
    DENIED = "Denied"
    FAILED = "Failed"


class ReviewError(Exception):
    """The request is not what was shown, or is decided; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Mark(msgspec.Struct, frozen=True):
    """Something that a person should see before deciding. ``code`` is stable, for scripts."""

    code: str
    text: str


class Review(msgspec.Struct, frozen=True):
    """One request, decoded.

    Args:
        request: None if ``spec.request`` cannot be read; the marks then say why.
        changes: differences to the last certificate that the same signer has issued for the same subject.
        outlook: what would approve it, or why nothing does; empty once it is decided.
        identity: what the machine has proven, where this request is for the certificate that it was granted.
    """

    csr: CertificateSigningRequest
    state: State
    age: dt.timedelta
    request: CertificateRequest | None
    marks: tuple[Mark, ...] = ()
    changes: tuple[str, ...] = ()
    outlook: str = ""
    identity: NodeIdentity | None = None

    @property
    def name(self) -> str:
        return self.csr.metadata.name

    @property
    def source(self) -> str:
        """The address that it was sent from; empty where the API server does not say."""
        return self.csr.metadata.annotations.get(SOURCE_ADDRESS_ANNOTATION, "")


async def identity_of(client: Client, csr: CertificateSigningRequest, common_name: str) -> NodeIdentity | None:
    """What the machine of an attested request has proven, as far as whoever asks may read it.

    Raises:
        APIStatusError, TransportError
    """
    node_name = node_name_of(common_name)
    if not node_name or not policy.attestation_provider(csr.spec.signer_name):
        return None
    try:
        found = await client.get(NODE_IDENTITIES, node_name)
    except APIStatusError as err:
        if err.code not in (403, 404):
            raise
        return None
    return found if csr.metadata.uid in {each.request_uid for each in found.status.granted} else None


def state_of(csr: CertificateSigningRequest) -> State:
    """Failed and denied come before what else is true."""
    if has_condition(csr, wellknown.CSR_FAILED):
        return State.FAILED
    if has_condition(csr, wellknown.CSR_DENIED):
        return State.DENIED
    if csr.status.certificate:
        return State.ISSUED
    return State.APPROVED if has_condition(csr, wellknown.CSR_APPROVED) else State.PENDING


def review(
    csr: CertificateSigningRequest, among: Requests, now: dt.datetime, outlook: str = "", *, signature: bool = True
) -> Review:
    """``csr`` decoded and held against the requests of the cluster, itself among them or not.

    Args:
        signature: also verify that it is signed by its own key: most of the work, and API servers store no other.
    """
    created = csr.metadata.creation_timestamp
    age = now - created.datetime() if created is not None else dt.timedelta()
    state = state_of(csr)
    request = among.parsed(csr)
    if isinstance(request, ParseError):
        text = f"spec.request cannot be read: {request}"
        return Review(csr, state, age, None, (Mark("unreadable", text),), (), outlook)
    last = among.last_issued(csr, request.subject)
    marks = [
        *_marks_of_request(csr, request, signature=signature),
        *_marks_of_requester(csr, request),
        *_marks_of_others(request, among),
    ]
    if state is State.PENDING and age >= LONG_WAIT:
        marks.append(Mark("waits-long", "nobody has decided for over an hour"))
    if last is not None and state is State.PENDING and _takes_over(csr, last, request, now):
        marks.append(
            Mark(
                "takes-over",
                f"{request.subject.common_name} has a valid certificate with another key until {_day(last)}",
            )
        )
    return Review(csr, state, age, request, tuple(marks), tuple(_changes(request, last)), outlook)


def _marks_of_request(csr: CertificateSigningRequest, request: CertificateRequest, *, signature: bool) -> list[Mark]:
    found = []
    try:
        if signature:
            x509_request.verify_signature(request)
    except SignatureError as err:
        found.append(Mark("bad-signature", f"the request is not signed by its own key: {err}"))
    try:
        policy.verify_shape(csr.spec.signer_name, request, csr.spec.usages)
    except PolicyError as err:
        found.append(Mark("cannot-be-signed", f"{csr.spec.signer_name} would refuse it: {err}"))
    except AuthorityError:
        # A signer that is not Kubernetes' own has rules that only it knows.
        pass
    if wellknown.MASTERS_GROUP in request.subject.organizations:
        found.append(Mark("masters", "asks for system:masters, which no change of RBAC takes back"))
    key = request.public_key
    if key.kind is KeyKind.RSA and key.bits < MIN_RSA_BITS:
        found.append(Mark("weak-key", f"an RSA key of {key.bits} bits"))
    return found


def _marks_of_requester(csr: CertificateSigningRequest, request: CertificateRequest) -> list[Mark]:
    asks, wanted = csr.spec.username, request.subject.common_name
    if asks.startswith(wellknown.NODE_USER_PREFIX) and wanted != asks:
        return [Mark("other-name", f"{asks} asks for {wanted or 'an empty name'}, not for itself")]
    return []


def _marks_of_others(request: CertificateRequest, among: Requests) -> list[Mark]:
    other = among.with_same_key(request)
    if other is None:
        return []
    what = other.common_name or "another subject"
    return [Mark("shared-key", f"{other.name} asks for {what} with the same key")]


def _takes_over(
    csr: CertificateSigningRequest, last: Certificate, request: CertificateRequest, now: dt.datetime
) -> bool:
    """A name that is in use is asked for by somebody who is not its holder."""
    return (
        csr.spec.username != request.subject.common_name
        and now < last.not_after
        and last.public_key.canonical_info != request.public_key.canonical_info
    )


def _changes(request: CertificateRequest, last: Certificate | None) -> list[str]:
    if last is None:
        return []
    found = []
    if last.public_key.canonical_info != request.public_key.canonical_info:
        found.append("another key" if last.public_key.name == request.public_key.name else
                     f"another key, {request.public_key.name} instead of {last.public_key.name}")  # fmt: skip
    before, after = set(names_of(last.meaning.alt_names)), set(names_of(request.alt_names))
    found += [f"new name {name}" for name in sorted(after - before)]
    found += [f"no longer {name}" for name in sorted(before - after)]
    if last.subject.organizations != request.subject.organizations:
        found.append(
            f"organizations {list(request.subject.organizations)} instead of {list(last.subject.organizations)}"
        )
    return found


def names_of(alt_names: SubjectAltNames) -> list[str]:
    """Every name of the extension as text, in its order."""
    return [
        *alt_names.dns_names, *map(str, alt_names.ip_addresses), *alt_names.email_addresses, *alt_names.uris,
    ]  # fmt: skip


def _day(leaf: Certificate) -> str:
    return f"{leaf.not_after:%Y-%m-%d}"


# ------------------------------------------------------------------ the cluster


class Asker(NamedTuple):
    """A request by its name, and the common name that it asks for."""

    name: str
    common_name: str


class _Issued(NamedTuple):
    uid: str
    leaf: Certificate


class Requests:
    """All requests of a cluster, the undecided first, the newest first among equals.

    Each is decoded once, and what has to do with which is found by key and by name: whoever has a token may post
    thousands, and a list that held each against all others would never end.
    """

    def __init__(self, requests: Iterable[CertificateSigningRequest] = ()) -> None:
        newest = sorted(requests, key=lambda csr: str(csr.metadata.creation_timestamp), reverse=True)
        self.all = tuple(sorted(newest, key=lambda csr: state_of(csr) is not State.PENDING))
        self._parsed: dict[str, CertificateRequest | ParseError] = {}

    @property
    def pending(self) -> list[CertificateSigningRequest]:
        return [csr for csr in self.all if state_of(csr) is State.PENDING]

    def named(self, name: str) -> CertificateSigningRequest:
        """Raises :class:`ReviewError`."""
        found = next((csr for csr in self.all if csr.metadata.name == name), None)
        if found is None:
            raise _unknown(name, self)
        return found

    def parsed(self, csr: CertificateSigningRequest) -> CertificateRequest | ParseError:
        """What ``csr`` asks for, or why that cannot be read."""
        uid = csr.metadata.uid
        if uid not in self._parsed:
            try:
                self._parsed[uid] = x509_request.parse_pem(csr.spec.request or b"")
            except ParseError as err:
                self._parsed[uid] = err
        return self._parsed[uid]

    def with_same_key(self, request: CertificateRequest) -> Asker | None:
        """Another request for the same key and another name."""
        askers = self._askers.get(request.public_key.canonical_info, ())
        return next((each for each in askers if each.common_name != request.subject.common_name), None)

    def last_issued(self, csr: CertificateSigningRequest, subject: Subject) -> Certificate | None:
        """The newest certificate for the subject's name from the signer of ``csr``, that came of another request.

        A node's serving certificate has the name of its client certificate, and all else is different.
        """
        issued = self._issued.get((csr.spec.signer_name, subject.common_name), ())
        return next((each.leaf for each in issued if each.uid != csr.metadata.uid), None)

    @cached_property
    def _askers(self) -> dict[bytes, list[Asker]]:
        """By public key the first request for it and the first for another name: one of the two is always another."""
        found: dict[bytes, list[Asker]] = {}
        for csr in self.all:
            request = self.parsed(csr)
            if isinstance(request, ParseError):
                continue
            asker = Asker(csr.metadata.name, request.subject.common_name)
            known = found.setdefault(request.public_key.canonical_info, [asker])
            if len(known) == 1 and known[0].common_name != asker.common_name:
                known.append(asker)
        return found

    @cached_property
    def _issued(self) -> dict[tuple[str, str], list[_Issued]]:
        """By signer and common name the two newest certificates, newest first: one of them is of another request."""
        found: dict[tuple[str, str], list[_Issued]] = {}
        for csr in self.all:
            if not csr.status.certificate:
                continue
            try:
                leaf = x509_certificate.parse_bundle(csr.status.certificate)[0]
            except (ParseError, IndexError):
                continue
            known = found.setdefault((csr.spec.signer_name, leaf.subject.common_name), [])
            known.append(_Issued(csr.metadata.uid, leaf))
            known.sort(key=lambda each: each.leaf.not_before, reverse=True)
            del known[2:]
        return found


def _unknown(name: str, among: Requests) -> ReviewError:
    hint = meant(name, (csr.metadata.name for csr in among.all), "kubevouch csr list shows those that are there")
    return ReviewError(f"there is no request {name!r}", hint)


async def fetch(client: Client) -> Requests:
    """Page by page, as kubectl does. Raises APIStatusError, TransportError."""
    return Requests((await list_all(client, CERTIFICATE_SIGNING_REQUESTS, options=PAGES)).items)


async def fetch_named(client: Client, names: Sequence[str]) -> list[CertificateSigningRequest]:
    """These alone, in their order.

    Raises:
        ReviewError: one is not there.
        APIStatusError, TransportError
    """
    found = []
    for name in names:
        csr = await stored.find(client, CERTIFICATE_SIGNING_REQUESTS, name)
        if csr is None:
            raise _unknown(name, await fetch(client))
        found.append(csr)
    return found


async def outlook(client: Client, csr: CertificateSigningRequest) -> str:
    """What would approve an undecided request by itself, or why nothing will."""
    if state_of(csr) is not State.PENDING:
        return ""

    async def secret_of_token(token_id: str) -> Secret | None:
        try:
            return await stored.find(client, SECRETS, secret_name(token_id), wellknown.KUBE_SYSTEM_NAMESPACE)
        except APIStatusError:
            # Who may review requests may not always read tokens.
            return None

    found = await csr_outlook.outlook(client, csr, secret_of_token)
    # The controllers know more than may be read from here, such as what is left of the ledger.
    told = csr.metadata.annotations.get(wellknown.JOIN_STUCK_ANNOTATION, "")
    if found.reason == csr_outlook.NOT_LOOKED_AT and told:
        return told.partition(": ")[2].removeprefix(f"{join_status.UNDECIDED}: ")
    return found.message


async def decide(
    client: Client, shown: CertificateSigningRequest, condition: str, message: str, reason: str = ""
) -> None:
    """Approve or deny the object that was ``shown``: the write fails if anything about it has changed since.

    Raises:
        ReviewError: it is decided already, or has changed.
        APIStatusError, TransportError
    """
    state = state_of(shown)
    if state is not State.PENDING:
        raise ReviewError(f"{shown.metadata.name} is {state.value} already", "a decision cannot be taken back")
    decision = CertificateSigningRequestCondition(
        type=condition, status=wellknown.CONDITION_TRUE, reason=reason or REASONS[condition], message=message
    )
    status = msgspec.structs.replace(shown.status, conditions=[*shown.status.conditions, decision])
    try:
        await client.update(
            CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(shown, status=status), subresource="approval"
        )
    except APIStatusError as err:
        if err.code not in (404, 409):
            raise
        raise ReviewError(
            f"{shown.metadata.name} is not what was shown any more: {err}", "look at it again: kubevouch csr show"
        ) from err
