from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubevouch.api.core_v1 import (
    Event,
    EventSeries,
    EventSource,
    ObjectReference,
    validate_event,
    validate_event_update,
)
from kubevouch.api.events_v1 import API_VERSION
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import MicroTime, Time

NEW = Event(
    metadata=ObjectMeta(name="e", namespace="default"),
    involved_object=ObjectReference(kind="Node", name="n"),
    event_time=MicroTime(1_000_000),
    reporting_component="example.com/c",
    reporting_instance="i",
    action="Did",
    reason="x",
    type="Normal",
)


def changed(**changes: Any) -> Event:
    return msgspec.structs.replace(NEW, **changes)


def legacy(namespace: str, about: str) -> Event:
    return Event(metadata=ObjectMeta(namespace=namespace), involved_object=ObjectReference(namespace=about))


def faults(event: Event, api_version: str = "v1") -> list[str]:
    return [str(error) for error in validate_event(event, api_version)]


def test_an_empty_event_prints_as_in_go() -> None:
    assert json_codec.encode(Event()) == (
        b'{"metadata":{},"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,'
        b'"eventTime":null,"reportingComponent":"","reportingInstance":""}'
    )


@pytest.mark.parametrize(
    ("event", "about"),
    [
        (legacy("default", ""), None),
        (legacy("team", "team"), None),
        (legacy("kube-system", ""), ""),
        (legacy("default", "team"), "team"),
    ],
)
def test_the_legacy_rule(event: Event, about: str | None) -> None:
    expected = [] if about is None else [
        f'involvedObject.namespace: Invalid value: "{about}": does not match event.namespace'
    ]  # fmt: skip
    assert faults(event) == expected
    assert faults(event, API_VERSION)[: len(expected)] == expected


def test_legacy_events_are_hardly_looked_at() -> None:
    loud = msgspec.structs.replace(legacy("default", ""), type="Loud", count=-1, message="m" * 5000)
    assert faults(loud) == []


def test_the_namespace_is_a_subdomain() -> None:
    [text] = faults(legacy("A", "A"))
    assert text.startswith('namespace: Invalid value: "A": a lowercase RFC 1123 subdomain')


def test_new_events_say_who_and_what() -> None:
    bare = changed(reporting_component="", reporting_instance="", action="", reason="")
    texts = faults(bare)
    assert texts[0] == "reportingComponent: Required value"
    assert texts[1].startswith('reportingComponent: Invalid value: "": name part must be non-empty')
    assert [text for text in texts if "Required" in text] == [
        "reportingComponent: Required value",
        "reportingInstance: Required value",
        "action: Required value",
        "reason: Required value",
    ]
    assert faults(bare, API_VERSION)[0] == "reportingController: Required value"
    assert faults(NEW) == faults(NEW, API_VERSION) == []


def test_new_events_have_limits_in_bytes() -> None:
    long = changed(reporting_instance="i" * 129, action="ä" * 65, reason="r" * 128, message="m" * 1025)
    assert faults(long) == [
        'reportingInstance: Invalid value: "": can have at most 128 characters',
        'action: Invalid value: "": can have at most 128 characters',
        'message: Invalid value: "": can have at most 1024 characters',
    ]


def test_new_events_about_cluster_scoped_objects() -> None:
    assert faults(changed(metadata=ObjectMeta(namespace="kube-system"))) == []
    assert faults(changed(metadata=ObjectMeta(namespace="team"))) == [
        'involvedObject.namespace: Invalid value: "": does not match event.namespace'
    ]
    # With an event time the two namespaces may differ.
    about = ObjectReference(namespace="other")
    assert faults(changed(metadata=ObjectMeta(namespace="team"), involved_object=about)) == []


def test_the_strict_view_on_create() -> None:
    event = changed(
        event_time=None,
        type="Loud",
        first_timestamp=Time(1),
        last_timestamp=Time(1),
        count=1,
        source=EventSource(host="h"),
        series=EventSeries(count=1),
    )
    assert faults(event, API_VERSION) == [
        'series.count: Invalid value: "": should be at least 2',
        "series.lastObservedTime: Required value",
        "eventTime: Required value",
        'type: Invalid value: "": has invalid value: Loud',
        'firstTimestamp: Invalid value: "": needs to be unset',
        'lastTimestamp: Invalid value: "": needs to be unset',
        'count: Invalid value: "": needs to be unset',
        'source: Invalid value: "": needs to be unset',
    ]
    assert faults(event) == []
    good = changed(series=EventSeries(count=2, last_observed_time=MicroTime(1)))
    assert faults(good, API_VERSION) == []


def test_the_strict_view_on_update() -> None:
    series = EventSeries(count=2, last_observed_time=MicroTime(1))
    assert validate_event_update(changed(series=series), NEW, API_VERSION) == []
    new = changed(
        series=EventSeries(count=2),
        involved_object=ObjectReference(kind="Node", name="other"),
        reason="y",
        source=EventSource(host="h"),
        related=ObjectReference(name="r"),
    )
    nobody = '"Namespace":"","Name":"{}","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}}'
    assert [str(error) for error in validate_event_update(new, NEW, API_VERSION)] == [
        "series.lastObservedTime: Required value",
        f'involvedObject: Invalid value: {{"Kind":"Node",{nobody.format("other")}: field is immutable',
        'reason: Invalid value: "y": field is immutable',
        'source: Invalid value: {"Component":"","Host":"h"}: field is immutable',
        'reason: Invalid value: "y": field is immutable',
        f'related: Invalid value: {{"Kind":"",{nobody.format("r")}: field is immutable',
    ]
    assert validate_event_update(new, NEW) == []
    assert validate_event_update(NEW, NEW, API_VERSION) == []
