"""Event: one store, seen through core/v1 and events.k8s.io/v1; forgotten after an hour."""

from __future__ import annotations

import datetime as dt

import msgspec

from kubevouch.api import catalog, core_v1, events_v1
from kubevouch.api.core_v1 import Event
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text.times import MicroTime, Time
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy, View
from kubevouch.registry.printing import NAME, age


class EventStrategy(Strategy[Event]):
    create_on_update = True

    def validate(self, ctx: Context, obj: Event) -> list[FieldError]:
        return core_v1.validate_event(obj, ctx.api_version)

    def validate_update(self, ctx: Context, new: Event, old: Event) -> list[FieldError]:
        return core_v1.validate_event_update(new, old, ctx.api_version)


def _source(event: Event) -> str:
    component = event.source.component or event.reporting_component
    host = event.source.host or event.reporting_instance
    return ", ".join(part for part in (component, host) if part)


def _object(event: Event) -> str:
    kind = event.involved_object.kind.lower()
    return f"{kind}/{event.involved_object.name}" if event.involved_object.name else kind


def _last_seen(event: Event) -> Time | MicroTime | None:
    if event.series is not None:
        return event.series.last_observed_time
    return event.last_timestamp or event.first_timestamp or event.event_time


def _cells(event: Event, now: dt.datetime) -> list[object]:
    count = event.series.count if event.series is not None else event.count or 1
    return [
        age(_last_seen(event), now),
        event.type,
        event.reason,
        _object(event),
        event.involved_object.field_path,
        _source(event),
        event.message.strip(),
        age(event.first_timestamp or event.event_time, now),
        count,
        event.metadata.name,
    ]


_CORE_FIELDS = {
    "involvedObject.kind": lambda obj: obj.involved_object.kind,
    "involvedObject.namespace": lambda obj: obj.involved_object.namespace,
    "involvedObject.name": lambda obj: obj.involved_object.name,
    "involvedObject.uid": lambda obj: obj.involved_object.uid,
    "involvedObject.apiVersion": lambda obj: obj.involved_object.api_version,
    "involvedObject.resourceVersion": lambda obj: obj.involved_object.resource_version,
    "involvedObject.fieldPath": lambda obj: obj.involved_object.field_path,
    "reason": lambda obj: obj.reason,
    "reportingComponent": lambda obj: obj.reporting_component,
    "source": lambda obj: obj.source.component or obj.reporting_component,
    "type": lambda obj: obj.type,
}
_EVENTS_FIELDS = {
    "regarding.kind": lambda obj: obj.regarding.kind,
    "regarding.namespace": lambda obj: obj.regarding.namespace,
    "regarding.name": lambda obj: obj.regarding.name,
    "regarding.uid": lambda obj: obj.regarding.uid,
    "regarding.apiVersion": lambda obj: obj.regarding.api_version,
    "regarding.resourceVersion": lambda obj: obj.regarding.resource_version,
    "regarding.fieldPath": lambda obj: obj.regarding.field_path,
    "reason": lambda obj: obj.reason,
    "reportingController": lambda obj: obj.reporting_controller,
    "type": lambda obj: obj.type,
}

DEFINITION = Definition(
    resource=catalog.EVENTS,
    strategy=EventStrategy(),
    printer=Printer(
        (
            Column("Last Seen", description="Time since it was last seen."),
            Column("Type", description="Normal or Warning."),
            Column("Reason", description="Why, in one word."),
            Column("Object", description="What it is about."),
            Column("Subobject", description="The part of the object that it is about.", priority=1),
            Column("Source", description="Who reported it.", priority=1),
            Column("Message", description="What happened."),
            Column("First Seen", description="Time since it was first seen.", priority=1),
            Column("Count", description="How often it was seen.", priority=1),
            Column(NAME.name, format=NAME.format, description=NAME.description, priority=1),
        ),
        _cells,
    ),
    selectable_fields=_CORE_FIELDS,
    views=(
        View(
            catalog.EVENTS_V1,
            to_storage=events_v1.to_core,
            from_storage=events_v1.from_core,
            selectable_fields=_EVENTS_FIELDS,
        ),
    ),
    ttl=3600.0,  # kube-apiserver's --event-ttl
)


def definition(ttl: float) -> Definition[Event]:
    """Events that are kept for so many seconds; 0 keeps them for ever."""
    return msgspec.structs.replace(DEFINITION, ttl=ttl or None)
