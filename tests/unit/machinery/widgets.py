"""A kind made up for the tests of machinery: it has a field of every form that the declarations know."""

from __future__ import annotations

from typing import Annotated

from kubevouch.machinery.declaration import (
    ExtraValue,
    Int32,
    Int64,
    Quantity,
    RawJSON,
    Struct,
    always,
    always_named,
    named,
    null,
    wire,
)
from kubevouch.machinery.meta import Object
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.times import MicroTime, Time


class Port(Struct):
    """An item of a list with two keys."""

    port: Annotated[Int32, wire(1, required=True)] = always(int)
    protocol: Annotated[str, wire(2)] = ""
    name: Annotated[str, wire(3)] = ""


class Condition(Struct):
    """An item of a list with one key."""

    type: Annotated[str, wire(1, required=True)] = always(str)
    status: Annotated[str, wire(2)] = ""
    since: Annotated[Time | None, wire(3)] = null()
    details: Annotated[dict[str, str], wire(4)] = {}
    steps: Annotated[list[str], wire(5, patch_strategy="merge")] = []


class Window(Struct):
    """A part of a widget; granular or atomic as the field says."""

    width: Annotated[Int32, wire(1)] = 0
    height: Annotated[Int32 | None, wire(2)] = None
    title: Annotated[str, wire(3)] = ""


class WidgetSpec(Struct):
    """Fields of every type."""

    size: Annotated[Int32 | None, wire(1)] = None
    weight: Annotated[Int64, wire(2)] = 0
    color: Annotated[str, wire(3, enum=("red", "green"))] = ""
    shiny: Annotated[bool, wire(4)] = False
    loud: Annotated[bool | None, wire(5)] = None
    blob: Annotated[bytes, wire(6)] = b""
    request: Annotated[bytes | None, wire(7, required=True)] = null()
    made: Annotated[Time | None, wire(8)] = None
    seen: Annotated[MicroTime | None, wire(9)] = None
    amount: Annotated[Quantity | None, wire(10)] = None
    capacity: Annotated[dict[str, Quantity], wire(11)] = {}
    template: Annotated[RawJSON | None, wire(12)] = None
    tags: Annotated[list[str], wire(13, list_type="set", patch_strategy="merge")] = []
    ports: Annotated[list[Port], wire(14, list_type="map", map_keys=("port", "protocol"), patch_merge_key="port")] = []
    conditions: Annotated[
        list[Condition], wire(15, list_type="map", map_keys=("type",), patch_merge_key="type")
    ] = []  # fmt: skip
    steps: Annotated[list[str], wire(16, list_type="atomic")] = []
    windows: Annotated[list[Window], wire(17)] = []
    labels: Annotated[dict[str, str], wire(18)] = {}
    selector: Annotated[dict[str, str], wire(19, atomic=True)] = {}
    panes: Annotated[dict[str, Window], wire(20)] = {}
    extra: Annotated[dict[str, ExtraValue], wire(21)] = {}
    front: Annotated[Window | None, wire(22)] = None
    back: Annotated[Window | None, wire(23, atomic=True)] = None
    base: Annotated[Window, wire(24)] = always(Window)
    pod_cidr: Annotated[str, wire(25)] = named("podCIDR", "")
    continue_: Annotated[str, wire(26, proto_name="continue")] = named("continue")
    rules: Annotated[list[str] | None, wire(27, required=True)] = null()
    blobs: Annotated[dict[str, bytes], wire(28)] = {}
    owner_uid: Annotated[str, wire(29, proto_name="ownerUID")] = always_named("ownerUid", str)
    numbers: Annotated[list[Int64], wire(30, list_type="set", patch_strategy="merge")] = []


class WidgetStatus(Struct):
    """What a controller says."""

    conditions: Annotated[
        list[Condition], wire(1, list_type="map", map_keys=("type",), patch_merge_key="type")
    ] = []  # fmt: skip
    phase: Annotated[str, wire(2)] = ""


class Widget(Object):
    """The kind itself."""

    spec: Annotated[WidgetSpec, wire(2)] = always(WidgetSpec)
    status: Annotated[WidgetStatus, wire(3)] = always(WidgetStatus)


WIDGETS: Resource[Widget] = Resource(
    group="example.com", version="v1", kind="Widget", plural="widgets", type=Widget, namespaced=True
)
