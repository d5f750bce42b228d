"""resource.k8s.io/v1: devices that drivers offer, and claims on them. They are stored; nothing here allocates any.

Field numbers and order: k8s.io/api/resource/v1; rules: pkg/apis/resource/validation (Kubernetes 1.36), of which those
are here that need no look at devices: names, and what may not change.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from kubevouch.api.core_v1.nodes import NodeSelector
from kubevouch.api.meta_v1 import Condition
from kubevouch.machinery import field
from kubevouch.machinery.declaration import Int64, Quantity, RawJSON, Struct, always, named, wire, zero
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import Object, ObjectMeta
from kubevouch.machinery.text import names
from kubevouch.machinery.text.times import Time

GROUP = "resource.k8s.io"
EXACT_COUNT = "ExactCount"

R = TypeVar("R", "ExactDeviceRequest", "DeviceSubRequest")


# ------------------------------------------------------------------ what is offered


class CapacityRequestPolicyRange(Struct):
    """Between which amounts a request may be."""

    min: Annotated[Quantity | None, wire(1, "The least.", required=True)] = None
    max: Annotated[Quantity | None, wire(2, "The most.")] = None
    step: Annotated[Quantity | None, wire(3, "Amounts are the least and a multiple of this.")] = None


class CapacityRequestPolicy(Struct):
    """How requests use up a capacity."""

    default: Annotated[Quantity | None, wire(1, "For requests that do not say.")] = None
    valid_values: Annotated[list[Quantity], wire(3, "Amounts that may be asked for.", list_type="atomic")] = []
    valid_range: Annotated[CapacityRequestPolicyRange | None, wire(4, "The same, as a range.")] = None


class DeviceCapacity(Struct):
    """An amount of something that a device has."""

    value: Annotated[Quantity, wire(1, "How much.", required=True)] = always(zero)
    request_policy: Annotated[CapacityRequestPolicy | None, wire(2, "How requests use it up.")] = None


class DeviceAttribute(Struct):
    """A property of a device, of one type."""

    int_value: Annotated[Int64 | None, wire(2, "A number.")] = named("int", None)
    bool_value: Annotated[bool | None, wire(3, "True or false.")] = named("bool", None)
    string_value: Annotated[str | None, wire(4, "A text.")] = named("string", None)
    version_value: Annotated[str | None, wire(5, "A semantic version.")] = named("version", None)


class Counter(Struct):
    """An amount that devices share."""

    value: Annotated[Quantity, wire(1, "How much.", required=True)] = always(zero)


class CounterSet(Struct):
    """Amounts that devices of a pool share."""

    name: Annotated[str, wire(1, "Its name.", required=True)] = always(str)
    counters: Annotated[dict[str, Counter], wire(2, "The amounts.", required=True)] = {}


class DeviceCounterConsumption(Struct):
    """What a device uses of a set of counters."""

    counter_set: Annotated[str, wire(1, "The set.", required=True)] = always(str)
    counters: Annotated[dict[str, Counter], wire(2, "How much of each.", required=True)] = {}


class DeviceTaint(Struct):
    """Keeps claims away from a device unless they tolerate it."""

    key: Annotated[str, wire(1, "The taint's key.", required=True)] = always(str)
    value: Annotated[str, wire(2, "The taint's value.")] = ""
    effect: Annotated[str, wire(3, "None, NoSchedule or NoExecute.", required=True)] = always(str)
    time_added: Annotated[Time | None, wire(4, "When the taint was added.")] = None


class Device(Struct):
    """One device."""

    name: Annotated[str, wire(1, "Its name in the pool.", required=True)] = always(str)
    attributes: Annotated[dict[str, DeviceAttribute], wire(2, "Its properties.")] = {}
    capacity: Annotated[dict[str, DeviceCapacity], wire(3, "What it has.")] = {}
    consumes_counters: Annotated[
        list[DeviceCounterConsumption], wire(4, "What it uses of shared counters.", list_type="atomic")
    ] = []
    node_name: Annotated[str | None, wire(5, "The node that it is on.")] = None
    node_selector: Annotated[NodeSelector | None, wire(6, "The nodes that have it.")] = None
    all_nodes: Annotated[bool | None, wire(7, "Every node has it.")] = None
    taints: Annotated[list[DeviceTaint], wire(8, "Its taints.", list_type="atomic")] = []
    binds_to_node: Annotated[bool | None, wire(9, "Its users stay on the node that was chosen.")] = None
    binding_conditions: Annotated[
        list[str], wire(10, "Conditions that hold before it is used.", list_type="atomic")
    ] = []
    binding_failure_conditions: Annotated[
        list[str], wire(11, "Conditions that keep it from being used.", list_type="atomic")
    ] = []
    allow_multiple_allocations: Annotated[bool | None, wire(12, "Several requests share it.")] = None


class ResourcePool(Struct):
    """The pool that a slice is a part of."""

    name: Annotated[str, wire(1, "Its name.", required=True)] = always(str)
    generation: Annotated[Int64, wire(2, "Counts its changes; only the highest counts.", required=True)] = always(int)
    resource_slice_count: Annotated[Int64, wire(3, "Of how many slices it is made.", required=True)] = always(int)


class ResourceSliceSpec(Struct):
    """What a driver offers."""

    driver: Annotated[str, wire(1, "The driver.", required=True)] = always(str)
    pool: Annotated[ResourcePool, wire(2, "The pool.", required=True)] = always(ResourcePool)
    node_name: Annotated[str | None, wire(3, "The node that has the resources.")] = None
    node_selector: Annotated[NodeSelector | None, wire(4, "The nodes that have them.")] = None
    all_nodes: Annotated[bool | None, wire(5, "Every node has access to them.")] = None
    devices: Annotated[list[Device], wire(6, "The devices.", list_type="atomic")] = []
    per_device_node_selection: Annotated[bool | None, wire(7, "Each device says for itself.")] = None
    shared_counters: Annotated[list[CounterSet], wire(8, "Amounts that devices share.", list_type="atomic")] = []


class ResourceSlice(Object):
    """Resources that a driver offers, or a part of them."""

    spec: Annotated[ResourceSliceSpec, wire(2, "What is offered.", required=True)] = always(ResourceSliceSpec)


# ------------------------------------------------------------------ what is asked for


class CELDeviceSelector(Struct):
    """Which devices, by an expression."""

    expression: Annotated[str, wire(1, "True for those that are meant.", required=True)] = always(str)


class DeviceSelector(Struct):
    """Which devices are meant."""

    cel: Annotated[CELDeviceSelector | None, wire(1, "By an expression.")] = None


class OpaqueDeviceConfiguration(Struct):
    """Settings for a driver, in a form of its own."""

    driver: Annotated[str, wire(1, "The driver.", required=True)] = always(str)
    parameters: Annotated[RawJSON | None, wire(2, "The settings.", required=True)] = None


class DeviceClassConfiguration(Struct):
    """Settings for the devices of a class."""

    opaque: Annotated[OpaqueDeviceConfiguration | None, wire(1, "For a driver.", inside=(1,))] = None


class DeviceClassSpec(Struct):
    """What can be claimed through a class."""

    selectors: Annotated[list[DeviceSelector], wire(1, "All of them fit.", list_type="atomic")] = []
    config: Annotated[list[DeviceClassConfiguration], wire(2, "Settings.", list_type="atomic")] = []
    extended_resource_name: Annotated[str | None, wire(4, "The name by which pods ask for them.")] = None


class DeviceClass(Object):
    """Devices that fit together, with their settings."""

    spec: Annotated[DeviceClassSpec, wire(2, "What can be claimed.")] = always(DeviceClassSpec)


class CapacityRequirements(Struct):
    """How much of a device's capacity is asked for."""

    requests: Annotated[dict[str, Quantity], wire(1, "How much of each.")] = {}


class DeviceToleration(Struct):
    """Lets a claim have devices with a taint."""

    key: Annotated[str, wire(1, "The taint's key; empty means every key.")] = ""
    operator: Annotated[str, wire(2, "Exists or Equal.")] = ""
    value: Annotated[str, wire(3, "The taint's value.")] = ""
    effect: Annotated[str, wire(4, "The taint's effect; empty means every effect.")] = ""
    toleration_seconds: Annotated[Int64 | None, wire(5, "How long NoExecute is tolerated.")] = None


class ExactDeviceRequest(Struct):
    """Devices of one class."""

    device_class_name: Annotated[str, wire(1, "The class.", required=True)] = always(str)
    selectors: Annotated[list[DeviceSelector], wire(2, "All of them fit.", list_type="atomic")] = []
    allocation_mode: Annotated[str, wire(3, "ExactCount or All.")] = ""
    count: Annotated[Int64, wire(4, "How many, with ExactCount.")] = 0
    admin_access: Annotated[bool | None, wire(5, "For watching devices that others use.")] = None
    tolerations: Annotated[list[DeviceToleration], wire(6, "Taints that it tolerates.", list_type="atomic")] = []
    capacity: Annotated[CapacityRequirements | None, wire(7, "How much of each device.")] = None


class DeviceSubRequest(Struct):
    """One of several that would do."""

    name: Annotated[str, wire(1, "Its name.", required=True)] = always(str)
    device_class_name: Annotated[str, wire(2, "The class.", required=True)] = always(str)
    selectors: Annotated[list[DeviceSelector], wire(3, "All of them fit.", list_type="atomic")] = []
    allocation_mode: Annotated[str, wire(4, "ExactCount or All.")] = ""
    count: Annotated[Int64, wire(5, "How many, with ExactCount.")] = 0
    tolerations: Annotated[list[DeviceToleration], wire(6, "Taints that it tolerates.", list_type="atomic")] = []
    capacity: Annotated[CapacityRequirements | None, wire(7, "How much of each device.")] = None


class DeviceRequest(Struct):
    """Devices that a claim is for."""

    name: Annotated[str, wire(1, "Its name in the claim.", required=True)] = always(str)
    exactly: Annotated[ExactDeviceRequest | None, wire(2, "These devices.")] = None
    first_available: Annotated[
        list[DeviceSubRequest], wire(3, "The first of these that can be had.", list_type="atomic")
    ] = []


class DeviceConstraint(Struct):
    """What devices of several requests have in common."""

    requests: Annotated[list[str], wire(1, "The requests; all, if there are none.", list_type="atomic")] = []
    match_attribute: Annotated[str | None, wire(2, "A property that is equal.")] = None
    distinct_attribute: Annotated[str | None, wire(3, "A property that is not.")] = None


class DeviceClaimConfiguration(Struct):
    """Settings for the devices of a claim."""

    requests: Annotated[list[str], wire(1, "The requests; all, if there are none.", list_type="atomic")] = []
    opaque: Annotated[OpaqueDeviceConfiguration | None, wire(1, "For a driver.", inside=(2,))] = None


class DeviceClaim(Struct):
    """The devices that are asked for."""

    requests: Annotated[list[DeviceRequest], wire(1, "The requests.", list_type="atomic")] = []
    constraints: Annotated[list[DeviceConstraint], wire(2, "What holds among them.", list_type="atomic")] = []
    config: Annotated[list[DeviceClaimConfiguration], wire(3, "Settings.", list_type="atomic")] = []


class ResourceClaimSpec(Struct):
    """What is asked for."""

    devices: Annotated[DeviceClaim, wire(1, "The devices.")] = always(DeviceClaim)


class ResourceClaimConsumerReference(Struct):
    """Who may use what was allocated."""

    api_group: Annotated[str, wire(1, "The group of its resource.")] = ""
    resource: Annotated[str, wire(3, "Its resource.", required=True)] = always(str)
    name: Annotated[str, wire(4, "Its name.", required=True)] = always(str)
    uid: Annotated[str, wire(5, "Its UID.", required=True)] = always(str)


class DeviceRequestAllocationResult(Struct):
    """A device that was allocated."""

    request: Annotated[str, wire(1, "The request that it is for.", required=True)] = always(str)
    driver: Annotated[str, wire(2, "Its driver.", required=True)] = always(str)
    pool: Annotated[str, wire(3, "Its pool.", required=True)] = always(str)
    device: Annotated[str, wire(4, "Its name.", required=True)] = always(str)
    admin_access: Annotated[bool | None, wire(5, "For watching it.")] = None
    tolerations: Annotated[list[DeviceToleration], wire(6, "Taints that are tolerated.", list_type="atomic")] = []
    binding_conditions: Annotated[list[str], wire(7, "Conditions before it is used.", list_type="atomic")] = []
    binding_failure_conditions: Annotated[
        list[str], wire(8, "Conditions that keep it from being used.", list_type="atomic")
    ] = []
    share_id: Annotated[str | None, wire(9, "Which share of it.")] = named("shareID", None)
    consumed_capacity: Annotated[dict[str, Quantity], wire(10, "How much of it is used up.")] = {}


class DeviceAllocationConfiguration(Struct):
    """Settings for devices that were allocated."""

    source: Annotated[str, wire(1, "FromClass or FromClaim.", required=True)] = always(str)
    requests: Annotated[list[str], wire(2, "The requests; all, if there are none.", list_type="atomic")] = []
    opaque: Annotated[OpaqueDeviceConfiguration | None, wire(1, "For a driver.", inside=(3,))] = None


class DeviceAllocationResult(Struct):
    """The devices that were allocated."""

    results: Annotated[list[DeviceRequestAllocationResult], wire(1, "The devices.", list_type="atomic")] = []
    config: Annotated[list[DeviceAllocationConfiguration], wire(2, "Settings.", list_type="atomic")] = []


class AllocationResult(Struct):
    """What was allocated, and where."""

    devices: Annotated[DeviceAllocationResult, wire(1, "The devices.")] = always(DeviceAllocationResult)
    node_selector: Annotated[NodeSelector | None, wire(3, "The nodes where it can be used.")] = None
    allocation_timestamp: Annotated[Time | None, wire(5, "When it was allocated.")] = None


class NetworkDeviceData(Struct):
    """What a network device is reached by."""

    interface_name: Annotated[str, wire(1, "The interface.")] = ""
    ips: Annotated[list[str], wire(2, "Its addresses.", list_type="atomic")] = []
    hardware_address: Annotated[str, wire(3, "Its hardware address.")] = ""


class AllocatedDeviceStatus(Struct):
    """What a driver says of a device that was allocated."""

    driver: Annotated[str, wire(1, "The driver.", required=True)] = always(str)
    pool: Annotated[str, wire(2, "The pool.", required=True)] = always(str)
    device: Annotated[str, wire(3, "The device.", required=True)] = always(str)
    share_id: Annotated[str | None, wire(7, "Which share of it.")] = named("shareID", None)
    conditions: Annotated[list[Condition], wire(4, "What is observed of it.", list_type="map", map_keys=("type",))] = []
    data: Annotated[RawJSON | None, wire(5, "What the driver says, in a form of its own.")] = None
    network_data: Annotated[NetworkDeviceData | None, wire(6, "Of a network device.")] = None


class ResourceClaimStatus(Struct):
    """What has become of a claim."""

    allocation: Annotated[AllocationResult | None, wire(1, "What was allocated.")] = None
    reserved_for: Annotated[
        list[ResourceClaimConsumerReference],
        wire(2, "Who may use it.", list_type="map", map_keys=("uid",), patch_merge_key="uid"),
    ] = []
    devices: Annotated[
        list[AllocatedDeviceStatus],
        wire(4, "What drivers say.", list_type="map", map_keys=("driver", "device", "pool", "shareID")),
    ] = []


class ResourceClaim(Object):
    """Devices that are asked for."""

    spec: Annotated[ResourceClaimSpec, wire(2, "What is asked for.", required=True)] = always(ResourceClaimSpec)
    status: Annotated[ResourceClaimStatus, wire(3, "What has become of it.")] = always(ResourceClaimStatus)


class ResourceClaimTemplateSpec(Struct):
    """What claims that are made from a template look like."""

    metadata: Annotated[ObjectMeta, wire(1, "Their labels and annotations.")] = always(ObjectMeta)
    spec: Annotated[ResourceClaimSpec, wire(2, "What they ask for.", required=True)] = always(ResourceClaimSpec)


class ResourceClaimTemplate(Object):
    """Claims that are made for each pod."""

    spec: Annotated[ResourceClaimTemplateSpec, wire(2, "The claims.", required=True)] = always(
        ResourceClaimTemplateSpec
    )


# ------------------------------------------------------------------ rules


def validate_claim(spec: ResourceClaimSpec, path: str) -> list[FieldError]:
    """What is wrong with the requests of a claim, or of a template's at ``path``."""
    found: list[FieldError] = []
    seen: set[str] = set()
    for index, request in enumerate(spec.devices.requests):
        at = f"{path}.devices.requests[{index}]"
        found += [field.invalid(f"{at}.name", request.name, fault) for fault in names.dns_label(request.name)]
        if request.name in seen:
            found.append(field.duplicate(f"{at}.name", request.name))
        seen.add(request.name)
        if (request.exactly is None) == (not request.first_available):
            why = "exactly one of `exactly` or `firstAvailable` is required"
            found.append(field.required(at, why) if request.exactly is None else field.invalid(at, "", why))
        if request.exactly is not None and not request.exactly.device_class_name:
            found.append(field.required(f"{at}.exactly.deviceClassName"))
    return found


def default_spec(spec: ResourceClaimSpec) -> ResourceClaimSpec:
    """One device exactly, where a request does not say."""
    requests = [
        msgspec.structs.replace(
            each,
            exactly=None if each.exactly is None else _counted(each.exactly),
            first_available=[_counted(sub) for sub in each.first_available],
        )
        for each in spec.devices.requests
    ]
    return msgspec.structs.replace(spec, devices=msgspec.structs.replace(spec.devices, requests=requests))


def _counted(request: R) -> R:
    mode = request.allocation_mode or EXACT_COUNT
    count = request.count or (1 if mode == EXACT_COUNT else 0)
    return msgspec.structs.replace(request, allocation_mode=mode, count=count)


def default_claim(claim: ResourceClaim) -> ResourceClaim:
    return msgspec.structs.replace(claim, spec=default_spec(claim.spec))


def default_template(template: ResourceClaimTemplate) -> ResourceClaimTemplate:
    spec = msgspec.structs.replace(template.spec, spec=default_spec(template.spec.spec))
    return msgspec.structs.replace(template, spec=spec)


def validate_slice(offered: ResourceSlice) -> list[FieldError]:
    """What is wrong with a slice, its devices apart."""
    spec = offered.spec
    found = [field.invalid("spec.driver", spec.driver, fault) for fault in names.subdomain(spec.driver)]
    if not spec.pool.name:
        found.append(field.required("spec.pool.name"))
    if spec.pool.resource_slice_count <= 0:
        count = spec.pool.resource_slice_count
        found.append(field.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero"))
    chosen = (spec.node_name, spec.node_selector, spec.all_nodes, spec.per_device_node_selection)
    if sum(bool(each) for each in chosen) != 1:
        why = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
        found.append(field.invalid("spec", "", why) if any(chosen) else field.required("spec", why))
    return found
