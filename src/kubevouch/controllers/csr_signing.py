"""certificatesigningrequest-signing-controller: issues what was approved, for the signers that it is given.

Source: pkg/controller/certificates/signer/signer.go (Kubernetes 1.36). The write carries the resourceVersion that was
read, so that of two processes only one issues.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, CONFIG_MAPS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
    has_condition,
)
from kubevouch.api.core_v1.events import WARNING
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.api.kubevouch_v1alpha1.catalog import NODE_IDENTITIES
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client, TransportError
from kubevouch.client.rate_limiters import CSR_BASE_SECONDS, controller_rate_limiter
from kubevouch.client.stored import find
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.event_recorder import EventRecorder
from kubevouch.controllers.interface import (
    DONE,
    Context,
    IgnorableError,
    ReconcileError,
    Request,
    Result,
    SigningMetrics,
    request_of,
)
from kubevouch.controllers.other_signers import OtherSigners, manager_lease
from kubevouch.controllers.outside_questions import RequestQuestions, request_questions
from kubevouch.controllers.record_maps import RecordMaps
from kubevouch.controllers.requester_flow import requester_flows
from kubevouch.ledger import entries
from kubevouch.ledger.entries import DISCARDED, Entry
from kubevouch.ledger.interface import Ledger, LedgerError
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.gotext import quote
from kubevouch.machinery.text.times import Time
from kubevouch.pki.errors import IssuedMismatchError, ParseError, PKIError, PolicyError
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.policy import FAILED_REASON, MIN_TTL, attestation_provider, names_node
from kubevouch.pki.x509 import pem, x509_request
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.policy import node_identities, revoked_requests
from kubevouch.policy.facts import facts_of
from kubevouch.revocation import node_records
from kubevouch.revocation.revocations import Revocations
from kubevouch.signers.interface import KEY_IN_FILE, Approval, Requester, Signer, SignerError, SignerUnavailable, Wanted
from kubevouch.signers.issuance import issue
from kubevouch.signers.registry import Signers
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.csr_signing")

NAME = wellknown.CSR_SIGNING_CONTROLLER

# Kubernetes has five for each signer; here they share commits of the store.
WORKERS = 32
STOPPED_REASON, UNAVAILABLE_REASON = wellknown.SIGNER_STOPPED, wellknown.SIGNER_UNAVAILABLE
SIGNER_METHOD = "signer"
"""What has room for questions to signers whose keys are elsewhere; each of them is a destination."""
_MOST_TOLD = 1000
"""Requests of one signer that get an Event while it is away."""


def approval_of(csr: CertificateSigningRequest) -> Approval | None:
    """The evidence that a CSR may be signed; None when it is not approved, or also denied."""
    found = None
    for condition in csr.status.conditions:
        if condition.type == wellknown.CSR_DENIED:
            return None
        if condition.type == wellknown.CSR_APPROVED:
            found = Approval(condition.reason, condition.message, condition.last_update_time)
    return found


def has_failed(csr: CertificateSigningRequest) -> bool:
    """Unlike a decision, a failure counts only when its status is True, or empty."""
    return any(
        condition.type == wellknown.CSR_FAILED and condition.status in (wellknown.CONDITION_TRUE, "")
        for condition in csr.status.conditions
    )


def _due(csr: CertificateSigningRequest) -> Approval | None:
    """The evidence that it is to be signed now; None of what has a certificate, or never will."""
    return None if csr.status.certificate or has_failed(csr) else approval_of(csr)


class _Unwritten(NamedTuple):
    """A certificate that was issued for a request with this uid, and could not be handed out yet."""

    uid: str
    signer: str
    certificate: Certificate


class CSRSigner:
    """Signs with the signer that a CSR names, if it is one of ``signers``."""

    def __init__(
        self,
        client: Client,
        csrs: Lister[CertificateSigningRequest],
        signers: Signers,
        ledger: Ledger,
        clock: Clock,
        refusal: Callable[[CertificateSigningRequest], str],
        metrics: SigningMetrics,
    ) -> None:
        self._client = client
        self._csrs = csrs
        self._signers = signers
        self._ledger = ledger
        self._clock = clock
        self._refusal = refusal
        self._metrics = metrics
        self.questions: RequestQuestions | None = None
        """By which signers are asked that have their keys elsewhere; None has the worker wait for them."""
        self.others: OtherSigners | None = None
        """Who sees whether somebody else signs; None where nobody can."""
        self._events = EventRecorder(client, clock, NAME)
        self._away: dict[str, set[str]] = {}
        """By the signer's name, the uids of those who were told."""
        self._unwritten: dict[str, _Unwritten] = {}
        """By the request's name."""

    async def reconcile(self, request: Request) -> Result:
        csr = self._csrs.get(request.name)
        approval = None if csr is None else _due(csr)
        unwritten = self._unwritten.get(request.name)
        if unwritten is not None and (approval is None or csr is None or csr.metadata.uid != unwritten.uid):
            await self._tell_discarded(request.name, unwritten, csr)
        if csr is not None and self.others is not None and (told := self.others.untold(csr)):
            await self._record(csr, wellknown.SIGNED_ELSEWHERE, told)
        signer = None if csr is None else self._signers.get(csr.spec.signer_name)
        if csr is None or approval is None or signer is None:
            return DONE
        if wait := self._left_to_others(csr):
            return Result(requeue_after=wait)
        refused = self._refusal(csr)
        if refused:
            await self._fail(csr, refused, Time.of(self._clock.now()))
            return DONE
        now = self._clock.now()
        try:
            if signer.kind == KEY_IN_FILE or self.questions is None:
                certificate = await self._issue(signer, csr, approval)
            else:
                # What holds the key may take its time, and no worker waits for it.
                ask = functools.partial(self._obtain, signer, request.name)
                certificate = self.questions.answer(csr, SIGNER_METHOD, csr.spec.signer_name, ask, id(signer))
        except ParseError as err:
            raise ReconcileError(f"unable to parse csr {quote(request.name)}: {err}") from err
        except PolicyError as err:
            await self._fail(csr, str(err), Time.of(now))
            return DONE
        except SignerUnavailable as err:
            # Not with back-off: who was away for an hour would be noticed a quarter of an hour after its return.
            await self._tell_away(csr, str(err))
            return Result(requeue_after=err.retry_after)
        except IssuedMismatchError as err:
            await self._tell_stop(csr, str(err))
            raise ReconcileError(f"error auto signing csr: {err}") from err
        except (PKIError, SignerError, LedgerError) as err:
            raise ReconcileError(f"error auto signing csr: {err}") from err
        self._tell_back(csr.spec.signer_name)
        text = b"".join(each.pem() for each in (certificate, *signer.chain_of(certificate)))
        status = msgspec.structs.replace(csr.status, certificate=text)
        if self.others is not None:
            csr = self.others.marked(csr, text)
        await self._write(csr, status, "error updating signature for csr")
        del self._unwritten[request.name]
        return DONE

    async def _granted(self, wanted: Wanted) -> Wanted:
        """For machines that prove what they are only what was granted is signed, whoever has approved the request.

        The approver writes the grant before its approval: read as the server has it now, none means that there is none.

        Raises:
            PolicyError: nothing is granted to this request and key.
            ReconcileError: that cannot be read now.
        """
        if not attestation_provider(wanted.signer_name):
            return wanted
        name = node_name_of(wanted.request.subject.common_name)
        try:
            identity = await find(self._client, NODE_IDENTITIES, name) if name else None
        except (APIStatusError, TransportError) as err:
            raise ReconcileError(f"what was granted to node {name} cannot be read: {err}") from err
        key = hashlib.sha256(wanted.request.public_key.canonical_info).hexdigest()
        grant = node_identities.grant_of(identity, wanted.uid, key)
        if grant is None:
            raise PolicyError(f"{wanted.signer_name} signs what was attested, and nothing is granted to this request")
        seconds = min(grant.seconds, wanted.expiration_seconds or grant.seconds)
        return msgspec.structs.replace(wanted, expiration_seconds=max(seconds, int(MIN_TTL.total_seconds())))

    async def _obtain(self, signer: Signer, name: str) -> Certificate:
        """As :meth:`_issue`, for the request as it is by now: it may have waited for room.

        Raises:
            ReconcileError: nothing is to be signed any more.
        """
        csr = self._csrs.get(name)
        approval = None if csr is None else _due(csr)
        if csr is None or approval is None or self._refusal(csr) or self._left_to_others(csr):
            raise IgnorableError(f"csr {quote(name)} is not to be signed any more")
        return await self._issue(signer, csr, approval)

    def _left_to_others(self, csr: CertificateSigningRequest) -> float:
        """Seconds for which somebody else may sign it."""
        return 0.0 if self.others is None else self.others.wait(csr)

    async def _issue(self, signer: Signer, csr: CertificateSigningRequest, approval: Approval) -> Certificate:
        wanted = await self._granted(_wanted(csr))
        spec, now = csr.spec, self._clock.now()
        requester = Requester(spec.username, spec.uid, spec.groups, spec.extra)
        begun, outcome = self._clock.monotonic(), "failed"
        try:
            certificate = await issue(signer, requester, approval, wanted, now=now, ledger=self._ledger)
            outcome = "issued"
        except SignerError as err:
            outcome = "unavailable" if isinstance(err, SignerUnavailable) else "failed"
            raise
        finally:
            self._metrics.signed(wanted.signer_name, signer.kind, outcome, self._clock.monotonic() - begun)
        # From now on it is there, also if its request is gone by the time that somebody looks at it again.
        self._unwritten[csr.metadata.name] = _Unwritten(csr.metadata.uid, wanted.signer_name, certificate)
        return certificate

    async def _tell_discarded(self, name: str, unwritten: _Unwritten, csr: CertificateSigningRequest | None) -> None:
        """Write down that a certificate counts no more that could not be handed out, unless it was after all."""
        why = "its request was deleted"
        if csr is not None and csr.metadata.uid == unwritten.uid:
            try:
                counts = pem.first_block(csr.status.certificate)
            except ParseError:
                counts = None
            if counts is not None and counts.contents == unwritten.certificate.contents:
                del self._unwritten[name]
                return
            written = bool(csr.status.certificate)
            why = "another one was written for its request" if written else "its request is approved no more"
        entry = Entry(
            kind=DISCARDED, at=self._clock.now(), request=name, uid=unwritten.uid, signer=unwritten.signer, message=why
        )
        try:
            await self._ledger.append(entries.with_certificate(entry, unwritten.certificate, DISCARDED))
        except LedgerError as err:
            raise ReconcileError(f"error recording a certificate that does not count: {err}") from err
        log.warning("a certificate does not count", csr=name, serial=f"{unwritten.certificate.serial:x}", why=why)
        del self._unwritten[name]

    async def _tell_away(self, csr: CertificateSigningRequest, why: str) -> None:
        """In the log once, however many wait; on each request once, so that who looks at it sees what it waits for."""
        signer_name = csr.spec.signer_name
        if signer_name not in self._away:
            log.error("the signer cannot be reached; its requests wait", signer=signer_name, why=why)
        told = self._away.setdefault(signer_name, set())
        if csr.metadata.uid not in told and len(told) < _MOST_TOLD:
            told.add(csr.metadata.uid)
            await self._record(csr, UNAVAILABLE_REASON, f"{signer_name} cannot be reached, the request waits: {why}")

    def _tell_back(self, signer_name: str) -> None:
        if self._away.pop(signer_name, None) is not None:
            log.warning("the signer signs again", signer=signer_name)

    async def _tell_stop(self, csr: CertificateSigningRequest, why: str) -> None:
        """The signer has stopped for good: whoever waits for it has to see that, not only who reads the log."""
        self._signers.report_stop(csr.spec.signer_name, why)
        await self._record(csr, STOPPED_REASON, f"{csr.spec.signer_name} has stopped signing: {why}")

    async def _record(self, csr: CertificateSigningRequest, reason: str, message: str) -> None:
        about = ObjectReference(
            kind=CERTIFICATE_SIGNING_REQUESTS.kind, name=csr.metadata.name, uid=csr.metadata.uid,
            api_version=CERTIFICATE_SIGNING_REQUESTS.api_version,
        )  # fmt: skip
        try:
            await self._events.record(about, WARNING, reason, message)
        except (APIStatusError, TransportError) as err:
            log.error("an event could not be written", err=str(err), event=message)

    async def _fail(self, csr: CertificateSigningRequest, message: str, now: Time) -> None:
        failed = CertificateSigningRequestCondition(
            type=wellknown.CSR_FAILED,
            status=wellknown.CONDITION_TRUE,
            reason=FAILED_REASON,
            message=message,
            last_update_time=now,
        )
        status = msgspec.structs.replace(csr.status, conditions=[*csr.status.conditions, failed])
        await self._write(csr, status, "error adding failure condition for csr")

    async def _write(self, csr: CertificateSigningRequest, status: CertificateSigningRequestStatus, what: str) -> None:
        changed = msgspec.structs.replace(csr, status=status)
        try:
            await self._client.update(CERTIFICATE_SIGNING_REQUESTS, changed, subresource="status")
        except (APIStatusError, TransportError) as err:
            raise ReconcileError(f"{what}: {err}") from err


def _locked_out(csr: CertificateSigningRequest, records: RecordMaps) -> str:
    """Why a request is not signed that was made before its node was locked out, and approved just before or after."""
    created = csr.metadata.creation_timestamp
    if not names_node(csr.spec.signer_name) or created is None:
        return ""
    try:
        name = node_name_of(x509_request.parse_pem(csr.spec.request or b"").subject.common_name)
    except ParseError:
        return ""
    record = node_records.record_in(records.path(node_records.LAYOUT, node_records.shard_of(name)), name)
    if not record.locks(created.datetime()):
        return ""
    return f"node {name} was locked out after this was asked for: {record.why}"


def _revoked(csr: CertificateSigningRequest, revocations: Revocations) -> str:
    """Why a request is not signed that was approved before who asked for it, or its key, was revoked."""
    if not len(revocations):
        return ""
    try:
        request = x509_request.parse_pem(csr.spec.request or b"")
    except ParseError:
        return ""
    return revoked_requests.refusal(facts_of(csr, request), revocations)


def _wanted(csr: CertificateSigningRequest) -> Wanted:
    spec, created = csr.spec, csr.metadata.creation_timestamp
    return Wanted(
        name=csr.metadata.name,
        uid=csr.metadata.uid,
        signer_name=spec.signer_name,
        request=x509_request.parse_pem(spec.request or b""),
        usages=spec.usages,
        expiration_seconds=spec.expiration_seconds,
        created=created.datetime() if created is not None else None,
    )


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    informer = context.informers.informer(CERTIFICATE_SIGNING_REQUESTS, client=client)
    signers = context.signers
    context.signing_metrics.of_signers(signers)

    def requests(csr: CertificateSigningRequest) -> Iterable[Request]:
        due = not csr.status.certificate and has_condition(csr, wellknown.CSR_APPROVED)
        return (request_of(csr),) if due and csr.spec.signer_name in signers else ()

    config_maps = context.informers.informer(CONFIG_MAPS, client=client, namespace=wellknown.KUBE_SYSTEM_NAMESPACE)
    records = RecordMaps(config_maps.indexer)

    def refusal(csr: CertificateSigningRequest) -> str:
        return _locked_out(csr, records) or _revoked(csr, context.revocations)

    signer = CSRSigner(
        client, informer.lister, signers, context.ledger, context.clock, refusal, context.signing_metrics
    )
    controller = QueueController(
        NAME,
        signer,
        context.clock,
        workers=WORKERS,
        limiter=controller_rate_limiter(context.clock, CSR_BASE_SECONDS),
        flow=requester_flows(context, informer.lister),
    )
    signer.questions = request_questions(controller.questions, context)
    controller.watch(informer, on_add=requests, on_update=requests)
    if context.is_attached:
        signer.others = OtherSigners(
            signers, context.clock, context.signing_metrics, manager_lease(context, client),
            lambda csr: controller.queue.add(request_of(csr)),
        )  # fmt: skip
        controller.follow(informer, signer.others)

    def look_again(signer_name: str) -> None:
        """Those who asked a signer that was not there, or that has changed, need not wait for an event."""
        for csr in informer.lister.list(matches=lambda csr: csr.spec.signer_name == signer_name):
            for request in requests(csr):
                controller.queue.add(request)

    signers.on_change(look_again)
    return controller
