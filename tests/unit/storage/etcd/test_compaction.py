"""Turns of the clock that servers on one etcd share."""

from __future__ import annotations

from typing import Any

from kubevouch.storage.etcd import messages
from kubevouch.storage.etcd.compaction import KEY, Turn
from kubevouch.storage.interface import Revision


def _moved(revision: int) -> Any:
    return messages.TxnResponse(header={"revision": revision}, succeeded=True)


def _found(version: int, revision: int) -> Any:
    kv = {"key": KEY, "version": version, "value": b"0"}
    return messages.TxnResponse(header={"revision": revision}, responses=[{"response_range": {"kvs": [kv]}}])


def test_the_first_turn_only_writes_0() -> None:
    """As was seen of a kube-apiserver: a key at no version, the value 0, and no compaction."""
    turn = Turn()
    request = turn.request(turn.revision)
    assert [(each.key, each.target, each.version) for each in request.compare] == [(b"compact_rev_key", 0, 0)]
    # A comparison with 0 is on the wire.
    assert request.compare[0].HasField("version")
    assert request.success[0].request_put.value == b"0"
    assert turn.after(_moved(311)) == Turn(1, Revision(311))


def test_who_moved_the_clock_compacts_to_where_he_was_before() -> None:
    turn = Turn().after(_moved(311)).after(_moved(401))
    assert turn == Turn(2, Revision(401))
    request = turn.request(turn.revision)
    assert (request.compare[0].version, request.success[0].request_put.value) == (2, b"401")


def test_who_comes_second_learns_the_time_and_is_one_behind_from_then_on() -> None:
    """Server two asked with version 0, 4, 5 while the key was at 4, 5, 6."""
    second = Turn()
    asked = []
    for version in (4, 5, 6):
        asked.append(second.time)
        second = second.after(_found(version, 100 * version))
    assert asked == [0, 4, 5]
    assert second == Turn(6, Revision(600))
