"""The declarations against a table of field numbers that was written down apart from them."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from kubevouch.api import (
    apidiscovery_v2,
    authentication_v1,
    authorization_v1,
    certificates_v1,
    certificates_v1beta1,
    coordination_v1,
    core_v1,
    discovery_v1,
    events_v1,
    meta_v1,
    node_v1,
    pod_certificate_requests_v1,
    pod_certificate_requests_v1beta1,
    rbac_v1,
    resource_v1,
    storage_v1,
)
from kubevouch.api.admissionregistration_v1 import matching, mutating_policies, policies, webhooks
from kubevouch.api.apiextensions_v1 import definitions, schema_fields
from kubevouch.api.core_v1 import (
    components,
    configmaps,
    containers,
    endpoints,
    events,
    namespaces,
    nodes,
    pod_status,
    pods,
    quotas,
    references,
    scheduling,
    secrets,
    serviceaccounts,
    services,
    volumes,
)
from kubevouch.machinery import meta
from kubevouch.machinery.declaration import Struct
from kubevouch.machinery.schema import ListSchema, MapSchema, StructSchema, TypeSchema, schema_of

TABLE: dict[str, dict[str, dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "field_numbers.json").read_text()
)
MODULES: dict[str, tuple[ModuleType, ...]] = {
    "core/v1": (
        components, configmaps, containers, endpoints, events, namespaces, nodes, pod_status, pods, quotas, references,
        scheduling, secrets, serviceaccounts, services, volumes,
    ),
    "events.k8s.io/v1": (events_v1,),
    "coordination.k8s.io/v1": (coordination_v1,),
    "rbac.authorization.k8s.io/v1": (rbac_v1,),
    "authentication.k8s.io/v1": (authentication_v1,),
    "authorization.k8s.io/v1": (authorization_v1,),
    "apidiscovery.k8s.io/v2": (apidiscovery_v2,),
    "meta/v1": (meta_v1, meta),
    "certificates.k8s.io/v1": (certificates_v1, pod_certificate_requests_v1),
    "certificates.k8s.io/v1beta1": (certificates_v1beta1, pod_certificate_requests_v1beta1),
    "storage.k8s.io/v1": (storage_v1,),
    "node.k8s.io/v1": (node_v1,),
    "apiextensions.k8s.io/v1": (definitions, schema_fields),
    "resource.k8s.io/v1": (resource_v1,),
    "discovery.k8s.io/v1": (discovery_v1,),
    "admissionregistration.k8s.io/v1": (matching, mutating_policies, policies, webhooks),
}  # fmt: skip
# Messages that are no struct here: lists are put together from their items, wrapped values are marks on a field.
NOT_DECLARED = {
    "SecretList",
    "ConfigMapList",
    "PartialObjectMetadataList",
    "ExtraValue",
    "Verbs",
    "Rule",
    "DeviceConfiguration",
    "VolumeSource",
    "ProbeHandler",
    "EphemeralContainerCommon",
    "JSONSchemaProps",
    "JSONSchemaPropsOrArray",
    "JSONSchemaPropsOrBool",
    "JSONSchemaPropsOrStringArray",
}
# Structs that have no protobuf form.
JSON_ONLY = {"TableColumnDefinition"}
# Wire names that differ between JSON and protobuf.
JSON_NAMES = {
    ("BoundObjectReference", "uID"): "uid",
    ("ValidatingWebhookConfiguration", "Webhooks"): "webhooks",
    ("MutatingWebhookConfiguration", "Webhooks"): "webhooks",
    ("Validation", "Expression"): "expression",
    ("Variable", "Name"): "name",
    ("Variable", "Expression"): "expression",
}
# Messages whose fields stand beside the others in JSON.
EMBEDDED = {
    "rule", "ruleWithOperations", "deviceConfiguration", "volumeSource", "handler", "ephemeralContainerCommon",
    "localObjectReference",
}  # fmt: skip

SCALARS = {
    "string": "s", "bytes": "bytes", "bool": "b", "int32": "i32", "int64": "i64", "time": "Time",
    "microtime": "MicroTime", "quantity": "Quantity", "json": "FieldsV1", "intorstring": "IntOrString",
}  # fmt: skip


def declared(group: str) -> dict[str, type[msgspec.Struct]]:
    return {
        name: value
        for module in MODULES[group]
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, Struct)
        and value.__module__ == module.__name__
        and value not in (Struct, meta.Object)
    }


def notation(schema: TypeSchema) -> str:
    """A type as the table spells it."""
    if isinstance(schema, ListSchema):
        return "wrapped" if schema.wrapped else f"[]{notation(schema.item)}"
    if isinstance(schema, MapSchema):
        value = notation(schema.value)
        return f"map<string, {'string' if value == 's' else value}>"
    if isinstance(schema, StructSchema):
        return schema.go_name
    return SCALARS[schema.kind] if schema.type is None else schema.type.__name__


def as_declared(kind: str) -> str:
    """Wrapped lists are messages of their own on the wire."""
    return "wrapped" if kind == "Verbs" else kind.replace("ExtraValue", "wrapped").replace("RawExtension", "FieldsV1")


@pytest.mark.parametrize(("group", "message"), [(group, name) for group in TABLE for name in TABLE[group]])
def test_every_message_of_the_table_is_declared_with_its_numbers(group: str, message: str) -> None:
    if message in NOT_DECLARED:
        assert message not in declared(group)
        return
    schema = schema_of(declared(group)[message])
    ours = {
        field.proto_name: ((*field.inside, field.number), notation(field.type))
        for field in schema.fields
        if field.number
    }
    assert ours == in_table(group, message)


def in_table(group: str, message: str) -> dict[str, tuple[tuple[int, ...], str]]:
    """The fields of a message, each with its number behind those of the messages that it is embedded in."""
    found: dict[str, tuple[tuple[int, ...], str]] = {}
    for name, (number, kind) in TABLE[group][message]["fields"].items():
        if name in EMBEDDED and kind in TABLE[group]:
            inner = in_table(group, kind)
            found |= {name: ((number, *numbers), inner_kind) for name, (numbers, inner_kind) in inner.items()}
        else:
            found[name] = ((number,), as_declared(kind))
    return found


@pytest.mark.parametrize("group", sorted(MODULES))
def test_every_declared_struct_is_in_the_table(group: str) -> None:
    missing = set(declared(group)) - set(TABLE[group]) - JSON_ONLY
    # Kinds of meta.k8s.io that are made of nothing but metadata need no numbers of their own.
    assert missing == set()


@pytest.mark.parametrize("group", sorted(MODULES))
def test_json_names_are_the_protobuf_names_but_for_the_known_ones(group: str) -> None:
    for name, struct in declared(group).items():
        for field in schema_of(struct).fields:
            assert field.name == JSON_NAMES.get((name, field.proto_name), field.proto_name)


def test_the_fields_of_a_schema_have_their_numbers() -> None:
    declared_elsewhere = TABLE["apiextensions.k8s.io/v1"]["JSONSchemaProps"]["fields"]
    assert {name: field.number for name, field in schema_fields.FIELDS.items()} == {
        name: number for name, (number, _) in declared_elsewhere.items()
    }


def test_the_table_is_made_from_its_text() -> None:
    vectors = Path(__file__).parents[2] / "vectors"
    maker = runpy.run_path(str(vectors / "make_field_numbers.py"))
    assert maker["messages"]((vectors / "field_numbers.txt").read_text()) == TABLE


def test_numbers_are_unique_within_a_message() -> None:
    for group in MODULES:
        for struct in declared(group).values():
            numbers = [(*field.inside, field.number) for field in schema_of(struct).fields if field.number]
            assert len(set(numbers)) == len(numbers), struct


def test_the_core_package_shows_its_kinds() -> None:
    assert core_v1.Secret is secrets.Secret
    assert core_v1.Node is nodes.Node
