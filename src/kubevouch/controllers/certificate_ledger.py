"""certificate-ledger-controller: writes down which certificates have been issued, before their requests are cleaned.

Kubernetes has nothing of the kind, and cleans an issued request after an hour. A CA may only be given up when nobody
depends on it any more, and a node's name belongs to whoever has a certificate for it, which has to be known for as long
as certificates last. Where this controller runs, the cleaner waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.client.cache.lister import Lister
from kubevouch.client.config_map_overflow import Stored, data_of, find, find_further, write
from kubevouch.client.interface import Client
from kubevouch.client.workqueue import Workqueue
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import Context, ReconcileError, Request, Result
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.records import certificate_ledger
from kubevouch.records.bootstrap_tokens import token_id_of_user
from kubevouch.records.certificate_ledger import LAYOUT, PREFIX, SHARDS, IssuedCertificate, entry_of
from kubevouch.records.config_map_overflow import place
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.settled_time import SettledTime
from kubevouch.util.turns import give_way

log = get_logger("controllers.certificate_ledger")

NAME = wellknown.CERTIFICATE_LEDGER_CONTROLLER
BATCH_SECONDS = 10.0
"""What is issued in this time shares a write. Requests stay for an hour, so that a restart misses none."""

# So that what has ended goes.
_SWEEP_SECONDS = 86400.0
# Certificates that are read before others have their turn.
_TURN = 20
# Certificates that are read when they are heard of; whatever else is issued in a batch is read when it is written.
_NOTED = 4096
_ALL = Request("issued-certificates")


class CertificateLedger:
    """There is one request; whatever has not been written down yet is."""

    def __init__(self, client: Client, csrs: Lister[CertificateSigningRequest], clock: Clock) -> None:
        self._client = client
        self._csrs = csrs
        self._clock = clock
        self._settled = SettledTime(clock)
        self._written: set[str] = set()
        self._noted: dict[str, IssuedCertificate | None] = {}
        self._begun = False
        self._next_sweep = 0.0

    def note(self, csr: CertificateSigningRequest) -> None:
        """Read the certificate of ``csr`` now, while those who have issued it share what they have read of it."""
        if len(self._noted) < _NOTED:
            self._noted[csr.metadata.uid] = entry_of_request(csr)

    async def reconcile(self, request: Request) -> Result:  # noqa: ARG002 - there is only one
        issued = {csr.metadata.uid: csr for csr in self._csrs.list() if csr.status.certificate}
        self._written &= issued.keys()
        noted, self._noted = self._noted, {}
        shards: dict[str, dict[str, IssuedCertificate]] = {}
        uids: dict[str, dict[str, str]] = {}
        for number, uid in enumerate(issued.keys() - self._written, 1):
            if number % _TURN == 0:
                await give_way()
            entry = noted[uid] if uid in noted else entry_of_request(issued[uid])
            if entry is None:
                self._written.add(uid)
                continue
            shard = entry.key[0]
            certificate_ledger.add(shards.setdefault(shard, {}), {entry.key: entry})
            uids.setdefault(shard, {})[uid] = entry.key
        if not self._begun:
            # The first ConfigMap's age tells since when the ledger is kept.
            shards.setdefault(SHARDS[0], {})
        sweeping = self._clock.monotonic() >= self._next_sweep
        if sweeping:
            shards = {shard: shards.get(shard, {}) for shard in SHARDS}
        further = await find_further(self._client, LAYOUT.further)
        failure: Exception | None = await self._sweep(further) if sweeping else None
        for shard, entries in sorted(shards.items()):
            name = f"{PREFIX}{shard}"
            try:
                left_over = await self._write({name: await find(self._client, name), **further}, entries, further)
            except APIStatusError as err:
                # One that cannot be written keeps nobody out of the others. A conflict with another replica, too.
                failure = err
                continue
            if left_over:
                failure = ReconcileError(
                    f"{name}: the ledger is full, {len(left_over)} certificates are not in it; their requests stay"
                )
            self._written |= {uid for uid, key in uids.get(shard, {}).items() if key not in left_over}
        if failure is not None:
            raise failure
        self._begun = True
        if sweeping:
            self._next_sweep = self._clock.monotonic() + _SWEEP_SECONDS
        return Result(_SWEEP_SECONDS)

    async def _sweep(self, further: Stored) -> APIStatusError | None:
        failure = None
        for name, each in list(further.items()):
            try:
                await self._write({name: each}, {}, further)
            except APIStatusError as err:
                failure = err
        return failure

    async def _write(self, stored: Stored, more: Mapping[str, IssuedCertificate], further: Stored) -> set[str]:
        """The keys for which there is no room. What was written of the further ConfigMaps is put into ``further``."""
        data = data_of(stored)
        placed = place(data, certificate_ledger.wanted(data, more, now=self._settled.now()))
        changed, first = placed.changed, f"{PREFIX}{SHARDS[0]}"
        if first in stored and stored[first] is None:
            changed.setdefault(first, {})
        for name, entries in changed.items():
            annotations = certificate_ledger.totals_annotation(entries)
            written = await write(self._client, stored[name], name, entries, annotations)
            if name in further:
                further[name] = written
        return set(placed.left_over)


def entry_of_request(csr: CertificateSigningRequest) -> IssuedCertificate | None:
    """The entry of an issued request; None if its certificate cannot be read."""
    try:
        leaf = x509_certificate.parse_pem(csr.status.certificate)
    except ParseError as err:
        log.warning("an issued certificate cannot be read", csr=csr.metadata.name, err=str(err))
        return None
    return entry_of(csr.spec.signer_name, leaf, token_id_of_user(csr.spec.username))


class _Issued:
    """Hears of certificates, and has them written down a little later."""

    def __init__(self, queue: Workqueue[Request], ledger: CertificateLedger) -> None:
        self._queue = queue
        self._ledger = ledger

    def on_add(self, obj: CertificateSigningRequest, *, initial: bool) -> None:  # noqa: ARG002
        # At a start there may be many, which are read between other work.
        if obj.status.certificate:
            self._queue.add_after(_ALL, BATCH_SECONDS)

    def on_update(self, old: CertificateSigningRequest, new: CertificateSigningRequest) -> None:
        if new.status.certificate and old.status.certificate != new.status.certificate:
            self._ledger.note(new)
            self._queue.add_after(_ALL, BATCH_SECONDS)

    def on_delete(self, obj: CertificateSigningRequest, *, missed: bool) -> None:
        """What is written stays."""


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    informer = context.informers.informer(CERTIFICATE_SIGNING_REQUESTS, client=client)
    ledger = CertificateLedger(client, informer.lister, context.clock)
    controller = QueueController(NAME, ledger, context.clock)
    controller.follow(informer, _Issued(controller.queue, ledger))
    controller.queue.add(_ALL)
    return controller
