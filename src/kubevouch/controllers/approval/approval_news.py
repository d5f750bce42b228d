"""Events about requests: what was decided by rules that Kubernetes does not have, and what the others wait for.

Joins are told of by join-status-controller, but for those that somebody keeps from being approved.
"""

from __future__ import annotations

from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1.events import NORMAL, WARNING
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.client.interface import Client, TransportError
from kubevouch.controllers.event_recorder import Allowance, EventRecorder
from kubevouch.machinery.errors import APIStatusError
from kubevouch.policy.verdict import Outcome, Verdict
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.wellknown import CSR_APPROVING_CONTROLLER, KUBE_APISERVER_CLIENT_KUBELET_SIGNER

log = get_logger("controllers.approval_news")

WAITS_REASON = "CertificateRequestWaits"
_REASONS = {Outcome.APPROVE: "CertificateRequestApproved", Outcome.DENY: "CertificateRequestDenied"}
_REMEMBERED = 4096


class ApprovalNews:
    """Best effort: a decision never waits for its Event, and what there is too much of is not told."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._events = EventRecorder(client, clock, CSR_APPROVING_CONTROLLER)
        self._allowance = Allowance(clock)
        # What each request was last said to wait for.
        self._told: dict[str, str] = {}

    async def decided(self, csr: CertificateSigningRequest, verdict: Verdict) -> None:
        self._told.pop(csr.metadata.uid, None)
        if csr.spec.signer_name == KUBE_APISERVER_CLIENT_KUBELET_SIGNER:
            return
        kind = WARNING if verdict.outcome is Outcome.DENY else NORMAL
        await self._tell(csr, kind, _REASONS[verdict.outcome], verdict.message)

    async def waits(self, csr: CertificateSigningRequest, verdict: Verdict) -> None:
        """Once for each thing that it waits for."""
        uid = csr.metadata.uid
        is_join = csr.spec.signer_name == KUBE_APISERVER_CLIENT_KUBELET_SIGNER
        if not verdict.missing or self._told.get(uid) == verdict.missing or (is_join and not verdict.blocks):
            return
        self._told[uid] = verdict.missing
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        await self._tell(csr, WARNING, WAITS_REASON, f"nobody has decided: {verdict.missing}")

    async def _tell(self, csr: CertificateSigningRequest, kind: str, reason: str, message: str) -> None:
        if self._allowance.take():
            return
        about, meta = CERTIFICATE_SIGNING_REQUESTS, csr.metadata
        reference = ObjectReference(kind=about.kind, api_version=about.api_version, name=meta.name, uid=meta.uid)
        try:
            await self._events.record(reference, kind, reason, message)
        except (APIStatusError, TransportError) as err:
            log.debug("no event of a request", csr=meta.name, err=str(err))
