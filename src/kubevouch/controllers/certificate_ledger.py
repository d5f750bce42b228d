"""certificate-ledger-controller: writes down which certificates have been issued, before their requests are cleaned.

Kubernetes has nothing of the kind, and cleans an issued request after an hour. A CA may only be given up when nobody
depends on it any more, which has to be known for as long as certificates last.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import structlog

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, CONFIG_MAPS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.client.workqueue import Workqueue
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, Context, Request, Result
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.records import certificate_ledger
from kubevouch.records.certificate_ledger import PREFIX, SHARDS, IssuedCertificate, entry_of
from kubevouch.util.clock import Clock
from kubevouch.util.turns import give_way

log = structlog.get_logger("controllers.certificate_ledger")

NAME = wellknown.CERTIFICATE_LEDGER_CONTROLLER
BATCH_SECONDS = 10.0
"""What is issued in this time shares a write. Requests stay for an hour, so that a restart misses none."""

# Certificates that are read before others have their turn.
_TURN = 20
_ALL = Request("issued-certificates")


class CertificateLedger:
    """There is one request; whatever has not been written down yet is."""

    def __init__(self, client: Client, csrs: Lister[CertificateSigningRequest], clock: Clock) -> None:
        self._client = client
        self._csrs = csrs
        self._clock = clock
        self._written: set[str] = set()
        self._begun = False

    async def reconcile(self, request: Request) -> Result:  # noqa: ARG002 - there is only one
        issued = {csr.metadata.uid: csr for csr in self._csrs.list() if csr.status.certificate}
        self._written &= issued.keys()
        shards: dict[str, dict[str, IssuedCertificate]] = {}
        uids: dict[str, set[str]] = {}
        for number, uid in enumerate(issued.keys() - self._written, 1):
            if number % _TURN == 0:
                await give_way()
            entry = _entry(issued[uid])
            if entry is None:
                self._written.add(uid)
                continue
            entries = shards.setdefault(entry.key[0], {})
            former = entries.get(entry.key)
            if former is None or former.not_before <= entry.not_before:
                entries[entry.key] = entry
            uids.setdefault(entry.key[0], set()).add(uid)
        if not self._begun:
            # The first ConfigMap's age tells since when the ledger is kept.
            shards.setdefault(SHARDS[0], {})
        failure: APIStatusError | None = None
        for shard, entries in sorted(shards.items()):
            try:
                await self._write(shard, entries)
            except APIStatusError as err:
                # Whoever fills one, with long names that he has chosen for it, keeps nobody out of the others.
                failure = err
                continue
            self._written |= uids.get(shard, set())
        if failure is not None:
            raise failure
        self._begun = True
        return DONE

    async def _write(self, shard: str, more: Mapping[str, IssuedCertificate]) -> None:
        """A conflict with another replica raises, and comes again."""
        name = f"{PREFIX}{shard}"
        try:
            stored = await self._client.get(CONFIG_MAPS, name, wellknown.KUBE_SYSTEM_NAMESPACE)
        except APIStatusError as err:
            if err.code != 404:
                raise
            meta = ObjectMeta(name=name, namespace=wellknown.KUBE_SYSTEM_NAMESPACE)
            stored = await self._client.create(CONFIG_MAPS, ConfigMap(metadata=meta))
        known = certificate_ledger.decode(stored.data)
        entries = certificate_ledger.encode(certificate_ledger.merged(known, more, now=self._clock.now()))
        if entries != stored.data:
            await self._client.update(CONFIG_MAPS, msgspec.structs.replace(stored, data=entries))


def _entry(csr: CertificateSigningRequest) -> IssuedCertificate | None:
    try:
        return entry_of(csr.spec.signer_name, x509_certificate.parse_pem(csr.status.certificate))
    except ParseError as err:
        log.warning("an issued certificate cannot be read", csr=csr.metadata.name, err=str(err))
        return None


class _Issued:
    """Hears of certificates, and has them written down a little later."""

    def __init__(self, queue: Workqueue[Request]) -> None:
        self._queue = queue

    def on_add(self, obj: CertificateSigningRequest, *, initial: bool) -> None:  # noqa: ARG002
        self._note(obj)

    def on_update(self, old: CertificateSigningRequest, new: CertificateSigningRequest) -> None:
        if old.status.certificate != new.status.certificate:
            self._note(new)

    def on_delete(self, obj: CertificateSigningRequest, *, missed: bool) -> None:
        """What is written stays."""

    def _note(self, csr: CertificateSigningRequest) -> None:
        if csr.status.certificate:
            self._queue.add_after(_ALL, BATCH_SECONDS)


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    informer = context.informers.informer(CERTIFICATE_SIGNING_REQUESTS, client=client)
    controller = QueueController(NAME, CertificateLedger(client, informer.lister, context.clock), context.clock)
    controller.follow(informer, _Issued(controller.queue))
    controller.queue.add(_ALL)
    return controller
