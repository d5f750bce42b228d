"""Event of core/v1, and the rules that it shares with ``events.k8s.io/v1``: both are views of one stored kind.

Source: k8s.io/api/core/v1, pkg/apis/core/validation/events.go (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from kubevouch import wellknown
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.machinery import field
from kubevouch.machinery.declaration import Int32, Struct, always, null, wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import Object, ObjectMeta
from kubevouch.machinery.text import names
from kubevouch.machinery.text.times import MicroTime, Time

NORMAL = "Normal"
WARNING = "Warning"

_MAX_WORD = 128
_MAX_MESSAGE = 1024


class EventSource(Struct):
    """Who reported an event, in the older form."""

    component: Annotated[str, wire(1, "The program.")] = ""
    host: Annotated[str, wire(2, "The node it runs on.")] = ""


class EventSeries(Struct):
    """How often an event was seen again."""

    count: Annotated[Int32, wire(1, "How often, up to the last observation.")] = 0
    last_observed_time: Annotated[MicroTime | None, wire(2, "When it was last seen.")] = null()


class Event(Object):
    """Something that happened to an object. Events are forgotten after a while."""

    metadata: Annotated[ObjectMeta, wire(1, "Standard object metadata.", required=True)] = always(ObjectMeta)
    involved_object: Annotated[ObjectReference, wire(2, "What the event is about.", required=True)] = always(
        ObjectReference
    )
    reason: Annotated[str, wire(3, "Why, in one word for machines.")] = ""
    message: Annotated[str, wire(4, "What happened, for people.")] = ""
    source: Annotated[EventSource, wire(5, "Who reported it.")] = always(EventSource)
    first_timestamp: Annotated[Time | None, wire(6, "When it was first seen.")] = null()
    last_timestamp: Annotated[Time | None, wire(7, "When it was last seen.")] = null()
    count: Annotated[Int32, wire(8, "How often it was seen.")] = 0
    type: Annotated[str, wire(9, "Normal or Warning; others may come.")] = ""
    event_time: Annotated[MicroTime | None, wire(10, "When it was first seen, in the newer form.")] = null()
    series: Annotated[EventSeries | None, wire(11, "How often it was seen again, in the newer form.")] = None
    action: Annotated[str, wire(12, "What was done to the object or failed.")] = ""
    related: Annotated[ObjectReference | None, wire(13, "Another object that takes part.")] = None
    reporting_component: Annotated[str, wire(14, "The controller that reported it.")] = always(str)
    reporting_instance: Annotated[str, wire(15, "Which instance of the controller.")] = always(str)


class _Reference(msgspec.Struct):
    """Kubernetes' internal type, whose Go field names stand in messages."""

    Kind: str
    Namespace: str
    Name: str
    UID: str
    APIVersion: str
    ResourceVersion: str
    FieldPath: str


class _Source(msgspec.Struct):
    """Kubernetes' internal type, whose Go field names stand in messages."""

    Component: str
    Host: str


def validate_event(event: Event, api_version: str = "v1") -> list[FieldError]:
    """What is wrong with a new Event, metadata apart.

    Args:
        api_version: through which view it came; only ``events.k8s.io/v1`` is strict.
    """
    errors = _lenient_errors(event, api_version)
    if api_version == "v1":
        return errors
    errors += _series_errors(event)
    if _is_unset(event.event_time):
        errors.append(field.required("eventTime"))
    if event.type not in (NORMAL, WARNING):
        errors.append(field.invalid("type", "", f"has invalid value: {event.type}"))
    for path, is_set in (
        ("firstTimestamp", not _is_unset(event.first_timestamp)),
        ("lastTimestamp", not _is_unset(event.last_timestamp)),
        ("count", event.count != 0),
        ("source", bool(event.source.component or event.source.host)),
    ):
        if is_set:
            errors.append(field.invalid(path, "", "needs to be unset"))
    return errors


def validate_event_update(new: Event, old: Event, api_version: str = "v1") -> list[FieldError]:
    """What is wrong with a change of an Event, metadata apart. Through the strict view only the series may change."""
    errors = _lenient_errors(new, api_version)
    if api_version == "v1":
        return errors
    if new.series != old.series:
        errors += _series_errors(new)
    before, after = _frozen_values(old), _frozen_values(new)
    errors += (
        field.invalid(path, value, "field is immutable")
        for (path, value), (_, was) in zip(after, before, strict=True)
        if value != was
    )
    return errors


def _frozen_values(event: Event) -> list[tuple[str, Any]]:
    """Paths and printed values in the order in which Kubernetes compares them; the reason comes twice there."""
    return [
        ("involvedObject", _printed_reference(event.involved_object)),
        ("reason", event.reason),
        ("message", event.message),
        ("source", _Source(event.source.component, event.source.host)),
        ("firstTimestamp", event.first_timestamp),
        ("lastTimestamp", event.last_timestamp),
        ("count", event.count),
        ("reason", event.reason),
        ("type", event.type),
        ("eventTime", event.event_time),
        ("action", event.action),
        ("related", _printed_reference(event.related)),
        ("reportingController", event.reporting_component),
        ("reportingInstance", event.reporting_instance),
    ]


def _printed_reference(reference: ObjectReference | None) -> _Reference | None:
    if reference is None:
        return None
    return _Reference(
        reference.kind, reference.namespace, reference.name, reference.uid, reference.api_version,
        reference.resource_version, reference.field_path,
    )  # fmt: skip


def _is_unset(moment: Time | MicroTime | None) -> bool:
    return moment is None or moment.is_zero


def _series_errors(event: Event) -> list[FieldError]:
    if event.series is None:
        return []
    errors = []
    if event.series.count < 2:
        errors.append(field.invalid("series.count", "", "should be at least 2"))
    if _is_unset(event.series.last_observed_time):
        errors.append(field.required("series.lastObservedTime"))
    return errors


def _lenient_errors(event: Event, api_version: str) -> list[FieldError]:
    """The rules for every Event, however it came."""
    namespace, about = event.metadata.namespace, event.involved_object.namespace
    errors: list[FieldError] = []
    if _is_unset(event.event_time):
        if namespace not in ((about,) if about else ("", wellknown.DEFAULT_NAMESPACE)):
            errors.append(field.invalid("involvedObject.namespace", about, "does not match event.namespace"))
    else:
        if not about and namespace not in (wellknown.DEFAULT_NAMESPACE, wellknown.KUBE_SYSTEM_NAMESPACE):
            errors.append(field.invalid("involvedObject.namespace", about, "does not match event.namespace"))
        errors += _new_style_errors(event, "reportingComponent" if api_version == "v1" else "reportingController")
    errors += (field.invalid("namespace", namespace, message) for message in names.subdomain(namespace))
    return errors


def _new_style_errors(event: Event, controller_path: str) -> list[FieldError]:
    controller = event.reporting_component
    errors = [] if controller else [field.required(controller_path)]
    errors += (field.invalid(controller_path, controller, message) for message in names.qualified_name(controller))
    for path, word in (
        ("reportingInstance", event.reporting_instance), ("action", event.action), ("reason", event.reason),
    ):  # fmt: skip
        if not word:
            errors.append(field.required(path))
        errors += _length_errors(path, word, _MAX_WORD)
    return errors + _length_errors("message", event.message, _MAX_MESSAGE)


def _length_errors(path: str, text: str, limit: int) -> list[FieldError]:
    if len(text.encode(errors="surrogatepass")) <= limit:
        return []
    return [field.invalid(path, "", f"can have at most {limit} characters")]
