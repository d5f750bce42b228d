"""podcertificaterequest-signing-controller: certificates for pods. Kubernetes has the requests and no signer for them.

There is no approval: whoever signs decides. What is decided is in :mod:`kubevouch.policy.pod_certificates`; here pod,
node and account are asked for, each time and not from a cache, and the certificate goes the one way that all go
(:mod:`kubevouch.signers.issuance`). One write of the status says everything, and is the last one that the server takes.
Works with v1 and v1beta1, whichever there is.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import msgspec

from kubevouch import wellknown
from kubevouch.api import pod_certificate_requests_v1 as v1
from kubevouch.api.catalog import (
    NODES,
    POD_CERTIFICATE_REQUESTS,
    POD_CERTIFICATE_REQUESTS_V1,
    PODS,
    SERVICE_ACCOUNTS,
)
from kubevouch.api.core_v1.events import WARNING
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.api.issued_pod_certificates import MIN_LIFETIME
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_SIGNERS
from kubevouch.api.meta_v1 import Condition
from kubevouch.api.pod_certificate_requests_v1beta1 import (
    PodCertificateRequest,
    PodCertificateRequestStatus,
    final_condition,
    key_source,
    validate_pod_certificate_request_status_update,
)
from kubevouch.client.cache.informer import ChangeHandler
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client, TransportError
from kubevouch.client.rate_limiters import CSR_BASE_SECONDS, controller_rate_limiter
from kubevouch.controllers import certificate_signers, csr_signing
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.event_recorder import Allowance, EventRecorder
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
from kubevouch.controllers.outside_questions import OutsideQuestions, Question
from kubevouch.ledger import entries
from kubevouch.ledger.interface import Ledger, LedgerError, allowed
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.times import Time
from kubevouch.pki import pod_keys
from kubevouch.pki.errors import IssuedMismatchError, PKIError, PolicyError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.x509 import subject_alt_names
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.policy import pod_certificates
from kubevouch.policy.pod_certificates import Found, PodCertificateRules
from kubevouch.policy.verdict import Outcome, Verdict
from kubevouch.revocation.revocations import Revocations
from kubevouch.signers.interface import KEY_IN_FILE, Approval, Requester, Signer, SignerError, SignerUnavailable, Wanted
from kubevouch.signers.issuance import issue
from kubevouch.signers.registry import Signers
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.pod_certificates")

NAME = wellknown.POD_CERTIFICATE_SIGNING_CONTROLLER

WORKERS = 8
BACKDATE = dt.timedelta(minutes=1)
"""How far in the past certificates begin. The server lets it be less than five minutes when the answer comes, so four
are left for an answer that is late."""
MAX_OF_POD = 20
"""Issued requests of one pod, before the cleaner takes them away, beyond which the next one waits: a node may make any
number of them, and each costs a signature and a place in the ledger. A pod has as many as it has such volumes."""
SOONEST_SECONDS, LATEST_SECONDS = 2.0, 60.0
"""How soon what waits is looked at again: nothing tells of what it waits for."""

POD_INDEX = "pod"
PENDING_REASON = "PodCertificatePending"

T = TypeVar("T", bound=Object)

RulesOf = Callable[[str], PodCertificateRules | None]


class PodCertificateSigner:
    """Answers requests for the signers that ``rules_of`` knows.

    Args:
        resource: the version of the kind in which requests are read and written.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[Any],
        requests: Lister[Any],
        signers: Signers,
        rules_of: RulesOf,
        ledger: Ledger,
        clock: Clock,
        revocations: Revocations,
        events: EventRecorder,
        metrics: SigningMetrics,
    ) -> None:
        self._client = client
        self._resource = resource
        self._requests = requests
        self._signers = signers
        self._rules_of = rules_of
        self._ledger = ledger
        self._clock = clock
        self._revocations = revocations
        self._events = events
        self._metrics = metrics
        self._allowance = Allowance(clock)
        self.questions: OutsideQuestions | None = None
        """By which signers are asked that have their keys elsewhere; None has the worker wait for them."""

    async def reconcile(self, request: Request) -> Result:
        stored = self._requests.get(request.name, request.namespace)
        asked = None if stored is None else _as_v1beta1(stored)
        if asked is None or final_condition(asked) is not None:
            return DONE
        rules, signer = self._rules_of(asked.spec.signer_name), self._signers.get(asked.spec.signer_name)
        if rules is None or signer is None or self._signers.is_fixed(asked.spec.signer_name):
            # One of the command line is not the one that the object of its name speaks of.
            return DONE
        verdict = pod_certificates.decide(asked, await self._found(asked), rules, self._revocations)
        if verdict.outcome is Outcome.NO_OPINION:
            return await self._wait(asked, verdict.missing)
        wanted = _wanted(asked, rules, signer.rules)
        if verdict.outcome is Outcome.DENY:
            await self._deny(asked, wanted, verdict)
            return DONE
        return await self._issue(asked, wanted, rules, signer, verdict)

    async def _found(self, asked: PodCertificateRequest) -> Found:
        """From the API server itself: of what a cache has, nobody knows how old it is."""
        spec, namespace = asked.spec, asked.metadata.namespace
        return Found(
            pod=await self._get(PODS, spec.pod_name, namespace),
            account=await self._get(SERVICE_ACCOUNTS, spec.service_account_name, namespace),
            node=await self._get(NODES, spec.node_name, ""),
        )

    async def _get(self, resource: Resource[T], name: str, namespace: str) -> T | None:
        try:
            return await self._client.get(resource, name, namespace)
        except APIStatusError as err:
            if err.code == 404:
                return None
            raise ReconcileError(f"{resource.plural} {name} cannot be read: {err}") from err
        except TransportError as err:
            raise ReconcileError(f"{resource.plural} {name} cannot be read: {err}") from err

    # -------------------------------------------------------------- the three answers

    async def _wait(self, asked: PodCertificateRequest, missing: str) -> Result:
        """Nothing may be written into the status; an Event says it."""
        log.debug("a request for a pod's certificate waits", request=_name(asked), missing=missing)
        await self._tell(asked, PENDING_REASON, f"this waits for {missing}")
        created = asked.metadata.creation_timestamp
        age = 0.0 if created is None else self._clock.now().timestamp() - created.seconds
        return Result(requeue_after=min(max(SOONEST_SECONDS, age / 4), LATEST_SECONDS))

    async def _deny(self, asked: PodCertificateRequest, wanted: Wanted, verdict: Verdict) -> None:
        await self._record(entries.DENIED, asked, wanted, verdict)
        status = PodCertificateRequestStatus(conditions=[self._condition(wellknown.CSR_DENIED, verdict)])
        await self._write(asked, status)
        log.info("a pod's certificate is denied", request=_name(asked), reason=verdict.reason, why=verdict.message)
        await self._tell(asked, "PodCertificateDenied", verdict.message)

    async def _issue(
        self, asked: PodCertificateRequest, wanted: Wanted, rules: PodCertificateRules, signer: Signer, verdict: Verdict
    ) -> Result:
        if self._issued_of(asked) >= MAX_OF_POD:
            return await self._wait(asked, f"fewer requests of its pod: {MAX_OF_POD} have been issued lately")
        now = self._clock.now()
        whole = dt.timedelta(seconds=wanted.expiration_seconds or 0)
        if whole < MIN_LIFETIME:
            longest = signer.rules.signing_duration
            return await self._wait(asked, f"a signer that signs for an hour at least; this one does for {longest}")
        await self._record(entries.APPROVED, asked, wanted, verdict)
        approval = Approval(verdict.reason, verdict.message, Time.of(now))
        sign = functools.partial(self._sign, asked, signer, _for_pods(signer.rules, whole), approval, wanted, now)
        try:
            if signer.kind == KEY_IN_FILE or self.questions is None:
                certificate = await sign()
            else:
                # What holds the key may take its time, and no worker waits for it.
                ask = functools.partial(self._sign_if_due, asked, rules, sign)
                certificate = self.questions.answer(_question(asked, signer), ask)
        except PolicyError as err:
            # The signer permits less than its own words about pods: that is for its operator to put right, while a
            # denial would be for ever.
            return await self._wait(asked, f"a signer that permits what it says of pods: {err}")
        except SignerUnavailable as err:
            await self._tell(asked, PENDING_REASON, f"this waits for its signer, which cannot be reached: {err}")
            return Result(requeue_after=err.retry_after)
        except IssuedMismatchError as err:
            self._signers.report_stop(wanted.signer_name, str(err))
            raise ReconcileError(f"error signing {_name(asked)}: {err}") from err
        except (PKIError, SignerError, LedgerError) as err:
            raise ReconcileError(f"error signing {_name(asked)}: {err}") from err
        chain = "".join(each.pem().decode() for each in (certificate, *signer.chain_of(certificate)))
        status = self._issued(certificate, chain, rules, verdict)
        answered = msgspec.structs.replace(asked, status=status)
        faults = validate_pod_certificate_request_status_update(answered, asked, self._clock.now())
        if faults:
            # It came too late, or its CA ends too soon. The kubelet asks anew once this request has been cleaned up.
            log.error("a pod's certificate is none that the server takes", request=_name(asked), why=str(faults[0]))
            return await self._wait(asked, f"a certificate that the API server takes: {faults[0].body[-500:]}")
        await self._write(asked, status)
        return DONE

    async def _sign_if_due(
        self, asked: PodCertificateRequest, rules: PodCertificateRules, sign: Callable[[], Awaitable[Certificate]]
    ) -> Certificate:
        """For a request that may have waited for room: its pod may be gone by now."""
        verdict = pod_certificates.decide(asked, await self._found(asked), rules, self._revocations)
        if verdict.outcome is not Outcome.APPROVE:
            raise IgnorableError(f"{_name(asked)} is not to be signed any more")
        return await sign()

    async def _sign(
        self,
        asked: PodCertificateRequest,
        signer: Signer,
        rules: SigningRules,
        approval: Approval,
        wanted: Wanted,
        now: dt.datetime,
    ) -> Certificate:
        begun, outcome = self._clock.monotonic(), "failed"
        try:
            certificate = await issue(
                signer, _requester(asked), approval, wanted, now=now, ledger=self._ledger, rules=rules
            )
            outcome = "issued"
            return certificate
        except SignerUnavailable:
            outcome = "unavailable"
            raise
        finally:
            self._metrics.signed(wanted.signer_name, signer.kind, outcome, self._clock.monotonic() - begun)

    def _issued_of(self, asked: PodCertificateRequest) -> int:
        of_pod = self._requests.by_index(POD_INDEX, asked.spec.pod_uid)
        return sum(bool(each.status.certificate_chain) for each in of_pod)

    def _issued(
        self, certificate: Certificate, chain: str, rules: PodCertificateRules, verdict: Verdict
    ) -> PodCertificateRequestStatus:
        begin, end = certificate.not_before, certificate.not_after
        return PodCertificateRequestStatus(
            conditions=[self._condition(wellknown.POD_CERTIFICATE_ISSUED, verdict)],
            certificate_chain=chain,
            not_before=Time.of(begin),
            begin_refresh_at=Time.of(pod_certificates.refresh_at(begin, end, rules.refresh)),
            not_after=Time.of(end),
        )

    def _condition(self, kind: str, verdict: Verdict) -> Condition:
        return Condition(
            type=kind,
            status=wellknown.CONDITION_TRUE,
            reason=verdict.reason,
            message=verdict.message,
            last_transition_time=Time.of(self._clock.now()),
        )

    async def _write(self, asked: PodCertificateRequest, status: PodCertificateRequestStatus) -> None:
        answered = msgspec.structs.replace(asked, status=status)
        shown = v1.from_v1beta1(answered) if self._resource is POD_CERTIFICATE_REQUESTS_V1 else answered
        try:
            await self._client.update(self._resource, shown, subresource="status")
        except (APIStatusError, TransportError) as err:
            raise ReconcileError(f"error answering {_name(asked)}: {err}") from err

    async def _record(self, kind: str, asked: PodCertificateRequest, wanted: Wanted, verdict: Verdict) -> None:
        """Before anybody can see the answer, and once, however often the answer is tried."""
        requester = _requester(asked)
        entry = entries.entry_of_request(
            kind, self._clock.now(), wanted.request, name=wanted.name, uid=wanted.uid, signer=wanted.signer_name,
            requester=requester.username, extra=requester.extra, usages=wanted.usages,
            expiration_seconds=wanted.expiration_seconds, created=wanted.created,
        )  # fmt: skip
        try:
            if kind == entries.APPROVED and await allowed(self._ledger, entry.uid, entry.digest) is not None:
                return
            await self._ledger.append(
                msgspec.structs.replace(
                    entry, approver=verdict.approver, reason=verdict.reason, message=verdict.message,
                    trace=entries.bounded_trace(verdict.steps), node=asked.spec.node_name,
                )
            )  # fmt: skip
        except LedgerError as err:
            raise ReconcileError(f"error recording the decision about {_name(asked)}: {err}") from err

    async def _tell(self, asked: PodCertificateRequest, reason: str, message: str) -> None:
        if self._allowance.take():
            return
        meta = asked.metadata
        about = ObjectReference(
            kind=self._resource.kind, namespace=meta.namespace, name=meta.name, uid=meta.uid,
            api_version=self._resource.api_version,
        )  # fmt: skip
        try:
            await self._events.record(about, WARNING, reason, message)
        except (APIStatusError, TransportError) as err:
            log.debug("no event", request=_name(asked), err=str(err))


def _for_pods(rules: SigningRules, whole: dt.timedelta) -> SigningRules:
    """Rules by which a certificate begins not long ago, and holds for an hour at least."""
    room = (whole - MIN_LIFETIME) / (whole - BACKDATE)
    return msgspec.structs.replace(rules, backdate=BACKDATE, spread=min(rules.spread, room))


def _name(asked: PodCertificateRequest) -> str:
    return f"{asked.metadata.namespace}/{asked.metadata.name}"


def _as_v1beta1(stored: Any) -> PodCertificateRequest:
    return v1.to_v1beta1(stored) if isinstance(stored, v1.PodCertificateRequest) else stored


def _question(asked: PodCertificateRequest, signer: Signer) -> Question:
    """A node asks for its pods: it has the room of one source."""
    spec = asked.spec
    return Question(
        request_of(asked), asked.metadata.uid, csr_signing.SIGNER_METHOD, spec.signer_name, spec.node_name, id(signer)
    )


def _requester(asked: PodCertificateRequest) -> Requester:
    """Whose certificate it is, as its tokens say it; who made the request is not written down anywhere."""
    spec = asked.spec
    extra = {
        wellknown.POD_NAME_EXTRA: (spec.pod_name,),
        wellknown.POD_UID_EXTRA: (spec.pod_uid,),
        wellknown.NODE_NAME_EXTRA: (spec.node_name,),
        wellknown.NODE_UID_EXTRA: (spec.node_uid,),
    }
    return Requester(pod_certificates.account_user(asked), spec.service_account_uid, (), extra)


def _wanted(asked: PodCertificateRequest, rules: PodCertificateRules, signing: SigningRules) -> Wanted:
    """The key is the request's, all else is ours. Nothing that its PKCS #10 request says besides counts."""
    spec, created = asked.spec, asked.metadata.creation_timestamp
    subject, names = pod_certificates.names_of(asked, rules)
    proof = pod_keys.as_request(key_source(spec))
    asked_names = Extension(subject_alt_names.OID, subject == Subject(), names.encode())
    longest = int(signing.signing_duration.total_seconds())
    return Wanted(
        name=_name(asked),
        uid=asked.metadata.uid,
        signer_name=spec.signer_name,
        request=msgspec.structs.replace(proof, subject=subject, alt_names=names, extensions=(asked_names,)),
        usages=rules.usages,
        expiration_seconds=min(spec.max_expiration_seconds or longest, longest),
        created=created.datetime() if created is not None else None,
    )


def pods_of(stored: Any) -> list[str]:
    """For :data:`POD_INDEX`."""
    return [stored.spec.pod_uid]


def served(resources: Iterable[Resource[Any]]) -> Resource[Any] | None:
    """The kind in its newest version that is there, or None."""
    found = {each.version for each in resources if each.group_resource == POD_CERTIFICATE_REQUESTS.group_resource}
    return next(
        (each for each in (POD_CERTIFICATE_REQUESTS_V1, POD_CERTIFICATE_REQUESTS) if each.version in found), None
    )


def build(context: Context) -> QueueController | None:
    """None where there are no such requests, or nothing signs that could sign for pods."""
    resource = served(context.resources)
    if resource is None or not {certificate_signers.NAME, csr_signing.NAME} <= context.running:
        return None
    client = context.connect(NAME)
    informer = context.informers.informer(resource, client=client)
    informer.indexer.add_index(POD_INDEX, pods_of)
    objects = context.informers.informer(CERTIFICATE_SIGNERS, client=client)

    def rules_of(signer_name: str) -> PodCertificateRules | None:
        """By the object that has the name."""
        same = objects.lister.list(matches=lambda each: each.spec.signer_name == signer_name)
        first = min(same, key=certificate_signers.age, default=None)
        return None if first is None else pod_certificates.rules_of(first.spec)

    reconciler = PodCertificateSigner(
        client, resource, informer.lister, context.signers, rules_of, context.ledger, context.clock,
        context.revocations, EventRecorder(client, context.clock, NAME), context.signing_metrics,
    )  # fmt: skip
    controller = QueueController(
        NAME,
        reconciler,
        context.clock,
        workers=WORKERS,
        limiter=controller_rate_limiter(context.clock, CSR_BASE_SECONDS),
    )

    def requests(stored: Any) -> Iterable[Request]:
        asked = _as_v1beta1(stored)
        due = rules_of(asked.spec.signer_name) is not None and final_condition(asked) is None
        return (request_of(stored),) if due else ()

    controller.watch(informer, on_add=requests, on_update=requests)

    def look_again(signer_name: str) -> None:
        for stored in informer.lister.list(matches=lambda each: each.spec.signer_name == signer_name):
            for request in requests(stored):
                controller.queue.add(request)

    reconciler.questions = controller.questions
    context.signers.on_change(look_again)
    controller.follow(objects, ChangeHandler(lambda obj, _: look_again(obj.spec.signer_name)))
    return controller
