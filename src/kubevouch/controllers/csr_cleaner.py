"""certificatesigningrequest-cleaner-controller: removes CSRs that nobody will look at any more.

Source: pkg/controller/certificates/cleaner/cleaner.go (Kubernetes 1.36). Three differences: the first pass waits for
the cache, so that a restart does not put cleaning off by an hour; a deletion names the UID, because kubelets use the
name of a deleted CSR again; and where the certificate-ledger-controller runs, an issued request stays until it is
recorded, for nothing else says whose the name is.
"""

from __future__ import annotations

import datetime as dt

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, CONFIG_MAPS
from kubevouch.api.certificates_v1 import CertificateSigningRequest, has_condition
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.cache.informer import SharedInformer
from kubevouch.client.interface import Client, TransportError
from kubevouch.controllers.certificate_ledger import entry_of_request
from kubevouch.controllers.cleaner import Cleaner
from kubevouch.controllers.interface import Context
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import DeleteOptions, Preconditions
from kubevouch.machinery.text.gotext import quote
from kubevouch.machinery.text.times import Time
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import pem, x509_certificate
from kubevouch.records import certificate_ledger
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.turns import give_way

log = get_logger("controllers.csr_cleaner")

NAME = wellknown.CSR_CLEANER_CONTROLLER

INTERVAL_SECONDS = 3600.0
SLICE = 50  # requests looked at before others have their turn; each may have a certificate to parse
APPROVED_EXPIRATION = dt.timedelta(hours=1)
DENIED_EXPIRATION = dt.timedelta(hours=1)
PENDING_EXPIRATION = dt.timedelta(hours=24)

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def why_clean(csr: CertificateSigningRequest, now: dt.datetime) -> str:
    """Kubernetes' log line for the removal of ``csr``, or nothing when it stays.

    Ages are those of the condition's lastUpdateTime; a condition's status is not looked at.
    """
    issued = bool(csr.status.certificate)
    if issued and _decided_before(csr, wellknown.CSR_APPROVED, now, APPROVED_EXPIRATION):
        return "Cleaning CSR as it is more than approvedExpiration duration old and approved."
    if _decided_before(csr, wellknown.CSR_DENIED, now, DENIED_EXPIRATION):
        return "Cleaning CSR as it is more than deniedExpiration duration old and denied."
    if _decided_before(csr, wellknown.CSR_FAILED, now, DENIED_EXPIRATION):
        return "Cleaning CSR as it is more than deniedExpiration duration old and failed."
    if not csr.status.conditions and _older(csr.metadata.creation_timestamp, now, PENDING_EXPIRATION):
        return "Cleaning CSR as it is more than pendingExpiration duration old and unhandled."
    if issued and has_condition(csr, wellknown.CSR_APPROVED) and _has_expired(csr.status.certificate, now):
        return "Cleaning CSR as the associated certificate is expired."
    if not issued and _decided_before(csr, wellknown.CSR_APPROVED, now, PENDING_EXPIRATION):
        return "Cleaning CSR as it is approved but unissued for more than pendingExpiration duration."
    return ""


def _decided_before(
    csr: CertificateSigningRequest, condition_type: str, now: dt.datetime, expiration: dt.timedelta
) -> bool:
    return any(
        condition.type == condition_type and _older(condition.last_update_time, now, expiration)
        for condition in csr.status.conditions
    )


def _older(moment: Time | None, now: dt.datetime, expiration: dt.timedelta) -> bool:
    """Strictly; a time that is not set is never old."""
    return moment is not None and (now - _EPOCH) - dt.timedelta(seconds=moment.seconds) > expiration


def _has_expired(certificate: bytes, now: dt.datetime) -> bool:
    """Whether the first certificate has; what does not parse has not."""
    try:
        block = pem.first_block(certificate)
        return block is not None and now > x509_certificate.parse_der(block.contents).not_after
    except ParseError:
        return False


class CSRCleaner(Cleaner):
    """A pass an hour over all CSRs, whoever signs them.

    Args:
        ledger: the ConfigMaps in which issued certificates are recorded; None where nobody does.
    """

    def __init__(
        self,
        client: Client,
        informer: SharedInformer[CertificateSigningRequest],
        clock: Clock,
        ledger: SharedInformer[ConfigMap] | None = None,
    ) -> None:
        super().__init__(NAME, [informer] if ledger is None else [informer, ledger], clock, INTERVAL_SECONDS)
        self._client = client
        self._informer = informer
        self._ledger = ledger

    async def clean(self) -> None:
        now = self._clock.now()
        for number, csr in enumerate(self._informer.lister.list(), 1):
            if number % SLICE == 0:
                await give_way()
            why = why_clean(csr, now)
            if why and self._may_go(csr, now):
                log.info(why, csr=csr.metadata.name, signer=csr.spec.signer_name)
                await self._delete(csr)

    def _may_go(self, csr: CertificateSigningRequest, now: dt.datetime) -> bool:
        if self._ledger is None or not csr.status.certificate:
            return True
        entry = entry_of_request(csr)
        if entry is None or entry.not_after < now:
            return True
        names = certificate_ledger.LAYOUT.path(entry.key[0])
        maps = (self._ledger.lister.get(name, wellknown.KUBE_SYSTEM_NAMESPACE) for name in names)
        if certificate_ledger.is_recorded((each.data for each in maps if each is not None), entry):
            return True
        log.warning("a CSR stays until its certificate is recorded", csr=csr.metadata.name)
        return False

    async def _delete(self, csr: CertificateSigningRequest) -> None:
        name = csr.metadata.name
        options = DeleteOptions(preconditions=Preconditions(uid=csr.metadata.uid))
        try:
            await self._client.delete(CERTIFICATE_SIGNING_REQUESTS, name, options=options)
        except (APIStatusError, TransportError) as err:
            log.error("Error while attempting to clean CSR", err=f"unable to delete CSR {quote(name)}: {err}")


def build(context: Context) -> CSRCleaner:
    client = context.connect(NAME)
    informer = context.informers.informer(CERTIFICATE_SIGNING_REQUESTS, client=client)
    ledger = None
    if wellknown.CERTIFICATE_LEDGER_CONTROLLER in context.running:
        ledger = context.informers.informer(CONFIG_MAPS, client=client, namespace=wellknown.KUBE_SYSTEM_NAMESPACE)
    return CSRCleaner(client, informer, context.clock, ledger)
