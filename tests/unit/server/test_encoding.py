"""Frames are shared between watchers, and never between forms."""

import datetime as dt
import json

import pytest

from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.codec import protobuf
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.registry.interface import Printer
from kubevouch.server.encoding import FRAME_BYTES, FRAMES, ObjectEncoder
from kubevouch.server.negotiation import Negotiated, Transform
from kubevouch.storage.interface import Revision
from kubevouch.storage.watchcache.objects import Stored
from kubevouch.storage.watchcache.resource_cache import Change

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
JSON = Negotiated("json", stream=True)
TABLE = Negotiated("json", Transform("Table"), stream=True)
PROTOBUF = Negotiated("protobuf", stream=True)


def _change(name: str, revision: int) -> Change[ConfigMap]:
    obj = ConfigMap(metadata=ObjectMeta(name=name, resource_version=str(revision)))
    stored = Stored(f"/registry/configmaps/default/{name}", obj, Revision(revision), b"")
    return Change("MODIFIED", stored, Revision(revision))


def test_each_watcher_gets_its_own_change_in_its_own_form() -> None:
    encoder = ObjectEncoder(catalog.CONFIG_MAPS, Printer((), lambda _obj, _now: ()))
    one, two = _change("one", 5), _change("two", 6)
    for change, name in ((one, "one"), (two, "two"), (one, "one"), (one, "one")):
        for how in (JSON, PROTOBUF, JSON):
            frame = encoder.frames([change], how, NOW, "", first=False)
            assert _name(frame, how) == name


@pytest.mark.parametrize("how", [JSON, PROTOBUF, TABLE], ids=["json", "protobuf", "table"])
def test_a_frame_is_made_once_for_all_watchers_of_a_form(how: Negotiated) -> None:
    encoder = ObjectEncoder(catalog.CONFIG_MAPS, Printer((), lambda _obj, _now: ()))
    changes = [_change(f"c{number}", number) for number in range(1, FRAMES + 1)]
    first = [encoder.frames([change], how, NOW, "", first=False) for change in changes]
    assert len(set(first)) == FRAMES
    for change, frame in zip(changes, first, strict=True):
        assert encoder.frames([change], how, NOW, "", first=False) is frame


def test_only_so_many_frames_are_kept() -> None:
    encoder = ObjectEncoder(catalog.CONFIG_MAPS, Printer((), lambda _obj, _now: ()))
    for number in range(1, 3 * FRAMES):
        encoder.frames([_change("c", number)], JSON, NOW, "", first=False)
    assert len(encoder._frames) == FRAMES


def test_large_frames_are_kept_as_far_as_their_bytes_allow() -> None:
    encoder = ObjectEncoder(catalog.CONFIG_MAPS, Printer((), lambda _obj, _now: ()))
    for number in range(1, 200):
        obj = ConfigMap(metadata=ObjectMeta(name="c"), data={"value": "x" * (1000 * number)})
        change = Change("MODIFIED", Stored("c", obj, Revision(number), b"x" * 1000 * number), Revision(number))
        frame = encoder.frames([change], JSON, NOW, "", first=False)
        assert encoder.frames([change], JSON, NOW, "", first=False) is frame
        held = sum(len(kept) + len(stored.raw) for stored, _, kept in encoder._frames.values())
        assert held == encoder.frame_bytes <= FRAME_BYTES
    huge = Change("MODIFIED", Stored("c", obj, Revision(1), b"x" * FRAME_BYTES), Revision(1))
    encoder.frames([huge], JSON, NOW, "", first=False)
    assert len(encoder._frames) == 1


def test_a_table_tells_the_age_of_its_own_second() -> None:
    encoder = ObjectEncoder(catalog.CONFIG_MAPS, Printer((), lambda _obj, now: (now.isoformat(),)))
    change = _change("one", 5)
    told = [
        json.loads(encoder.frames([change], TABLE, NOW + dt.timedelta(seconds=age), "", first=False))["object"]["rows"]
        for age in (0, 0.9, 1)
    ]
    assert told[0] == told[1] != told[2]


def _name(frame: bytes, how: Negotiated) -> str:
    if how.encoding == "json":
        event = json.loads(frame)
        assert event["type"] == "MODIFIED"
        return str(event["object"]["metadata"]["name"])
    kind, envelope = protobuf.open_watch_event(frame[4:])
    assert kind == "MODIFIED"
    return protobuf.codec_for(ConfigMap).decode(protobuf.unseal(envelope).raw).metadata.name
