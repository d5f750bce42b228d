"""What is revoked, out of the server's own store: known before anything is served, on every server of that store."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATION_KIND, CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import CertificateRevocation
from kubevouch.controllers.decision_releases import DecisionReleases, Read
from kubevouch.ledger.interface import ReadableLedger
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.codec.json_codec import UnmarshalError
from kubevouch.policy.standing_decisions import in_force
from kubevouch.revocation.revocations import Revocations
from kubevouch.server.apiserver import Caches
from kubevouch.storage.watchcache.cacher import Tap
from kubevouch.storage.watchcache.objects import CacheEvent
from kubevouch.util.logger import get_logger
from kubevouch.util.turns import give_way
from kubevouch.wellknown import DECISION_PROTECTION_FINALIZER

log = get_logger("standalone.revocation")

# As custom resources are stored. Followed by key and not as a kind: its definition may go, and come back changed, and
# meanwhile what is revoked stays so.
PREFIX = f"/registry/{CERTIFICATE_REVOCATIONS.group}/{CERTIFICATE_REVOCATIONS.plural}/"


def follow(caches: Caches, revocations: Revocations) -> None:
    """Keep ``revocations`` as the store has them."""

    def definition_stands() -> bool:
        """As of the revision of what is told: one follower feeds all."""
        definitions = caches[CUSTOM_RESOURCE_DEFINITIONS.plural]
        found = definitions.get(f"{definitions.prefix}{CERTIFICATE_REVOCATION_KIND.definition_name}")
        return found is not None and found.obj.metadata.deletion_timestamp is None

    def told(key: str, value: bytes | None) -> None:
        _changed(revocations, key, value, definition_stands)

    caches.tap(Tap(PREFIX, lambda values: _load(revocations, values), told))
    config_maps = caches["configmaps"]

    def changed(event: CacheEvent[ConfigMap]) -> None:
        namespace, _, name = event.key.removeprefix(config_maps.prefix).partition("/")
        if revocations.lockouts.changed(namespace, name, None if event.current is None else event.current.obj):
            revocations.tell()

    def loaded() -> None:
        revocations.lockouts.load(stored.obj for stored in config_maps.values())
        revocations.tell()

    config_maps.on_event(changed)
    config_maps.on_load(loaded)


async def keep_what_stands(
    revocations: Revocations, ledger: ReadableLedger, releases: DecisionReleases | None = None
) -> None:
    """Before anything is served: what the ledger has in force and the store has lost counts all the same.

    Args:
        releases: by other processes of the cluster; None where there are none.

    Raises:
        LedgerError, APIStatusError, TransportError
    """
    read = Read()
    for (plural, name), held in (await in_force(ledger)).items():
        if plural == CERTIFICATE_REVOCATIONS.plural and not revocations.covers(held):
            if releases is not None and await releases.find(plural, held, read) is not None:
                continue
            log.warning("a revocation is not in the store, though nobody has taken it back; it counts", name=name)
            revocations.keep(held)


async def _load(revocations: Revocations, values: Mapping[str, bytes]) -> None:
    fresh = Revocations()
    unread = set()
    for key, value in values.items():
        obj = _decoded(key, value)
        if obj is None:
            unread.add(key)
        else:
            fresh.add(obj)
        await give_way()
    revocations.take(fresh)
    revocations.unread = unread


def _changed(revocations: Revocations, key: str, value: bytes | None, definition_stands: Callable[[], bool]) -> None:
    if value is None and (lost := revocations.object(key.removeprefix(PREFIX))) is not None:
        meta = lost.metadata
        # An admitted deletion leaves a protected object there until its release is in the ledger.
        deleted = meta.deletion_timestamp is not None and definition_stands()
        if DECISION_PROTECTION_FINALIZER in meta.finalizers and not deleted:
            log.warning("a revocation went without an admitted request, and counts all the same", name=meta.name)
            revocations.keep(lost)
    obj = None if value is None else _decoded(key, value)
    if value is not None and obj is None:
        revocations.unread.add(key)
    else:
        revocations.unread.discard(key)
        revocations.changed(key.removeprefix(PREFIX), obj)


def _decoded(key: str, value: bytes) -> CertificateRevocation | None:
    """None for what no schema of ours has let in: what was known of it before stays."""
    try:
        return json_codec.decode(value, CertificateRevocation)
    except UnmarshalError as err:
        log.error("a revocation cannot be read, and does not count: not ready", key=key, err=str(err))
        return None
