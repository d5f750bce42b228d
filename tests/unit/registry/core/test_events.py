"""Event: one store seen through two groups."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.api.core_v1 import Event
from kubevouch.registry.core import events, nodes
from unit.registry.core.objects import cells, read

EVENT = {
    "type": "Normal",
    "reason": "Started",
    "message": " it runs \n",
    "involvedObject": {"kind": "Node", "name": "n", "fieldPath": "spec", "uid": "u", "apiVersion": "v1"},
    "source": {"component": "kubelet", "host": "h"},
    "firstTimestamp": "2026-01-01T11:50:00Z",
    "lastTimestamp": "2026-01-01T11:59:00Z",
}


@pytest.mark.parametrize(
    ("changes", "last_seen", "count"),
    [
        ({}, "60s", 1),
        ({"lastTimestamp": None}, "10m", 1),
        ({"count": 3}, "60s", 3),
        (
            {"series": {"count": 4, "lastObservedTime": "2026-01-01T11:58:00.000000Z"}, "firstTimestamp": None,
             "eventTime": "2026-01-01T11:55:00.000000Z"},
            "2m",
            4,
        ),
        ({"firstTimestamp": None, "lastTimestamp": None}, "<unknown>", 1),
    ],
)  # fmt: skip
def test_an_events_row(changes: dict[str, Any], last_seen: str, count: int) -> None:
    row = cells(events.DEFINITION, read(Event, **EVENT | changes))
    assert (row[0], row[8]) == (last_seen, count)
    assert row[1:7] == ["Normal", "Started", "node/n", "spec", "kubelet, h", "it runs"]
    assert row[9] == "a"


def test_an_event_of_nothing_and_of_a_new_reporter() -> None:
    event = read(Event, involvedObject={"kind": "Node"}, reportingComponent="c", reportingInstance="i")
    assert (cells(events.DEFINITION, event)[3], cells(events.DEFINITION, event)[5]) == ("node", "c, i")


def test_both_views_of_events_select_alike() -> None:
    event = read(Event, **EVENT)
    core = {name: get(event) for name, get in events.DEFINITION.selectable_fields.items()}
    assert core["involvedObject.name"] == "n"
    assert (core["source"], core["reason"], core["type"]) == ("kubelet", "Started", "Normal")
    [view] = events.DEFINITION.views
    other = {name: get(view.from_storage(event)) for name, get in view.selectable_fields.items()}
    for name, value in core.items():
        if name.startswith("involvedObject."):
            assert other[name.replace("involvedObject", "regarding")] == value
    assert (other["reason"], other["type"]) == ("Started", "Normal")


def test_events_are_forgotten_after_an_hour() -> None:
    assert events.DEFINITION.ttl == 3600
    assert nodes.DEFINITION.ttl is None
