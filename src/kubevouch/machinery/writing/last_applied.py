"""The annotation of client-side apply, which ``kubectl apply --server-side`` takes over and keeps up to date.

Source: k8s.io/apimachinery/pkg/util/managedfields/internal/lastapplied*.go (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Any

from kubevouch.machinery import object_meta
from kubevouch.machinery.codec import gojson, json_codec
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.writing import field_set, typed_tree
from kubevouch.machinery.writing.field_set import FieldSet
from kubevouch.machinery.writing.typed_tree import MapType
from kubevouch.wellknown import LAST_APPLIED_ANNOTATION

MANAGER = "kubectl"  # the only field manager for which any of this happens


def owned(live: dict[str, Any], api_version: str, kind: MapType) -> FieldSet:
    """The fields of the tree ``live`` that client-side apply has set and nobody has changed since."""
    annotations = live["metadata"].get("annotations") or {}
    try:
        config = gojson.loads(annotations.get(LAST_APPLIED_ANNOTATION, "").encode("utf-8", "surrogatepass"))
    except gojson.JSONSyntaxError:
        return field_set.EMPTY
    if not isinstance(config, dict) or config.get("apiVersion") != api_version or config.get("kind") != live["kind"]:
        return field_set.EMPTY
    if typed_tree.validate(config, kind):
        return field_set.EMPTY
    difference = typed_tree.compare(config, live, kind)
    fields = field_set.difference(typed_tree.to_set(config, kind), difference.changed)
    return field_set.difference(fields, difference.removed)


def updated(obj: Any, patch: dict[str, Any]) -> Any:
    """``obj`` with the annotation, where it has one, set to the applied configuration, or without it if too big."""
    annotations = obj.metadata.annotations
    if not annotations.get(LAST_APPLIED_ANNOTATION):
        return obj
    text = json_codec.encode(_without_annotation(patch)).decode() + "\n"
    annotations = annotations | {LAST_APPLIED_ANNOTATION: text}
    if object_meta.annotations_size(annotations) > object_meta.MAX_ANNOTATIONS_BYTES:
        del annotations[LAST_APPLIED_ANNOTATION]
    return replace_metadata(obj, annotations=annotations)


def _without_annotation(patch: dict[str, Any]) -> dict[str, Any]:
    metadata = patch.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(annotations, dict):
        return patch
    kept = {key: value for key, value in annotations.items() if key != LAST_APPLIED_ANNOTATION}
    return patch | {"metadata": metadata | {"annotations": kept}}
