from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import authority, keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.revocation import node_records
from kubevouch.revocation.node_records import (
    MAX_RECORDS,
    NONE,
    Lockouts,
    NodeRecord,
    NodeRecordsFullError,
    current,
    decode,
    encode,
    fitting,
    followed,
    lifted,
    new_config_map,
    record_in,
    removed,
    shard_of,
)

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
SECOND, DAY = dt.timedelta(seconds=1), dt.timedelta(days=1)
UNTIL = NOW + 365 * DAY
CA = authority.create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW - DAY)
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)


def certificate(name: str = "system:node:a", at: dt.datetime = NOW) -> Certificate:
    spec = authority.LeafSpec(common_name=name, organizations=("system:nodes",), purposes=("client auth",))
    return authority.issue_leaf(CA, spec, KEY, now=at)


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
    assert lockouts.why(certificate()) == "" and len(lockouts) == 0
    locked = removed(NONE, NOW, UNTIL, lock=True, why="stolen")
    stored = new_config_map(shard_of("a"), {"a": locked, "b": NodeRecord(uid="2")})
    lockouts.load([stored])
    assert len(lockouts) == 1
    assert lockouts.why(certificate()) == "node a is locked out since 2031-03-01T12:00:00Z: stolen"
    assert lockouts.why(certificate(at=NOW + SECOND)) == ""
    for other in ("system:node:b", "system:node:a\n", "a", "system:node:A"):
        assert lockouts.why(certificate(other)) == ""
    # Of the same name in another namespace, where others may write.
    lockouts.changed("default", stored.metadata.name, None)
    assert lockouts.why(certificate())
    lockouts.changed("kube-system", stored.metadata.name, None)
    assert lockouts.why(certificate()) == "" and len(lockouts) == 0


def test_what_is_foreign_is_left_out() -> None:
    known = {"a": NodeRecord(uid="1"), "b": removed(NONE, NOW, UNTIL, lock=True, why="x")}
    stored = encode(known) | {"c": "no JSON", "d": '{"uid": 7}', "e": "{}"}
    assert decode(stored) == known
    assert record_in(stored, "a") == known["a"] and record_in(stored, "c") == record_in(stored, "nobody") == NONE


@pytest.mark.parametrize("why", ["\u00e4", '"', "\\", "\0", "\u2028"])
def test_the_longest_records_fit_into_a_config_map(why: str) -> None:
    longest = removed(NodeRecord(uid="0" * 36), NOW, UNTIL, lock=True, why=why * 999)
    longest = msgspec.structs.replace(longest, uid="0" * 36)
    entry = encode({"n" * 253: longest})
    assert MAX_RECORDS * sum(len(text.encode()) for pair in entry.items() for text in pair) < 1 << 20
    assert new_config_map("0", {}).metadata == ObjectMeta(name="kubevouch-nodes-0", namespace="kube-system")


def test_what_locks_nobody_out_makes_room() -> None:
    locked = {f"l{n}": removed(NONE, NOW, UNTIL, lock=True, why="x") for n in range(MAX_RECORDS - 2)}
    soon, late = (removed(NONE, NOW, UNTIL + DAY * n, lock=False, why="") for n in (0, 1))
    records = {"late": late, **locked, "soon": soon, "there": NodeRecord(uid="1")}
    assert fitting(records).keys() == records.keys() - {"soon"}
    with pytest.raises(NodeRecordsFullError, match="names are locked out"):
        fitting(locked | {f"m{n}": removed(NONE, NOW, UNTIL, lock=True, why="x") for n in range(3)})
