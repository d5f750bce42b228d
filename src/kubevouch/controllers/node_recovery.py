"""node-recovery-controller: writes down the recovery keys that nodes name in their requests.

Not a controller of Kubernetes. Requests are looked at as long as they are there, and one that is older than a record is
no news to it, so that a restart neither misses nor repeats anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1.events import NORMAL
from kubevouch.client.cache.lister import Lister
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, Context, Request, Result, request_of
from kubevouch.controllers.recovery_records import RecoveryRecords
from kubevouch.controllers.requester_flow import requester_flows
from kubevouch.records import node_recovery
from kubevouch.records.node_recovery import CloneError, Record

NAME = wellknown.NODE_RECOVERY_CONTROLLER
REGISTERED_REASON = "RecoveryKeyRegistered"
WORKERS = 8


class KeyRegistrar:
    """From a request to the record of its node."""

    def __init__(self, csrs: Lister[CertificateSigningRequest], records: RecoveryRecords) -> None:
        self._csrs = csrs
        self._records = records

    async def reconcile(self, request: Request) -> Result:
        csr = self._csrs.get(request.name)
        found = None if csr is None else node_recovery.registration_of(csr)
        if found is None:
            return DONE
        node, keys = found.node_name, found.keys

        def register(record: Record | None) -> Record | None:
            if record is not None and record.locked:
                return None
            return node_recovery.register(record, node, keys, joined=found.joined, asked=found.asked)

        try:
            registered = await self._records.change(node, register)
        except CloneError:
            return DONE  # it was told, and nothing more is to be done here
        if registered:
            await self._records.tell(node, NORMAL, REGISTERED_REASON, f"the recovery key {keys[0][:16]}… is registered")
        return DONE


def _requests(csr: CertificateSigningRequest) -> Iterable[Request]:
    return (request_of(csr),) if node_recovery.KEYS_ANNOTATION in csr.metadata.annotations else ()


def _issued(csr: CertificateSigningRequest) -> Iterable[Request]:
    """What a node asks for with its own identity was registered when it came."""
    joined = csr.status.certificate and not csr.spec.username.startswith(wellknown.NODE_USER_PREFIX)
    return _requests(csr) if joined else ()


def build(context: Context) -> QueueController | None:
    """None where recovery is off."""
    if context.recovery is None:
        return None
    client = context.connect(NAME)
    informer = context.informers.informer(CERTIFICATE_SIGNING_REQUESTS, client=client)
    records = RecoveryRecords(client, context.clock, NAME)
    controller = QueueController(
        NAME,
        KeyRegistrar(informer.lister, records),
        context.clock,
        workers=WORKERS,
        flow=requester_flows(context, informer.lister),
    )
    controller.watch(informer, on_add=_requests, on_update=_issued)
    return controller
