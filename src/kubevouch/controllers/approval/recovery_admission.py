"""Whether a recovering node gets its certificate: asked before its request is approved.

The key is replaced and the budget is charged by one write before the approval, so that of two machines with one key
one wins, and whoever is killed in between finds the use taken by itself.
"""

from __future__ import annotations

from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1.events import NORMAL
from kubevouch.controllers.interface import IgnorableError
from kubevouch.controllers.recovery_records import RecoveryRecords
from kubevouch.machinery.text.gotext import quote
from kubevouch.records import node_recovery
from kubevouch.records.node_recovery import Record, RecoveryBudgetError, RecoveryPolicy
from kubevouch.util.clock import Clock

RECOVERED_REASON = "NodeRecovered"


class RecoveryAdmission:
    """Args: ``policy`` is None where recovery is off."""

    def __init__(self, records: RecoveryRecords, policy: RecoveryPolicy | None, clock: Clock) -> None:
        self._records = records
        self._policy = policy
        self._clock = clock

    async def admit(self, csr: CertificateSigningRequest) -> None:
        """Take a use of the recovery key behind ``csr``, if it was made with one.

        Raises:
            RecoveryRefusedError: the request will never be granted.
            IgnorableError, ReconcileError: not now.
            APIStatusError, TransportError
        """
        node, policy = node_recovery.node_of_user(csr.spec.username), self._policy
        if not node_recovery.is_recovering(csr.spec.username):
            return
        if policy is None:
            raise IgnorableError(f"csr {quote(csr.metadata.name)} is a recovery, and recovery is off")
        wanted = node_recovery.verify_request(csr.spec, csr.spec.username, csr.spec.extra)

        def use(record: Record | None) -> Record:
            return node_recovery.use(record, wanted, policy, now=self._clock.now())

        try:
            charged = await self._records.change(node, use)
        except RecoveryBudgetError as err:
            raise IgnorableError(f"csr {quote(csr.metadata.name)}: {err}") from err
        if charged:
            await self._records.tell(
                node, NORMAL, RECOVERED_REASON, "a certificate that had ended was replaced with the recovery key"
            )
