from __future__ import annotations

from kubevouch.api import core_v1
from kubevouch.api.events_v1 import Event, EventSeries, from_core, to_core
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.schema import schema_of
from kubevouch.machinery.text.times import MicroTime, Time

FULL = Event(
    metadata=ObjectMeta(name="e", namespace="default"),
    event_time=MicroTime(1),
    series=EventSeries(count=2, last_observed_time=MicroTime(2)),
    reporting_controller="c",
    reporting_instance="i",
    action="Did",
    reason="Why",
    regarding=core_v1.ObjectReference(kind="Node", name="n"),
    related=core_v1.ObjectReference(kind="Pod", name="p"),
    note="what",
    type="Normal",
    deprecated_source=core_v1.EventSource(component="c", host="h"),
    deprecated_first_timestamp=Time(3),
    deprecated_last_timestamp=Time(4),
    deprecated_count=5,
)


def test_an_empty_event_prints_as_in_go() -> None:
    assert json_codec.encode(Event(series=EventSeries())) == (
        b'{"metadata":{},"eventTime":null,"series":{"count":0,"lastObservedTime":null},"regarding":{},'
        b'"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null}'
    )


def test_the_stored_form() -> None:
    assert to_core(FULL) == core_v1.Event(
        metadata=FULL.metadata,
        involved_object=FULL.regarding,
        reason="Why",
        message="what",
        source=FULL.deprecated_source,
        first_timestamp=Time(3),
        last_timestamp=Time(4),
        count=5,
        type="Normal",
        event_time=MicroTime(1),
        series=core_v1.EventSeries(count=2, last_observed_time=MicroTime(2)),
        action="Did",
        related=FULL.related,
        reporting_component="c",
        reporting_instance="i",
    )


def test_nothing_is_lost_either_way() -> None:
    # FULL says something in every field, so that a field that is forgotten shows.
    unset = [f.name for f in schema_of(Event).fields if f.number and not getattr(FULL, f.attribute)]
    assert unset == []
    assert from_core(to_core(FULL)) == FULL
    assert from_core(to_core(Event())) == Event()
    assert to_core(from_core(core_v1.Event())) == core_v1.Event()
