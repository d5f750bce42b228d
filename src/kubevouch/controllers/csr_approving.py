"""certificatesigningrequest-approving-controller: approves kubelets' client certificates that their poster may have.

Source: pkg/controller/certificates/approver/sarapprove.go (Kubernetes 1.36), which never denies. Here a request is
denied that a bounded bootstrap token is not for, or has no use left for, that a recovery key is not for, or whose name
or key belongs to another machine.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    has_condition,
)
from kubevouch.api.core_v1 import Secret
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client, TransportError
from kubevouch.client.rate_limiters import CSR_BASE_SECONDS, controller_rate_limiter
from kubevouch.controllers.approval.access_review import may_create
from kubevouch.controllers.approval.name_admission import NameAdmission, NameRefusedError, name_caches
from kubevouch.controllers.approval.recovery_admission import RecoveryAdmission
from kubevouch.controllers.approval.token_admission import TokenAdmission
from kubevouch.controllers.bootstrap_secrets import TOKEN_INDEX, requests_by_token, token_informer
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, Context, IgnorableError, ReconcileError, Request, Result, request_of
from kubevouch.controllers.recovery_records import RecoveryRecords
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import ParseError
from kubevouch.pki.recognizers import APPROVED_REASON, not_approved, recognize
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.records.bootstrap_tokens import token_id_of_name
from kubevouch.records.node_recovery import RecoveryRefusedError
from kubevouch.records.token_bounds import DENIED_REASON, TokenBoundError

NAME = wellknown.CSR_APPROVING_CONTROLLER
RECOVERY_DENIED_REASON = "RecoveryRefused"

# Kubernetes has five; here they share commits of the store, and a waiting worker costs next to nothing.
WORKERS = 32
# Decisions that a cache may not have heard of.
_REMEMBERED = 1024


def is_open(csr: CertificateSigningRequest) -> bool:
    """Whether nobody has decided. The status of a decision is not looked at."""
    return not (
        csr.status.certificate or has_condition(csr, wellknown.CSR_APPROVED) or has_condition(csr, wellknown.CSR_DENIED)
    )


class CSRApprover:
    """Recognises, asks, and has the bootstrap token's bounds kept; then approves."""

    def __init__(
        self,
        client: Client,
        csrs: Lister[CertificateSigningRequest],
        tokens: TokenAdmission,
        recovery: RecoveryAdmission,
        names: NameAdmission,
    ) -> None:
        self._client = client
        self._csrs = csrs
        self._tokens = tokens
        self._recovery = recovery
        self._names = names
        self._decided: dict[str, str] = {}

    async def reconcile(self, request: Request) -> Result:
        csr = self._csrs.get(request.name)
        # Its token's Secret wakes a request, too: sooner than the cache hears of the decision.
        if csr is None or not is_open(csr) or self._decided.get(csr.metadata.uid) == csr.metadata.resource_version:
            return DONE
        spec = csr.spec
        try:
            wanted = x509_request.parse_pem(spec.request or b"")
        except ParseError as err:
            raise ReconcileError(f"unable to parse csr {quote(request.name)}: {err}") from err
        recognized = recognize(spec.signer_name, wanted, spec.usages, username=spec.username)
        for recognition in recognized:
            if await may_create(self._client, spec, recognition.subresource):
                await self._approve_within_bounds(csr, wanted, recognition.message)
                return DONE
        if recognized:
            raise IgnorableError(not_approved(request.name, recognized))
        return DONE

    async def _approve_within_bounds(
        self, csr: CertificateSigningRequest, wanted: CertificateRequest, message: str
    ) -> None:
        try:
            await self._names.admit(csr, wanted)
            await self._tokens.admit(csr)
            await self._recovery.admit(csr)
        except NameRefusedError as err:
            await self._decide(csr, wellknown.CSR_DENIED, err.reason, str(err))
        except TokenBoundError as err:
            await self._decide(csr, wellknown.CSR_DENIED, DENIED_REASON, str(err))
        except RecoveryRefusedError as err:
            await self._decide(csr, wellknown.CSR_DENIED, RECOVERY_DENIED_REASON, str(err))
        else:
            await self._decide(csr, wellknown.CSR_APPROVED, APPROVED_REASON, message)

    async def _decide(self, csr: CertificateSigningRequest, decision: str, reason: str, message: str) -> None:
        # The server fills in the times.
        condition = CertificateSigningRequestCondition(
            type=decision, status=wellknown.CONDITION_TRUE, reason=reason, message=message
        )
        status = msgspec.structs.replace(csr.status, conditions=[*csr.status.conditions, condition])
        try:
            await self._client.update(
                CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(csr, status=status), subresource="approval"
            )
        except (APIStatusError, TransportError) as err:
            raise ReconcileError(f"error updating approval for csr: {err}") from err
        self._decided[csr.metadata.uid] = csr.metadata.resource_version
        if len(self._decided) > _REMEMBERED:
            del self._decided[next(iter(self._decided))]


def _requests(csr: CertificateSigningRequest) -> Iterable[Request]:
    return (request_of(csr),) if is_open(csr) else ()


def build(context: Context) -> QueueController:
    client, tokens = context.connect(NAME), context.connect(wellknown.TOKEN_USES_CONTROLLER)
    informer = requests_by_token(context, client)
    secrets = token_informer(context, tokens)

    def waiting(secret: Secret) -> Iterable[Request]:
        """The requests that a use may have become free for."""
        token_id = token_id_of_name(secret.metadata.name)
        if token_id is None or not secret.metadata.annotations:
            return
        for csr in informer.lister.by_index(TOKEN_INDEX, token_id):
            yield from _requests(csr)

    recoverer = context.connect(wellknown.NODE_RECOVERY_CONTROLLER)
    records = RecoveryRecords(recoverer, context.clock, wellknown.NODE_RECOVERY_CONTROLLER)
    recovery = RecoveryAdmission(records, context.recovery, context.clock)
    bounds = TokenAdmission(tokens, secrets.lister)
    caches = name_caches(context, client, informer)
    names = NameAdmission(client, caches, bounds, context.clock, takeover=context.allow_name_takeover)
    controller = QueueController(
        NAME,
        CSRApprover(client, informer.lister, bounds, recovery, names),
        context.clock,
        workers=WORKERS,
        limiter=controller_rate_limiter(context.clock, CSR_BASE_SECONDS),
    )
    controller.watch(informer, on_add=_requests, on_update=_requests)
    controller.watch(secrets, on_update=waiting, resync_seconds=0)
    return controller
