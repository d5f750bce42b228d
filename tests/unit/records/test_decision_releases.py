from __future__ import annotations

import datetime as dt

import msgspec

from kubevouch.records.config_map_overflow import size
from kubevouch.records.decision_releases import LAYOUT, MAX_RELEASES, Release, added, config_map_of, find, key_of

NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
NODES = "nodeidentities"


def uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def test_a_release_is_found_by_resource_and_uid() -> None:
    data = added({}, NODES, uid(1), Release(at=NOW, generation=3))
    assert find(data, NODES, uid(1)) == Release(at=NOW, generation=3)
    assert find(data, NODES, uid(2)) is None
    assert find(data, "certificaterevocations", uid(1)) is None


def test_an_older_release_takes_the_place_of_no_newer_one() -> None:
    data = added({}, NODES, uid(1), Release(at=NOW, generation=3))
    assert added(data, NODES, uid(1), Release(at=NOW + dt.timedelta(1), generation=2)) == data
    newer = added(data, NODES, uid(1), Release(at=NOW, generation=5))
    assert find(newer, NODES, uid(1)) == Release(at=NOW, generation=5)


def test_the_oldest_go_and_the_newest_never() -> None:
    """Also by a clock that went back."""
    data: dict[str, str] = {
        key_of(NODES, uid(number)): msgspec.json.encode(Release(at=NOW + dt.timedelta(number), generation=1)).decode()
        for number in range(MAX_RELEASES)
    }
    data = added(data, NODES, uid(MAX_RELEASES), Release(at=NOW - dt.timedelta(1), generation=1))
    assert len(data) == MAX_RELEASES
    assert find(data, NODES, uid(0)) is None
    assert find(data, NODES, uid(1)) is not None
    assert find(data, NODES, uid(MAX_RELEASES)) is not None


def test_what_is_kept_fits_into_a_config_map() -> None:
    widest = Release(at=NOW.replace(microsecond=999999), generation=2**62)
    key = key_of("certificaterequestpolicies", uid(1))
    text = msgspec.json.encode(widest).decode()
    assert MAX_RELEASES * size({key: text}) < 256 << 10


def test_what_cannot_be_read_takes_nothing_back_and_goes() -> None:
    for text in ("", "{}", "[1]", "nonsense"):
        data = {key_of(NODES, uid(1)): text, "a stranger": "b"}
        assert find(data, NODES, uid(1)) is None
        assert added(data, NODES, uid(2), Release(at=NOW)).keys() == {key_of(NODES, uid(2))}


def test_each_uid_has_one_config_map() -> None:
    assert {config_map_of(uid(number)) for number in range(200)} == set(LAYOUT.names)
