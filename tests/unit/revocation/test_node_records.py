from __future__ import annotations

import datetime as dt
from itertools import count, islice

import msgspec
import pytest

from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import authority, keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records.config_map_overflow import MAX_BYTES, size
from kubevouch.revocation import node_records
from kubevouch.revocation.node_records import (
    LAYOUT,
    NONE,
    Lockouts,
    NodeRecord,
    NodeRecordsFullError,
    config_maps_of,
    current,
    decode,
    encode,
    followed,
    issued_at,
    joined,
    lifted,
    placed,
    record_in,
    records_of,
    removed,
    shard_of,
)

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
SECOND, DAY = dt.timedelta(seconds=1), dt.timedelta(days=1)
UNTIL = NOW + 365 * DAY
CA = authority.create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW - DAY)
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)


def config_map(name: str, records: dict[str, NodeRecord]) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="kube-system"), data=encode(records))


def in_shard(shard: str, number: int, letters: int = 8) -> list[str]:
    names = (f"n{each:0{letters - 1}}" for each in count())
    return list(islice((name for name in names if shard_of(name) == shard), number))


def certificate(name: str = "system:node:a", at: dt.datetime = NOW) -> Certificate:
    spec = authority.LeafSpec(common_name=name, organizations=("system:nodes",), purposes=("client auth",))
    return authority.issue_leaf(CA, spec, KEY, now=at)


def why(lockouts: Lockouts, held: Certificate) -> str:
    return lockouts.of(node_name_of(held.subject.common_name), issued_at(held))


def test_a_lock_out_lasts_as_long_as_certificates_do() -> None:
    """Whoever locks out from elsewhere knows of no ``--cluster-signing-duration``."""
    short = removed(NodeRecord(uid="1"), NOW, UNTIL, lock=True, why="x")
    for now in (NOW + DAY, NOW + 2 * DAY):
        seen = followed({"a": short}, {}, now, now + 1000 * DAY, lock=False, why="")["a"]
        assert seen == NodeRecord(released=NOW, locked=NOW, until=NOW + 1000 * DAY, why="x")
    assert followed({"a": short}, {}, NOW + DAY, NOW + 2 * DAY, lock=False, why="") == {"a": short}


def test_a_node_that_is_gone() -> None:
    seen = followed({}, {"a": "1", "b": "2"}, NOW, UNTIL, lock=False, why="x")
    assert seen == {"a": NodeRecord(uid="1"), "b": NodeRecord(uid="2")}
    gone = followed(seen, {"b": "2"}, NOW, UNTIL, lock=False, why="x")
    assert gone["a"] == NodeRecord(released=NOW, until=UNTIL) and gone["b"] == seen["b"]
    locked = followed(seen, {"b": "2"}, NOW, UNTIL, lock=True, why="x" * 999)
    assert locked["a"] == NodeRecord(released=NOW, locked=NOW, until=UNTIL, why="x" * node_records.MAX_WHY)


def test_a_node_of_another_uid_is_another_node() -> None:
    again = followed({"a": NodeRecord(uid="1")}, {"a": "2"}, NOW, UNTIL, lock=True, why="x")
    assert again == {"a": NodeRecord(uid="2", released=NOW, locked=NOW, until=UNTIL, why="x")}


def test_who_is_locked_out_stays_so_when_the_next_one_goes() -> None:
    locked = removed(NONE, NOW, UNTIL, lock=True, why="stolen")
    back = msgspec.structs.replace(locked, uid="2")
    gone = followed({"a": back}, {}, NOW + DAY, UNTIL - DAY, lock=False, why="")["a"]
    assert (gone.locked, gone.released, gone.until, gone.why) == (NOW, NOW + DAY, UNTIL, "stolen")


def test_it_ends_with_the_last_certificate() -> None:
    locked = removed(NodeRecord(uid="1"), NOW, UNTIL, lock=True, why="x")
    assert current(locked, UNTIL - SECOND) == locked
    assert current(locked, UNTIL) == NONE
    assert followed({"a": locked}, {}, UNTIL, UNTIL + DAY, lock=True, why="") == {}


def test_lifting() -> None:
    locked = removed(NONE, NOW, UNTIL, lock=True, why="x")
    assert lifted(locked) == NodeRecord(released=NOW, until=UNTIL)


def test_which_certificates_are_meant() -> None:
    record = removed(NONE, NOW + SECOND / 2, UNTIL, lock=True, why="x")
    assert record.locked == NOW
    for moment, locks, frees in ((NOW - SECOND, True, True), (NOW, True, True), (NOW + SECOND, False, False)):
        assert (record.locks(moment), record.frees(moment)) == (locks, frees)
    free = removed(NONE, NOW, UNTIL, lock=False, why="")
    assert [free.frees(moment) for moment in (NOW - SECOND, NOW)] == [True, False]
    assert not free.locks(NOW - DAY)


def test_the_set_follows_the_config_maps() -> None:
    lockouts = Lockouts()
    assert why(lockouts, certificate()) == "" and len(lockouts) == 0
    locked = removed(NONE, NOW, UNTIL, lock=True, why="stolen")
    stored = config_map(config_maps_of("a")[0], {"a": locked, "b": NodeRecord(uid="2")})
    lockouts.load([stored])
    assert len(lockouts) == 1
    assert why(lockouts, certificate()) == "node a is locked out since 2031-03-01T12:00:00Z: stolen"
    assert why(lockouts, certificate(at=NOW + SECOND)) == ""
    for other in ("system:node:b", "system:node:a\n", "a", "system:node:A"):
        assert why(lockouts, certificate(other)) == ""
    # Of the same name in another namespace, where others may write.
    lockouts.changed("default", stored.metadata.name, None)
    assert why(lockouts, certificate())
    lockouts.changed("kube-system", stored.metadata.name, None)
    assert why(lockouts, certificate()) == "" and len(lockouts) == 0
    # Where there was no room in its own.
    overflow = config_map(config_maps_of("a")[3], {"a": locked})
    lockouts.load([stored, overflow])
    lockouts.changed("kube-system", stored.metadata.name, None)
    assert why(lockouts, certificate()) and len(lockouts) == 1


def test_what_is_foreign_is_left_out() -> None:
    known = {"a": NodeRecord(uid="1"), "b": removed(NONE, NOW, UNTIL, lock=True, why="x")}
    stored = encode(known) | {"c": "no JSON", "d": '{"uid": 7}', "e": "{}"}
    assert decode(stored) == known
    assert record_in([stored], "a") == known["a"]
    assert record_in([stored], "c") == record_in([stored], "nobody") == NONE


@pytest.mark.parametrize("why", ["\u00e4", '"', "\\", "\0", "\u2028"])
def test_the_longest_records_fit_into_a_config_map(why: str) -> None:
    longest = removed(NodeRecord(uid="0" * 36), NOW, UNTIL, lock=True, why=why * 999)
    longest = msgspec.structs.replace(longest, uid="0" * 36)
    (entry,) = encode({"n" * 253: longest}).values()
    # With every character of the reason escaped, and the room for one in each of the sixteen.
    assert len(entry.encode()) < 1500
    names = in_shard("a", 1500, 253)
    stored: dict[str, dict[str, str]] = {name: {} for name in LAYOUT.path("a")}
    changed, left_over = placed(stored, dict.fromkeys(names, longest))
    assert left_over == [] and all(config_map(name, decode(data)).data == data for name, data in changed.items())
    assert sum(map(len, changed.values())) == 1500


def test_no_node_that_is_there_is_dropped_however_many_there_are() -> None:
    """Its deletion would not be noticed, and its certificate would go on working."""
    names = in_shard("a", 3000, 200)
    nodes = {name: f"{number:036}" for number, name in enumerate(names)}
    stored: dict[str, dict[str, str]] = {name: {} for name in LAYOUT.path("a")}
    free = {f"free-{number}-{'f' * 200}": removed(NONE, NOW, UNTIL, lock=False, why="") for number in range(3000)}
    for changes in (free, followed({}, nodes, NOW, UNTIL, lock=True, why="x")):
        stored |= placed(stored, changes).changed
    assert sum(map(bool, stored.values())) > 1
    seen = records_of(stored.values(), "a")
    assert nodes.items() <= {name: record.uid for name, record in seen.items()}.items()
    gone = followed(seen, {}, NOW, UNTIL, lock=True, why="its Node was deleted")
    stored |= placed(stored, {name: gone[name] for name in names}).changed
    lockouts = Lockouts()
    lockouts.load(config_map(name, decode(data)) for name, data in stored.items())
    assert len(lockouts) == 3000
    assert all(why(lockouts, certificate(f"system:node:{name}")) for name in names[::500])


def test_the_records_of_other_shards_are_nobodys_here() -> None:
    (mine,), (other,) = in_shard("a", 1), in_shard("b", 1)
    stored = [{mine: '{"uid":"1"}'}, {mine: '{"uid":"1"}', other: '{"uid":"2"}'}]
    assert records_of(stored, "a") == {mine: NodeRecord(uid="1")}


def test_what_two_records_of_a_name_say_together() -> None:
    """Of two writers one may not have seen where the other has put it."""
    locked = removed(NONE, NOW, UNTIL, lock=True, why="stolen")
    there = NodeRecord(uid="1", released=NOW + SECOND, until=UNTIL + SECOND)
    both = NodeRecord(uid="1", released=NOW + SECOND, locked=NOW, until=UNTIL + SECOND, why="stolen")
    assert joined([locked, there]) == joined([there, locked]) == both
    assert joined([]) == NONE


def _full(records: dict[str, NodeRecord]) -> dict[str, dict[str, str]]:
    """With what leaves no room in any of the path but the first, which has 800 bytes left."""
    first, *further = LAYOUT.path("a")
    data = encode(records)
    filler = {"y" * (MAX_BYTES - 800 - size(data)): "y"}
    return {first: data | filler} | {name: {"x" * (MAX_BYTES - 17): "x"} for name in further}


def test_what_locks_nobody_out_makes_room() -> None:
    soon, late = (removed(NONE, NOW, UNTIL + DAY * n, lock=False, why="") for n in (0, 1))
    locked = removed(NONE, NOW, UNTIL, lock=True, why="x" * 128)
    name = "soon-" + "s" * 245
    held = {"late": late, name: soon, "locked": locked, "there": NodeRecord(uid="1")}
    stored = _full(held)
    names = in_shard("a", 20, 50)
    # Two fit, and a third in place of the one that ends first.
    assert name in next(iter(placed(stored, dict.fromkeys(names[:2], locked)).changed.values()))
    (data,) = placed(stored, dict.fromkeys(names[:3], locked)).changed.values()
    assert {"late", "locked", "there", *names[:3]} <= data.keys() and name not in data
    with pytest.raises(NodeRecordsFullError, match="no room for the records of") as full:
        placed(stored, dict.fromkeys(names, locked))
    # What there is room for is written nevertheless, and neither a lock-out nor a Node has gone for it.
    (data,) = full.value.placed.changed.values()
    assert {"locked", "there", names[0]} <= data.keys() and not {name, "late"} & data.keys()
