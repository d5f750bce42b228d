"""Declared structs to the schemas of OpenAPI 3.0, with Kubernetes' extensions (kube-openapi pkg/generators)."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any

import msgspec

from kubevouch.api.apiextensions_v1.schema_props import JSONSchemaProps
from kubevouch.machinery.declaration import Opaque
from kubevouch.machinery.meta import DeleteOptions, ListMeta, Object
from kubevouch.machinery.schema import (
    FieldSchema,
    ListSchema,
    MapSchema,
    ScalarKind,
    ScalarSchema,
    StructSchema,
    TypeSchema,
    schema_of,
)
from kubevouch.machinery.scheme import GroupVersionKind, Resource, Scheme
from kubevouch.server.openapi import schema_props
from kubevouch.server.openapi.names import APIMACHINERY, META, SchemaNames

Tree = dict[str, Any]

PREFIX = "#/components/schemas/"
GVK = "x-kubernetes-group-version-kind"

TIME = f"{META}.Time"
MICRO_TIME = f"{META}.MicroTime"
FIELDS_V1 = f"{META}.FieldsV1"
PATCH = f"{META}.Patch"
WATCH_EVENT = f"{META}.WatchEvent"
QUANTITY = f"{APIMACHINERY}.api.resource.Quantity"
INT_OR_STRING = f"{APIMACHINERY}.util.intstr.IntOrString"
RAW_EXTENSION = f"{APIMACHINERY}.runtime.RawExtension"

_INLINE: dict[ScalarKind, Tree] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
}
_NAMED: dict[ScalarKind, str] = {
    "time": TIME, "microtime": MICRO_TIME, "quantity": QUANTITY, "intorstring": INT_OR_STRING, "json": RAW_EXTENSION,
}  # fmt: skip
_ZEROS: dict[ScalarKind, object] = {"string": "", "bool": False, "int32": 0, "int64": 0}

# Types that are no structs here: their form in JSON is all there is to say of them.
_FIXED: dict[str, Tree] = {
    TIME: {"type": "string", "format": "date-time", "description": "A moment to the second, as RFC 3339 writes it."},
    MICRO_TIME: {"type": "string", "format": "date-time", "description": "A moment to the microsecond."},
    QUANTITY: {"type": "string", "description": "An amount with its unit, such as 100m or 4Gi."},
    INT_OR_STRING: {"type": "string", "format": "int-or-string", "description": "A number or a name."},
    FIELDS_V1: {"type": "object", "description": "A set of fields, as a tree of their paths."},
    RAW_EXTENSION: {"type": "object", "description": "An object of any kind."},
    PATCH: {"type": "object", "description": "A change, in the form that the Content-Type names."},
}


def scalar(kind: ScalarKind) -> Tree:
    """The schema of a scalar that has no name of its own."""
    return dict(_INLINE[kind])


def reference(name: str, **siblings: object) -> Tree:
    """A reference; OpenAPI 3.0 ignores what stands beside a bare one, hence ``allOf``."""
    found = {"$ref": PREFIX + name}
    return {"allOf": [found], **siblings} if siblings else found


def references(tree: object) -> set[str]:
    """The names of all schemas that a part of a document refers to."""
    found: set[str] = set()
    _collect(tree, found)
    return found


def _collect(tree: object, found: set[str]) -> None:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "$ref" and isinstance(value, str):  # a field may be called so, too
                found.add(value.removeprefix(PREFIX))
            elif isinstance(value, (dict, list)):
                _collect(value, found)
    elif isinstance(tree, list):
        for value in tree:
            _collect(value, found)


class Schemas:
    """The schemas of one document set; asking for the name of a type adds its schema and those it needs."""

    def __init__(self, scheme: Scheme) -> None:
        self.names = SchemaNames(scheme)
        self.trees: dict[str, Tree] = {}
        self._owners: dict[str, type[Any]] = {}
        self._needs: dict[str, set[str]] = {}
        self._kinds: dict[type[Any], list[GroupVersionKind]] = {}
        for gvk, struct in scheme.kinds.items():
            self._kinds.setdefault(struct, []).append(gvk)

    # -------------------------------------------------------------- asking

    def struct(self, struct: type[msgspec.Struct]) -> str:
        """The name of a struct's schema.

        Raises:
            ValueError: another struct has the same name.
        """
        name = self.names.of(struct)
        owner = self._owners.setdefault(name, struct)
        if owner is not struct:
            raise ValueError(f"two schemas are called {name}: {owner.__module__} and {struct.__module__}")
        if name not in self.trees:
            tree = self.trees[name] = {}  # first, so that types may contain themselves
            schema = schema_of(struct)
            tree.update(self._struct_tree(schema))
            if schema.atomic:
                tree["x-kubernetes-map-type"] = "atomic"
        return name

    def list_of(self, resource: Resource[Any]) -> str:
        """The name of the schema of a resource's list. Versions that share a struct share the list too."""
        name = self.names.of_list(resource)
        if name not in self.trees:
            self.trees[name] = self._list_tree(resource)
        kinds = self.trees[name].setdefault(GVK, [])
        kind = kind_tree(resource.gvk._replace(kind=resource.list_kind))
        if kind not in kinds:
            kinds.append(kind)
        return name

    def fixed(self, name: str) -> str:
        """The name of a schema that no struct declares."""
        if name == WATCH_EVENT:
            return self._watch_event()
        self.trees[name] = _FIXED[name]
        return name

    def reachable(self, tree: object, apart_from: Collection[str] = ()) -> dict[str, Tree]:
        """Every schema that a part of a document refers to, directly or not. Ask when all types are added.

        Args:
            apart_from: names that are described elsewhere.
        """
        found: dict[str, Tree] = {}
        waiting = references(tree).difference(apart_from)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = self.trees[name]
                waiting |= self._needs_of(name)
        return found

    def _needs_of(self, name: str) -> set[str]:
        needs = self._needs.get(name)
        if needs is None:
            needs = self._needs[name] = references(self.trees[name])
        return needs

    # -------------------------------------------------------------- making

    def _opaque(self, kind: type[Opaque]) -> str:
        name = self.names.of(kind)
        if kind is not JSONSchemaProps:
            raise TypeError(f"nothing describes {name}")
        if name not in self.trees:
            self.trees |= schema_props.trees(name, self.struct, reference)
        return name

    def _watch_event(self) -> str:
        if WATCH_EVENT not in self.trees:
            versions = self._kinds.get(DeleteOptions, [])
            self.trees[WATCH_EVENT] = {
                "type": "object",
                "description": "One change, as a watch streams it.",
                "required": ["type", "object"],
                "properties": {
                    "type": {
                        "type": "string", "default": "", "description": "ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.",
                    },
                    "object": reference(
                        self.fixed(RAW_EXTENSION), description="The object after the change, or a Status."
                    ),
                },
                GVK: [kind_tree(gvk._replace(kind="WatchEvent")) for gvk in versions],
            }  # fmt: skip
        return WATCH_EVENT

    def _list_tree(self, resource: Resource[Any]) -> Tree:
        metadata = reference(self.struct(ListMeta), description="Standard list metadata.", default={})
        items = reference(self.struct(resource.type), default={})
        return {
            "type": "object",
            "description": f"A list of objects of kind {resource.kind}.",
            "required": ["items"],
            "properties": {
                **self._type_meta(),
                "metadata": metadata,
                "items": {"type": "array", "description": "The objects.", "items": items},
            },
        }

    def _type_meta(self) -> Tree:
        own = schema_of(Object).by_name
        return {name: self._property(own[name]) for name in ("kind", "apiVersion")}

    def _struct_tree(self, schema: StructSchema) -> Tree:
        tree: Tree = {"type": "object"}
        if schema.type.__doc__:
            tree["description"] = inspect.cleandoc(schema.type.__doc__)
        if schema.fields:
            tree["properties"] = {item.name: self._property(item) for item in schema.fields}
        required = [item.name for item in schema.fields if item.required]
        if required:
            tree["required"] = required
        kinds = self._kinds.get(schema.type)
        if kinds:
            tree[GVK] = [kind_tree(gvk) for gvk in kinds]
        return tree

    def _property(self, item: FieldSchema) -> Tree:
        doc = item.doc or _type_meta_doc(item)
        siblings: Tree = {"description": doc} if doc else {}
        if isinstance(item.type, StructSchema) and not item.pointer:
            siblings["default"] = {}
        elif isinstance(item.type, ScalarSchema) and item.always and not item.pointer and item.type.kind in _ZEROS:
            siblings["default"] = _ZEROS[item.type.kind]
        siblings |= _extensions(item)
        if item.name == "fieldsV1":
            return reference(self.fixed(FIELDS_V1), **siblings)
        tree = self._type(item.type, siblings)
        if item.enum:
            (tree["items"] if isinstance(item.type, ListSchema) else tree)["enum"] = list(item.enum)
        return tree

    def _type(self, kind: TypeSchema, siblings: Tree) -> Tree:
        if isinstance(kind, StructSchema):
            return reference(self.struct(kind.type), **siblings)
        if isinstance(kind, ListSchema):
            return {"type": "array", "items": self._element(kind.item), **siblings}
        if isinstance(kind, MapSchema):
            return {"type": "object", "additionalProperties": self._element(kind.value), **siblings}
        if kind.type is not None:
            return reference(self._opaque(kind.type), **siblings)
        if kind.kind in _NAMED:
            return reference(self.fixed(_NAMED[kind.kind]), **siblings)
        return {**_INLINE[kind.kind], **siblings}

    def _element(self, kind: TypeSchema) -> Tree:
        """A value in a list or map: never absent, so that it has a default."""
        if isinstance(kind, StructSchema):
            return self._type(kind, {"default": {}})
        if isinstance(kind, ScalarSchema) and kind.kind in _ZEROS:
            return self._type(kind, {"default": _ZEROS[kind.kind]})
        return self._type(kind, {})


def _type_meta_doc(item: FieldSchema) -> str:
    """``kind`` and ``apiVersion`` are described once, on Object."""
    shared = schema_of(Object).by_name.get(item.name) if item.number == 0 else None
    return shared.doc if shared is not None else ""


def _extensions(item: FieldSchema) -> Tree:
    found: Tree = {}
    if item.list_type:
        found["x-kubernetes-list-type"] = item.list_type
    if item.map_keys:
        found["x-kubernetes-list-map-keys"] = list(item.map_keys)
    if item.patch_merge_key:
        found["x-kubernetes-patch-merge-key"] = item.patch_merge_key
    if item.patch_merge_key or item.patch_strategy:
        found["x-kubernetes-patch-strategy"] = item.patch_strategy or "merge"
    if item.atomic:
        found["x-kubernetes-map-type"] = "atomic"
    return found


def kind_tree(gvk: GroupVersionKind) -> dict[str, str]:
    """A kind as the extension writes it."""
    return {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}
