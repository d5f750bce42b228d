"""What is revoked, out of the server's own store: known before anything is served, on every server of that store."""

from __future__ import annotations

from collections.abc import Mapping

from kubevouch.api.core_v1 import ConfigMap
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import CertificateRevocation
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.codec.json_codec import UnmarshalError
from kubevouch.revocation.revocations import Revocations
from kubevouch.server.apiserver import Caches
from kubevouch.storage.watchcache.cacher import Tap
from kubevouch.storage.watchcache.objects import CacheEvent
from kubevouch.util.logger import get_logger
from kubevouch.util.turns import give_way

log = get_logger("standalone.revocation")

# As custom resources are stored. Followed by key and not as a kind: its definition may go, and come back changed, and
# meanwhile what is revoked stays so.
PREFIX = f"/registry/{CERTIFICATE_REVOCATIONS.group}/{CERTIFICATE_REVOCATIONS.plural}/"


def follow(caches: Caches, revocations: Revocations) -> None:
    """Keep ``revocations`` as the store has them."""
    caches.tap(Tap(PREFIX, lambda values: _load(revocations, values), lambda *event: _changed(revocations, *event)))
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


def _changed(revocations: Revocations, key: str, value: bytes | None) -> None:
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
