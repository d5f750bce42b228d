"""controllers/record_maps.py: every ConfigMap that may hold an entry is looked at, and none that is not there."""

from __future__ import annotations

from kubevouch import wellknown
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.cache.indexer import Indexer
from kubevouch.controllers.record_maps import RecordMaps
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.records import certificate_ledger
from kubevouch.revocation import node_records

LAYOUTS = (certificate_ledger.LAYOUT, node_records.LAYOUT)


def _config_map(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=wellknown.KUBE_SYSTEM_NAMESPACE), data={"of": name})


def test_a_path_holds_its_own_and_all_further_ones() -> None:
    for layout in LAYOUTS:
        cache: Indexer[ConfigMap] = Indexer()
        maps = RecordMaps(cache)
        assert maps.path(layout, "a") == []
        for name in (*layout.names, f"{layout.prefix}z", "coredns"):
            cache.put(_config_map(name))
        for shard in layout.shards:
            assert [each["of"] for each in maps.path(layout, shard)] == list(layout.path(shard))
        assert {each.metadata.name for each in maps.all_of(layout)} == set(layout.names)
        (other,) = set(LAYOUTS) - {layout}
        assert maps.path(other, "a") == [] and maps.all_of(other) == []
        cache.remove(f"{wellknown.KUBE_SYSTEM_NAMESPACE}/{layout.further[0]}")
        assert [each["of"] for each in maps.path(layout, "b")] == [layout.path("b")[0], *layout.path("b")[2:]]


def test_two_share_one_cache() -> None:
    cache: Indexer[ConfigMap] = Indexer()
    first, second = RecordMaps(cache), RecordMaps(cache)
    cache.put(_config_map(node_records.LAYOUT.names[0]))
    assert first.all_of(node_records.LAYOUT) == second.all_of(node_records.LAYOUT) != []
