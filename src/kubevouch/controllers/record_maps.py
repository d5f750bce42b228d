"""The ConfigMaps in which records are kept, out of a cache, without asking for those that are hardly ever there."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from kubevouch import wellknown
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.cache.indexer import Indexer
from kubevouch.records import certificate_ledger
from kubevouch.records.config_map_overflow import Layout
from kubevouch.revocation import node_records

# By the prefix of their layout, and the further ones by another value once more.
_INDEX = "records"


class RecordMaps:
    """Over a cache of the ConfigMaps in kube-system, to which it adds an index."""

    def __init__(self, config_maps: Indexer[ConfigMap]) -> None:
        self._indexer = config_maps
        with suppress(ValueError):  # somebody who shares the cache has added it
            config_maps.add_index(_INDEX, _layouts)

    def all_of(self, layout: Layout) -> list[ConfigMap]:
        """Those that are there."""
        return self._indexer.by_index(_INDEX, layout.prefix)

    def path(self, layout: Layout, shard: str) -> list[dict[str, str]]:
        """What those hold that are there, of the ConfigMaps in which an entry of the shard may be, its own first."""
        first = self._indexer.get(f"{wellknown.KUBE_SYSTEM_NAMESPACE}/{layout.path(shard)[0]}")
        further = self._indexer.by_index(_INDEX, _further(layout))
        return [each.data for each in (first, *further) if each is not None]


def _layouts(config_map: ConfigMap) -> Iterable[str]:
    name = config_map.metadata.name
    for layout in (certificate_ledger.LAYOUT, node_records.LAYOUT):
        if name in layout.names:
            yield layout.prefix
        if name in layout.further:
            yield _further(layout)


def _further(layout: Layout) -> str:
    return f"{layout.prefix}overflow"
