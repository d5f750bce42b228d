"""records/certificate_ledger.py: what is kept, what it supersedes and when it goes."""

from __future__ import annotations

import datetime as dt

import msgspec

from kubevouch.records.certificate_ledger import SHARDS, IssuedCertificate, decode, encode, merged

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
    # 3,000 and more in each ConfigMap of 1 MiB.
    longest = msgspec.structs.replace(entry("system:node:" + "n" * 60, "f" * 32), authority="a" * 40)
    assert sum(map(len, encode(by_key(longest)).popitem())) < 350
