"""The cache of one resource: what a history costs."""

import aio
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.storage.interface import Revision
from kubevouch.storage.watchcache.objects import CacheEvent, Stored
from kubevouch.storage.watchcache.resource_cache import ENCODED_HISTORY, ResourceCache, Scope

PREFIX = "/registry/configmaps/"
KEY = f"{PREFIX}default/one"


def _stored(revision: int) -> Stored[ConfigMap]:
    stored = Stored(KEY, ConfigMap(metadata=ObjectMeta(name="one")), Revision(revision), b"")
    stored.encoded("form", lambda _: revision)
    return stored


def _is_encoded(stored: Stored[ConfigMap]) -> bool:
    again = object()
    return stored.encoded("form", lambda _: again) is not again


def test_superseded_objects_lose_their_encodings_and_stay_in_the_history() -> None:
    cache: ResourceCache[ConfigMap] = ResourceCache(PREFIX)
    versions = [_stored(revision) for revision in range(1, ENCODED_HISTORY + 12)]
    before: Stored[ConfigMap] | None = None
    for stored in versions:
        cache.apply(CacheEvent(stored.revision, stored, before))
        before = stored
    encoded = [_is_encoded(stored) for stored in versions]
    assert not any(encoded[:10])
    assert all(encoded[-ENCODED_HISTORY:])

    async def resumed() -> None:
        changes = await cache.watch(Scope(PREFIX), Revision(1)).next_batch()
        assert [change.stored for change in changes] == versions[1:]

    aio.run(resumed())
