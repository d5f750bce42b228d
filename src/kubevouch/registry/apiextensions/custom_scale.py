"""``/scale`` of custom resources: one number of theirs as an object of its own.

Source: apiextensions-apiserver pkg/registry/customresource/etcd.go (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec

from kubevouch.api.autoscaling_v1 import GROUP, Scale, ScaleSpec, ScaleStatus
from kubevouch.machinery import errors
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.machinery.scheme import GroupVersionKind, Resource
from kubevouch.machinery.text.gotext import quote
from kubevouch.registry.apiextensions.custom_columns import AGE, NAME, created
from kubevouch.registry.interface import Column, Form, Printer
from kubevouch.structural import paths
from kubevouch.structural.scale import ScalePaths

_MAX = (1 << 31) - 1


def _cells(obj: Scale, now: dt.datetime) -> list[object]:
    return [obj.metadata.name, obj.spec.replicas or 0, obj.status.replicas, created(obj, now)]


_PRINTER = Printer(
    (
        NAME,
        Column("Desired", "integer", description="Number of desired replicas"),
        Column("Available", "integer", description="Number of actual replicas"),
        AGE,
    ),
    _cells,
)


def form(resource: Resource[CustomObject], scale: ScalePaths) -> Form[CustomObject]:
    """How the objects of ``resource`` look as Scales, and what writing one changes."""
    wanted, actual = paths.names(scale.spec_replicas), paths.names(scale.status_replicas)
    selector = paths.names(scale.selector) if scale.selector else ()

    def show(obj: CustomObject) -> Scale:
        replicas = paths.value_at(obj.content, wanted)
        if replicas is None:
            raise errors.internal(f"the spec replicas field {quote(scale.spec_replicas)} does not exist")
        meta, present = obj.metadata, paths.value_at(obj.content, actual)
        text = paths.value_at(obj.content, selector) if selector else ""
        return Scale(
            metadata=ObjectMeta(
                name=meta.name,
                namespace=meta.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version,
                creation_timestamp=meta.creation_timestamp,
            ),
            spec=ScaleSpec(replicas=_number(replicas)),
            status=ScaleStatus(replicas=_number(present), selector=text if isinstance(text, str) else ""),
        )

    def take(obj: CustomObject, shown: Scale) -> CustomObject:
        if shown.spec.replicas is None:
            raise errors.bad_request(f"the spec replicas field {quote(scale.spec_replicas)} cannot be empty")
        content: dict[str, Any] = paths.with_value(obj.content, wanted, shown.spec.replicas)
        given = shown.metadata
        changed: CustomObject = replace_metadata(
            msgspec.structs.replace(obj, content=content),
            uid=given.uid or obj.metadata.uid,
            resource_version=given.resource_version or obj.metadata.resource_version,
        )
        return changed

    own = Resource(GROUP, "v1", "Scale", resource.plural, Scale, namespaced=resource.namespaced)

    def configuration(tree: Any) -> Any:
        tree = tree if isinstance(tree, dict) else {}
        if (tree.get("apiVersion"), tree.get("kind")) != (own.api_version, own.kind):
            group, _, version = str(tree.get("apiVersion") or "").rpartition("/")
            raise errors.bad_request(f"invalid object type: {GroupVersionKind(group, version, tree.get('kind') or '')}")
        names = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": tree.get("metadata")}
        replicas = paths.value_at(tree, ("spec", "replicas"))
        return names if replicas is None else paths.with_value(names, wanted, replicas)

    return Form(own, show, take, configuration, _PRINTER)


def _number(value: Any) -> int:
    return value if isinstance(value, int) and -_MAX <= value <= _MAX else 0
