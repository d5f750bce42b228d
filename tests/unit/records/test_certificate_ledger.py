"""records/certificate_ledger.py: what is kept, what it supersedes and when it goes."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from kubevouch.records.certificate_ledger import (
    LAYOUT,
    MAX_ENTRY,
    PREFIX,
    SHARDS,
    TOKEN_BUDGET,
    TOTALS_ANNOTATION,
    IssuedCertificate,
    Totals,
    decode,
    encode,
    is_recorded,
    merged,
    no_room,
    totals_annotation,
    totals_of,
    wanted,
)
from kubevouch.records.config_map_overflow import MAX_BYTES, size

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def entry(name: str, serial: str = "1", *, begins: dt.datetime = NOW, signer: str = "s") -> IssuedCertificate:
    return IssuedCertificate(
        common_name=name, signer_name=signer, serial=serial, not_before=begins, not_after=begins + DAY, authority="ab"
    )


def by_key(*entries: IssuedCertificate) -> dict[str, IssuedCertificate]:
    return {each.key: each for each in entries}


def test_a_machines_newer_certificate_supersedes_the_older_whatever_the_order() -> None:
    older, newer = entry("system:node:a"), entry("system:node:a", "2", begins=NOW + DAY / 2)
    assert older.key == newer.key and older.machine == "a"
    for first, second in ((older, newer), (newer, older)):
        assert merged(by_key(first), by_key(second), now=NOW) == by_key(newer)
    assert entry("system:node:a", signer="t").key != older.key


def test_others_have_as_many_as_they_were_given() -> None:
    first, second = entry("alice"), entry("alice", "2")
    assert first.machine == "" and len(merged(by_key(first), by_key(second), now=NOW)) == 2


def test_what_has_ended_goes() -> None:
    assert merged(by_key(entry("alice")), {}, now=NOW + DAY) == by_key(entry("alice"))
    assert merged(by_key(entry("alice")), {}, now=NOW + DAY + dt.timedelta(seconds=1)) == {}


def test_it_is_read_back_and_what_is_foreign_is_left_out() -> None:
    known = by_key(entry("alice"), entry("system:node:a"))
    assert decode(encode(known) | {"x": "no JSON", "y": "{}"}) == known
    assert all(key[0] in SHARDS for key in known)


def test_a_renewal_by_the_node_itself_keeps_the_token_that_let_it_in() -> None:
    """Otherwise each renewal would give back what the token has used."""
    joined = msgspec.structs.replace(entry("system:node:a"), token="abcdef")
    renewed = entry("system:node:a", "2", begins=NOW + DAY / 2)
    again = msgspec.structs.replace(entry("system:node:a", "3", begins=NOW + DAY), token="fedcba")
    for first, second in ((joined, renewed), (renewed, joined)):
        (found,) = merged(by_key(first), by_key(second), now=NOW).values()
        assert (found.serial, found.token) == ("2", "abcdef")
    (found,) = merged(by_key(joined), by_key(again), now=NOW).values()
    assert found.token == "fedcba"


# ------------------------------------------------------------------ ConfigMaps


def test_what_changes() -> None:
    ended, kept, former = entry("alice", begins=NOW - 2 * DAY), entry("alice", "2"), entry("system:node:a")
    newer = entry("system:node:a", "3", begins=NOW + DAY / 2)
    first = encode(by_key(ended, kept)) | {"0": "no JSON"}
    stored = {"first": first, "further": encode(by_key(former))}
    changes = wanted(stored, by_key(newer), now=NOW)
    assert changes == {ended.key: "", "0": "", newer.key: encode(by_key(newer))[newer.key]}
    # What is stored is newer than what comes.
    late = {"first": {}, "further": encode(by_key(newer))}
    assert wanted(late, by_key(former), now=NOW) == encode(by_key(newer))


def test_what_is_recorded() -> None:
    older, newer = entry("system:node:a"), entry("system:node:a", "2", begins=NOW + DAY / 2)
    for stored, has in (([older], [True, False]), ([newer], [True, True]), ([], [False, False])):
        maps = [{}, encode(by_key(*stored))]
        assert [is_recorded(maps, each) for each in (older, newer)] == has


def test_what_a_token_has_used_is_told() -> None:
    mine = msgspec.structs.replace(entry("system:node:a"), token="abcdef")
    data = encode(by_key(mine, entry("alice")))
    totals = totals_of(totals_annotation(data))
    assert totals.bytes == size(data) and totals.tokens == {"abcdef": size(encode(by_key(mine)))}
    assert totals_of({}) == totals_of({TOTALS_ANNOTATION: "no JSON"}) == Totals()


def test_when_the_first_certificate_of_each_signer_ends_is_told() -> None:
    nodes = [entry("system:node:a"), entry("system:node:b", "2", begins=NOW + DAY / 2)]
    others = [entry("alice"), entry("alice", "2", begins=NOW - DAY / 2)]
    totals = totals_of(totals_annotation(encode(by_key(*nodes, *others))))
    assert totals.nodes == {nodes[0].signer_name: nodes[0].not_after}
    assert totals.others == {others[1].signer_name: others[1].not_after}
    many = [
        msgspec.structs.replace(entry("alice", f"{number}"), signer_name=f"example.com/{number}")
        for number in range(99)
    ]
    assert len(totals_of(totals_annotation(encode(by_key(*many)))).others) == 64


def test_there_is_no_room_where_the_token_or_the_path_is_full() -> None:
    def why(**totals: Totals) -> str:
        return no_room({f"{PREFIX}{name}".replace("_", "-"): each for name, each in totals.items()}, "a", "abcdef")

    half = Totals(1, {"abcdef": TOKEN_BUDGET // 2, "fedcba": TOKEN_BUDGET})
    assert why() == why(a=half) == ""
    assert why(a=half, overflow_00=half).startswith("the machines that the token abcdef has let in fill 16777216 of")
    full = Totals(MAX_BYTES)
    further = {f"overflow_{number:02}": full for number in range(48)}
    assert why(a=full) == why(**further) == why(b=full, **further) == ""
    assert why(a=full, **further).startswith("the ledger of certificates is full")


@pytest.mark.parametrize(("letters", "machines"), [(20, 35_000), (253, 16_000)])
def test_how_many_machines_a_token_lets_in(letters: int, machines: int) -> None:
    longest = msgspec.structs.replace(
        entry(f"system:node:{'n' * letters}", "f" * 40, signer="kubernetes.io/kube-apiserver-client-kubelet"),
        authority="a" * 40,
        public_key="b" * 32,
        token="abcdef",
    )
    each = size(encode(by_key(longest)))
    assert each <= MAX_ENTRY and TOKEN_BUDGET // each >= machines
    # Each has a serving certificate too, and yet one token does not fill the ledger.
    assert LAYOUT.capacity > 2 * TOKEN_BUDGET
