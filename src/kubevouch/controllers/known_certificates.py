"""What a cluster's own objects tell of the certificates that it has: heard of as it happens, and remembered.

The ledger of this process has what was signed beside it. What somebody else has signed, such as
kube-controller-manager, is known from requests as long as they are there, from the records of
certificate-ledger-controller where it runs, and from NodeIdentities.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, CONFIG_MAPS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.api.kubevouch_v1alpha1.catalog import NODE_IDENTITIES
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity
from kubevouch.client.cache.informer import SharedInformer
from kubevouch.client.interface import Client
from kubevouch.controllers.interface import Context
from kubevouch.ledger.entries import Entry, Query, Recorded
from kubevouch.ledger.interface import ReadableLedger
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.records import certificate_ledger
from kubevouch.revocation import known
from kubevouch.revocation.known import HalfKeys, KnownCertificates, Source
from kubevouch.util.logger import get_logger
from kubevouch.util.turns import pace

log = get_logger("controllers.known_certificates")

MAX_REMEMBERED = 100_000
"""Objects whose certificate has been read once."""
_RECORD_MAPS = frozenset(certificate_ledger.LAYOUT.names)


class Remembered:
    """Entries of objects that have been heard of, also once these are gone; the oldest are forgotten first.

    Args:
        noted: told of each entry as it is read.
    """

    def __init__(self, noted: Callable[[Entry], None]) -> None:
        self._noted = noted
        self._waiting: deque[tuple[str, Callable[[], Entry | None]]] = deque()
        self._entries = MemoryLedger()
        self._seen: dict[str, None] = {}

    def note(self, key: str, read: Callable[[], Entry | None]) -> bool:
        """Have ``read`` called later, once for each ``key``; whether it is to be called."""
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > MAX_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._waiting.append((key, read))
        return True

    async def read(self) -> None:
        """Read what has been noted, between the work of others: at a start there may be much."""
        turn = pace()
        while self._waiting:
            await turn.keep()
            if not self._waiting:
                return
            key, read = self._waiting.popleft()
            entry = read()
            if entry is None:
                log.info("a certificate cannot be told from what is said of it", about=key)
                continue
            await self._entries.append(entry)
            self._noted(entry)

    async def find(self, query: Query) -> Sequence[Recorded]:
        """See ``ledger.interface.ReadableLedger``."""
        await self.read()
        # A revocation may name thousands, and asks for each.
        await pace().keep()
        return await self._entries.find(query)


class ClusterCertificates:
    """Follows the cluster's objects.

    Args:
        heard: called at once when there is something to read.
        noted: told of each entry as it is read.
    """

    def __init__(self, heard: Callable[[], None], noted: Callable[[Entry], None]) -> None:
        self._heard = heard
        self._requests, self._records, self._identities = (Remembered(noted) for _ in range(3))

    @property
    def sources(self) -> tuple[Source, ...]:
        """What a ledger is complemented with."""
        return (
            Source(known.REQUESTS, self._requests, known.REQUESTS_END),
            Source(known.RECORDS, HalfKeys(self._records), known.RECORDS_KEEP),
            Source(known.IDENTITIES, self._identities),
        )

    async def read(self) -> None:
        """Read what has been heard of."""
        for each in (self._requests, self._records, self._identities):
            await each.read()

    def request(self, csr: CertificateSigningRequest, gone: bool) -> None:
        """A request is there, or has changed. What was issued stays issued."""
        if not gone and csr.status.certificate:
            self._note(self._requests, csr.metadata.uid, lambda: known.of_request(csr))

    def record(self, config_map: ConfigMap, gone: bool) -> None:
        """A ConfigMap of records is there, or has changed."""
        if gone or config_map.metadata.name not in _RECORD_MAPS:
            return
        for key, text in config_map.data.items():
            self._note(self._records, f"{key}={hash(text):x}", lambda key=key, text=text: _of_record(key, text))  # type: ignore[misc]

    def identity(self, identity: NodeIdentity, gone: bool) -> None:
        """A machine has proven what it is."""
        if not gone and identity.status.requester:
            key = f"{identity.metadata.uid}={identity.status.requester}"
            self._note(self._identities, key, lambda: known.of_identity(identity))

    def _note(self, source: Remembered, key: str, read: Callable[[], Entry | None]) -> None:
        if source.note(key, read):
            self._heard()


def _of_record(key: str, text: str) -> Entry | None:
    record = certificate_ledger.entry_in({key: text}, key)
    return None if record is None else known.of_record(record)


def informers_of(context: Context, client: Client) -> tuple[SharedInformer[Any], ...]:
    """What :class:`ClusterCertificates` follows: requests, records, and what machines have proven."""
    informers = context.informers
    return (
        informers.informer(CERTIFICATE_SIGNING_REQUESTS, client=client),
        informers.informer(CONFIG_MAPS, client=client, namespace=wellknown.KUBE_SYSTEM_NAMESPACE),
        informers.informer(NODE_IDENTITIES, client=client),
    )


def known_to(context: Context, cluster: ClusterCertificates) -> KnownCertificates:
    """What this process's ledger and the cluster's objects know together."""
    limits = known.OTHERS_WRITE_NONE if context.shares_cluster else ""
    return KnownCertificates(Source(known.LEDGER, context.ledger, limits), *cluster.sources, pause=_turn)


def ledger_alone(ledger: ReadableLedger) -> KnownCertificates:
    """Where there is nothing else to look at."""
    return KnownCertificates(Source(known.LEDGER, ledger), pause=_turn)


async def _turn() -> None:
    await pace().keep()
