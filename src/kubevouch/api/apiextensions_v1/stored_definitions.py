"""How a CustomResourceDefinition lies in a store: as JSON of apiextensions.k8s.io/v1beta1, which nobody serves.

What all versions of a kind have in common stands once, above them.

Sources: conversion.go of k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/{v1,v1beta1} (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubevouch.api.apiextensions_v1.definitions import (
    CustomResourceDefinition,
    CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion,
)
from kubevouch.api.apiextensions_v1.schema_props import JSONSchemaProps
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.codec.object_codec import StructCodec

Tree = dict[str, Any]

_OLD = "apiextensions.k8s.io/v1beta1"
# In Go's order; where the fields of all versions go when they are equal.
_SHARED = {
    "schema": "validation", "subresources": "subresources", "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}  # fmt: skip
_SPEC = (
    "group", "version", "names", "scope", "validation", "subresources", "versions", "additionalPrinterColumns",
    "selectableFields", "conversion", "preserveUnknownFields",
)  # fmt: skip
_VERSION = (
    "name", "served", "storage", "deprecated", "deprecationWarning", "schema", "subresources",
    "additionalPrinterColumns", "selectableFields",
)  # fmt: skip
_COLUMN = ("name", "type", "format", "description", "priority", "JSONPath")


class DefinitionCodec(StructCodec[CustomResourceDefinition]):
    """Reads v1 as well, in JSON and in protobuf."""

    def __init__(self) -> None:
        super().__init__(CustomResourceDefinition)

    def to_value(self, obj: CustomResourceDefinition, api_version: str, kind: str) -> bytes:  # noqa: ARG002
        tree = {
            "kind": kind,
            "apiVersion": _OLD,
            "metadata": msgspec.Raw(json_codec.encode(obj.metadata)),
            "spec": _old_spec(obj.spec),
            "status": obj.status,
        }
        return json_codec.encode_in_order(tree) + b"\n"

    def _read_tree(self, tree: Tree, api_version: str, kind: str) -> CustomResourceDefinition:
        spec = tree.get("spec")
        if not isinstance(spec, dict):
            spec = {}
        if (tree.get("apiVersion"), tree.get("kind")) == (_OLD, kind):
            tree = {**tree, "apiVersion": api_version}
            spec = _spec(spec)
        versions = spec.get("versions")
        if isinstance(versions, list):
            spec = {**spec, "versions": list(map(_unread, versions))}
        return super()._read_tree({**tree, "spec": spec}, api_version, kind)


def _unread(version: Any) -> Any:
    """Of hundreds of schemas few are looked into."""
    schema = version.get("schema") if isinstance(version, dict) else None
    props = schema.get("openAPIV3Schema") if isinstance(schema, dict) else None
    if not isinstance(props, dict):
        return version
    return {**version, "schema": {"openAPIV3Schema": JSONSchemaProps.from_stored(props)}}


# ------------------------------------------------------------------ writing


def _old_spec(spec: CustomResourceDefinitionSpec) -> Tree:
    """The spec of v1beta1."""
    versions = [_old_version(version) for version in spec.versions]
    old = json_codec.to_builtins(msgspec.structs.replace(spec, versions=[]))
    old["preserveUnknownFields"] = spec.preserve_unknown_fields
    for name, above in _SHARED.items() if versions else ():
        first = versions[0].get(name)
        if all(version.get(name) == first for version in versions):
            for version in versions:
                version.pop(name, None)
            if first is not None:
                old[above] = first
    if versions:
        old["version"] = versions[0]["name"]
        old["versions"] = versions
    if "conversion" in old:
        old["conversion"] = _old_conversion(old["conversion"])
    return {key: old[key] for key in _SPEC if key in old}


def _old_version(version: CustomResourceDefinitionVersion) -> Tree:
    schema = version.schema
    old = json_codec.to_builtins(msgspec.structs.replace(version, schema=None))
    if schema is not None:
        props = schema.open_api_v3_schema
        old["schema"] = {} if props is None else {"openAPIV3Schema": props.to_stored()}
    if "additionalPrinterColumns" in old:
        old["additionalPrinterColumns"] = list(map(_old_column, old["additionalPrinterColumns"]))
    return {key: old[key] for key in _VERSION if key in old}


def _old_column(column: Tree) -> Tree:
    renamed = {**column, "JSONPath": column["jsonPath"]}
    return {key: renamed[key] for key in _COLUMN if key in renamed}


def _old_conversion(conversion: Tree) -> Tree:
    old = {"strategy": conversion["strategy"]}
    webhook = conversion.get("webhook") or {}
    if "clientConfig" in webhook:
        old["webhookClientConfig"] = webhook["clientConfig"]
    if webhook.get("conversionReviewVersions"):
        old["conversionReviewVersions"] = webhook["conversionReviewVersions"]
    return old


# ------------------------------------------------------------------ reading
#
# What is not as it should be is handed on as it is: the decoder says what is wrong with it.


def _spec(old: Tree) -> Tree:
    """The spec of v1 in one of v1beta1."""
    spec = {key: value for key, value in old.items() if key not in ("version", "validation", *_SHARED)}
    spec.setdefault("preserveUnknownFields", True)
    if not spec.get("versions") and old.get("version"):
        spec["versions"] = [{"name": old["version"], "served": True, "storage": True}]
    if isinstance(versions := spec.get("versions"), list):
        spec["versions"] = [_version(version, old) if isinstance(version, dict) else version for version in versions]
    if isinstance(conversion := spec.get("conversion"), dict):
        spec["conversion"] = _conversion(conversion)
    return spec


def _version(version: Tree, old: Tree) -> Tree:
    made = {**version, **{name: old[above] for name, above in _SHARED.items() if old.get(above) is not None}}
    if isinstance(columns := made.get("additionalPrinterColumns"), list):
        made["additionalPrinterColumns"] = [
            {**column, "jsonPath": column.get("JSONPath", "")} if isinstance(column, dict) else column
            for column in columns
        ]
    return made


def _conversion(old: Tree) -> Tree:
    renamed = {"clientConfig": "webhookClientConfig", "conversionReviewVersions": "conversionReviewVersions"}
    webhook = {name: old[before] for name, before in renamed.items() if old.get(before) is not None}
    return {"strategy": old.get("strategy", "")} | ({"webhook": webhook} if webhook else {})
