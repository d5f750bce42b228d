"""join-status-controller: tells how a machine's join goes on, as Events and, while it is stuck, as an annotation.

A request that is denied or issued says so itself. One that nobody decides, or signs, says nothing, so it gets the
annotation ``kubevouch.io/join-stuck`` with the reason, which goes when the request goes on. It is no condition:
csrcleaner takes a request with any condition for decided and never removes it (``cleaner.go``, Kubernetes 1.36), also
once this controller has gone; and to write conditions is to be able to approve. Not a controller of Kubernetes.
"""

from __future__ import annotations

import datetime as dt

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NODES
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    is_undecided,
)
from kubevouch.api.core_v1 import Secret
from kubevouch.api.core_v1.events import NORMAL, WARNING
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.client.cache.informer import ChangeHandler
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.config.attestation_config import AttestationConfiguration
from kubevouch.controllers.approval.csr_outlook import NOT_LOOKED_AT, Outlook, outlook
from kubevouch.controllers.approval.name_admission import NameAdmission, NameRefusedError, NoRoomError, name_caches
from kubevouch.controllers.approval.token_admission import TokenAdmission
from kubevouch.controllers.bootstrap_secrets import requests_by_token, token_informer
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.event_recorder import Allowance, EventRecorder
from kubevouch.controllers.interface import DONE, Context, IgnorableError, ReconcileError, Request, Result, request_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_request
from kubevouch.policy import unattested
from kubevouch.policy.facts import facts_of
from kubevouch.records.bootstrap_tokens import secret_name, token_id_of_user
from kubevouch.records.token_bounds import TokenBoundError
from kubevouch.records.token_record import attempt_of
from kubevouch.util.clock import Clock

NAME = wellknown.JOIN_STATUS_CONTROLLER

UNDECIDED = "request created, and nobody has decided"
# A controller decides within milliseconds.
PATIENCE = dt.timedelta(seconds=5)
# What keeps a request from being approved may change.
REFRESH_SECONDS = 300.0
# What was decided before this controller ran has been told, or is no news.
NEWS = dt.timedelta(minutes=1)

_EVENTS = {
    wellknown.CSR_DENIED: (WARNING, "JoinDenied"),
    wellknown.CSR_FAILED: (WARNING, "JoinFailed"),
    wellknown.CSR_APPROVED: (NORMAL, "JoinApproved"),
}


def is_join(csr: CertificateSigningRequest) -> bool:
    """Whether it asks for a node's first certificate: not a node itself that renews its own."""
    return csr.spec.signer_name == wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER and not csr.spec.username.startswith(
        wellknown.NODE_USER_PREFIX
    )


def decision(csr: CertificateSigningRequest) -> CertificateSigningRequestCondition | None:
    """The condition that counts: a failure or denial before an approval."""
    by_type = {condition.type: condition for condition in csr.status.conditions}
    return next((by_type[each] for each in _EVENTS if each in by_type), None)


def with_stuck(csr: CertificateSigningRequest, why: Outlook | None) -> CertificateSigningRequest:
    """``csr`` with the annotation that says ``why``, or without; the same object when nothing changes."""
    former = csr.metadata.annotations
    wanted = {key: value for key, value in former.items() if key != wellknown.JOIN_STUCK_ANNOTATION}
    if why is not None:
        wanted[wellknown.JOIN_STUCK_ANNOTATION] = f"{why.reason}: {why.message}"
    return csr if wanted == former else replace_metadata(csr, annotations=wanted)


def patience_left(csr: CertificateSigningRequest, now: dt.datetime) -> float:
    """Seconds until it is stuck, for a request that nobody has decided, or signed, so far; else zero."""
    if is_undecided(csr):
        since = csr.metadata.creation_timestamp
    else:
        decided = decision(csr)
        if decided is None or decided.type != wellknown.CSR_APPROVED or csr.status.certificate:
            return 0.0
        since = decided.last_update_time
    return 0.0 if since is None else max((PATIENCE - (now - since.datetime())).total_seconds(), 0.0)


class JoinStatus:
    def __init__(
        self,
        client: Client,
        csrs: Lister[CertificateSigningRequest],
        secrets: Lister[Secret],
        names: NameAdmission,
        clock: Clock,
        attestation: AttestationConfiguration | None = None,
    ) -> None:
        self._client = client
        self._attestation = attestation
        self._names = names
        self._csrs = csrs
        self._secrets = secrets
        self._clock = clock
        self._events = EventRecorder(client, clock, NAME)
        self._allowance = Allowance(clock)
        self._told: dict[str, str] = {}

    async def reconcile(self, request: Request) -> Result:
        csr = self._csrs.get(request.name)
        if csr is None or not is_join(csr):
            self._told.pop(request.name, None)
            return DONE
        left = patience_left(csr, self._clock.now())
        if left:
            # The signer may be about to write; a second writer would only make it try again.
            return Result(left)
        if is_undecided(csr):
            return await self._look(csr)
        decided = decision(csr)
        if decided is None:
            return DONE
        if decided.type == wellknown.CSR_APPROVED and not csr.status.certificate:
            return await self._tell_of_signer(csr)
        await self._write(csr, with_stuck(csr, None))
        kind, reason = _EVENTS[decided.type]
        since = decided.last_update_time
        news = since is None or self._clock.now() - since.datetime() <= NEWS
        if news and self._told.get(request.name) != f"{csr.metadata.uid} {reason}" and not self._allowance.take():
            self._told[request.name] = f"{csr.metadata.uid} {reason}"
            await self._tell(csr, kind, reason, f"{decided.reason}: {decided.message}")
        return DONE

    async def _look(self, csr: CertificateSigningRequest) -> Result:
        why = self._without_proof(csr) or await outlook(self._client, csr, self._secret_of_token)
        if why.reason == NOT_LOOKED_AT:
            why = await self._wait_for_name(csr) or why
        stuck = Outlook(why.reason, f"{UNDECIDED}: {why.message}")
        wait = await self._say_stuck(csr, "JoinNotApproved", stuck)
        return Result(wait or REFRESH_SECONDS)

    def _without_proof(self, csr: CertificateSigningRequest) -> Outlook | None:
        """Where machines prove what they are, and this one has a token only. Of other names' owners nothing is asked:
        such a request is denied."""
        if self._attestation is None:
            return None
        try:
            facts = facts_of(csr, x509_request.parse_pem(csr.spec.request or b""))
        except ParseError:
            return None
        against = unattested.objection(facts, None, None, self._attestation)
        return None if against is None else Outlook(wellknown.PROOF_MISSING_REASON, against.message)

    async def _wait_for_name(self, csr: CertificateSigningRequest) -> Outlook | None:
        """What the approving controller would wait for; it says so in its log only."""
        try:
            await self._names.verify(csr, x509_request.parse_pem(csr.spec.request or b""))
        except NoRoomError as err:
            return Outlook("LedgerFull", str(err))
        except (IgnorableError, NameRefusedError, TokenBoundError) as err:
            return Outlook("NameNotFree", str(err))
        return None

    async def _tell_of_signer(self, csr: CertificateSigningRequest) -> Result:
        why = Outlook("NotSigned", "request approved, and nobody has signed it; does the signing controller run?")
        wait = await self._say_stuck(csr, "JoinNotSigned", why)
        return Result(wait) if wait else DONE

    async def _say_stuck(self, csr: CertificateSigningRequest, event: str, why: Outlook) -> float:
        """Seconds until it may be said; 0 once it is."""
        changed = with_stuck(csr, why)
        if changed is csr:
            return 0.0
        wait = self._allowance.take()
        if not wait:
            await self._write(csr, changed)
            await self._tell(csr, WARNING, event, f"{why.reason}: {why.message}")
        return wait

    async def _secret_of_token(self, token_id: str) -> Secret | None:
        return self._secrets.get(secret_name(token_id), wellknown.KUBE_SYSTEM_NAMESPACE)

    async def _write(self, csr: CertificateSigningRequest, changed: CertificateSigningRequest) -> None:
        if changed is csr:
            return
        try:
            await self._client.update(CERTIFICATE_SIGNING_REQUESTS, changed)
        except APIStatusError as err:
            if err.code in (404, 409):
                raise ReconcileError(f"error updating annotations of csr: {err}") from err
            raise

    async def _tell(self, csr: CertificateSigningRequest, kind: str, reason: str, message: str) -> None:
        about = CERTIFICATE_SIGNING_REQUESTS
        attempt = attempt_of(csr)
        where = f" from {attempt.source}" if attempt.source else ""
        token_id = token_id_of_user(csr.spec.username)
        by = f"the token {token_id}" if token_id else csr.spec.username
        who = attempt.node_name or attempt.subject or "what cannot be read"
        node = ObjectReference(kind=NODES.kind, api_version=NODES.api_version, name=attempt.node_name)
        await self._events.record(
            ObjectReference(
                kind=about.kind, api_version=about.api_version, name=csr.metadata.name, uid=csr.metadata.uid
            ),
            kind,
            reason,
            f"{who}, with {by}{where}: {message}",
            related=node if attempt.node_name else None,
        )


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    secrets = token_informer(context, context.connect(wellknown.TOKEN_USES_CONTROLLER))
    csrs = requests_by_token(context, client)
    # It reads what the approver reads, and says what that would say.
    approver = context.connect(wellknown.CSR_APPROVING_CONTROLLER)
    bounds = TokenAdmission(context.connect(wellknown.TOKEN_USES_CONTROLLER), secrets.lister)
    names = NameAdmission(
        approver, name_caches(context, approver, csrs), bounds, context.clock, takeover=context.allow_name_takeover
    )
    proofs = None if context.attestation is None else context.attestation.config
    status = JoinStatus(client, csrs.lister, secrets.lister, names, context.clock, proofs)
    controller = QueueController(NAME, status, context.clock)

    def look_later(csr: CertificateSigningRequest, gone: bool) -> None:
        """A join that goes through is looked at once: when it has its certificate."""
        if is_join(csr):
            controller.queue.add_after(request_of(csr), 0.0 if gone else patience_left(csr, context.clock.now()))

    controller.follow(csrs, ChangeHandler(look_later))
    controller.watch(secrets, resync_seconds=0)
    return controller
