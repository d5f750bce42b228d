"""client/cache/indexer.py and lister.py."""

from __future__ import annotations

import pytest

from cache_world import config_map, names
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.cache.indexer import Indexer, by_namespace, object_key, split_key
from kubevouch.client.cache.lister import NAMESPACE_INDEX, Lister


def test_keys() -> None:
    assert object_key(config_map("a", 1)) == "n/a"
    assert object_key(config_map("a", 1, namespace="")) == "a"
    assert split_key("n/a") == ("n", "a")
    assert split_key("a") == ("", "a")


def test_indexes_follow_every_change() -> None:
    indexer: Indexer[ConfigMap] = Indexer({"owner": lambda obj: obj.data.values()})
    one, two = config_map("one", 1, x="alice", y="bob"), config_map("two", 2, x="alice")
    assert indexer.put(one) is None
    indexer.put(two)
    assert names(indexer.by_index("owner", "alice")) == ["one", "two"]
    moved = config_map("one", 3, x="carol")
    assert indexer.put(moved) is one
    assert names(indexer.by_index("owner", "alice")) == ["two"]
    assert indexer.by_index("owner", "bob") == []
    assert indexer.by_index("owner", "carol") == [moved]
    assert indexer.remove("n/two") is two
    assert indexer.remove("n/two") is None
    assert (len(indexer), indexer.keys(), indexer.values()) == (1, ["n/one"], [moved])
    indexer.add_index("name", lambda obj: [obj.metadata.name])
    assert indexer.by_index("name", "one") == [moved]
    with pytest.raises(ValueError, match="already"):
        indexer.add_index("name", lambda obj: [])
    with pytest.raises(KeyError):
        indexer.by_index("unheard of", "x")


def test_an_object_under_one_value_twice() -> None:
    indexer: Indexer[ConfigMap] = Indexer({"value": lambda obj: obj.data.values()})
    indexer.put(config_map("a", 1, x="same", y="same"))
    indexer.remove("n/a")
    assert indexer.by_index("value", "same") == []


def test_lister() -> None:
    indexer: Indexer[ConfigMap] = Indexer({NAMESPACE_INDEX: by_namespace})
    for obj in (config_map("a", 1), config_map("b", 2), config_map("a", 3, namespace="m")):
        indexer.put(obj)
    lister = Lister(indexer)
    assert lister.get("a", "m") == config_map("a", 3, namespace="m")
    assert lister.get("a") is None
    assert len(lister.list()) == 3
    assert names(lister.list("n")) == ["a", "b"]
    assert lister.list("nowhere") == []
    assert names(lister.list("n", lambda obj: obj.metadata.name == "b")) == ["b"]
    assert len(lister.by_index(NAMESPACE_INDEX, "n")) == 2
