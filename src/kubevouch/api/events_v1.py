"""events.k8s.io/v1: the newer view of Events, which are stored as those of core/v1.

Source: k8s.io/api/events/v1, pkg/apis/events/v1/conversion.go (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.core_v1 import events as core_v1
from kubevouch.api.core_v1.events import EventSource
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.machinery.declaration import Int32, Struct, always, null, wire
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text.times import MicroTime, Time

GROUP = "events.k8s.io"
API_VERSION = "events.k8s.io/v1"


class EventSeries(Struct):
    """How often an event was seen again."""

    count: Annotated[Int32, wire(1, "How often, up to the last observation.", required=True)] = always(int)
    last_observed_time: Annotated[MicroTime | None, wire(2, "When it was last seen.", required=True)] = null()


class Event(Object):
    """Something that happened to an object. Events are forgotten after a while."""

    event_time: Annotated[MicroTime | None, wire(2, "When it was first seen.", required=True)] = null()
    series: Annotated[EventSeries | None, wire(3, "How often it was seen again.")] = None
    reporting_controller: Annotated[str, wire(4, "The controller that reported it.")] = ""
    reporting_instance: Annotated[str, wire(5, "Which instance of the controller.")] = ""
    action: Annotated[str, wire(6, "What was done to the object or failed.")] = ""
    reason: Annotated[str, wire(7, "Why, in one word for machines.")] = ""
    regarding: Annotated[ObjectReference, wire(8, "What the event is about.")] = always(ObjectReference)
    related: Annotated[ObjectReference | None, wire(9, "Another object that takes part.")] = None
    note: Annotated[str, wire(10, "What happened, for people.")] = ""
    type: Annotated[str, wire(11, "Normal or Warning; others may come.")] = ""
    deprecated_source: Annotated[EventSource, wire(12, "Who reported it, in the older form.")] = always(EventSource)
    deprecated_first_timestamp: Annotated[Time | None, wire(13, "firstTimestamp of the older form.")] = null()
    deprecated_last_timestamp: Annotated[Time | None, wire(14, "lastTimestamp of the older form.")] = null()
    deprecated_count: Annotated[Int32, wire(15, "count of the older form.")] = 0


def to_core(event: Event) -> core_v1.Event:
    """The Event as it is stored."""
    series = event.series
    return core_v1.Event(
        metadata=event.metadata,
        involved_object=event.regarding,
        reason=event.reason,
        message=event.note,
        source=event.deprecated_source,
        first_timestamp=event.deprecated_first_timestamp,
        last_timestamp=event.deprecated_last_timestamp,
        count=event.deprecated_count,
        type=event.type,
        event_time=event.event_time,
        series=None
        if series is None
        else core_v1.EventSeries(count=series.count, last_observed_time=series.last_observed_time),
        action=event.action,
        related=event.related,
        reporting_component=event.reporting_controller,
        reporting_instance=event.reporting_instance,
    )


def from_core(event: core_v1.Event) -> Event:
    """The newer view of a stored Event."""
    series = event.series
    return Event(
        metadata=event.metadata,
        event_time=event.event_time,
        series=None
        if series is None
        else EventSeries(count=series.count, last_observed_time=series.last_observed_time),
        reporting_controller=event.reporting_component,
        reporting_instance=event.reporting_instance,
        action=event.action,
        reason=event.reason,
        regarding=event.involved_object,
        related=event.related,
        note=event.message,
        type=event.type,
        deprecated_source=event.source,
        deprecated_first_timestamp=event.first_timestamp,
        deprecated_last_timestamp=event.last_timestamp,
        deprecated_count=event.count,
    )
