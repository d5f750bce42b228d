"""From a declared struct to the CustomResourceDefinition that serves it, on any cluster.

What a schema cannot say of an object is said by a condition of its status: there is no code of ours in a kube-apiserver
that these definitions are applied to.

    InvalidObject    a document is no object of the kind; the text says where, and what was expected
"""

from __future__ import annotations

import copy
import inspect
from functools import cache
from typing import Any

import msgspec

from kubevouch.api.apiextensions_v1.definitions import (
    CLUSTER,
    NAMESPACED,
    CustomResourceColumnDefinition,
    CustomResourceDefinition,
    CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion,
    CustomResourceSubresources,
    CustomResourceSubresourceStatus,
    CustomResourceValidation,
    SelectableField,
)
from kubevouch.api.apiextensions_v1.schema_props import JSONSchemaProps
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.field import aggregate
from kubevouch.machinery.meta import ObjectMeta
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
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.gotext import quote
from kubevouch.structural.rules import UNCHECKED
from kubevouch.structural.version import CompiledVersion

Tree = dict[str, Any]

# Every object has them, and the API server describes them itself (structural schemas, "metadata").
_GENERIC: Tree = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}
_SCALARS: dict[ScalarKind, Tree] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "intorstring": {"x-kubernetes-int-or-string": True},
    "json": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}


class InvalidObject(ValueError):
    """A document is no object of the kind."""


class Column(msgspec.Struct, frozen=True):
    """One column of ``kubectl get``: its head, where its value is, and that value's type in OpenAPI.

    Args:
        wide: shown by ``-o wide`` only.
    """

    name: str
    path: str
    type: str = "string"
    wide: bool = False


AGE = Column("Age", ".metadata.creationTimestamp", "date")


class OwnKind(msgspec.Struct, frozen=True):
    """A kind of ours, with what its struct does not say."""

    resource: Resource[Any]
    columns: tuple[Column, ...] = (AGE,)
    selectable: tuple[str, ...] = ()
    categories: tuple[str, ...] = ("kubevouch",)

    @property
    def definition_name(self) -> str:
        return str(self.resource.group_resource)


def definition_of(kind: OwnKind) -> CustomResourceDefinition:
    """The definition that serves ``kind``; its ``/status`` is a subresource where its struct has one."""
    resource = kind.resource
    tree = _object_tree(resource)
    status = CustomResourceSubresourceStatus() if "status" in tree["properties"] else None
    version = CustomResourceDefinitionVersion(
        name=resource.version,
        served=True,
        storage=True,
        schema=CustomResourceValidation(open_api_v3_schema=JSONSchemaProps(tree)),
        subresources=None if status is None else CustomResourceSubresources(status=status),
        additional_printer_columns=[
            CustomResourceColumnDefinition(name=each.name, type=each.type, json_path=each.path, priority=int(each.wide))
            for each in kind.columns
        ],
        selectable_fields=[SelectableField(json_path=path) for path in kind.selectable],
    )
    return CustomResourceDefinition(
        metadata=ObjectMeta(name=kind.definition_name),
        spec=CustomResourceDefinitionSpec(
            group=resource.group,
            names=CustomResourceDefinitionNames(
                plural=resource.plural,
                singular=resource.singular,
                kind=resource.kind,
                list_kind=resource.list_kind,
                short_names=list(resource.short_names),
                categories=list(kind.categories),
            ),
            scope=NAMESPACED if resource.namespaced else CLUSTER,
            versions=[version],
        ),
    )


def serves_as_well(found: CustomResourceDefinition, wanted: CustomResourceDefinition) -> bool:
    """Whether a definition keeps all that ``wanted`` would keep; that of a later version may have more."""
    (version,) = wanted.spec.versions
    theirs = next((each for each in found.spec.versions if each.name == version.name), None)
    if theirs is None or not theirs.served or not theirs.storage or theirs.subresources != version.subresources:
        return False
    conversion = found.spec.conversion
    if conversion is not None and conversion.strategy != "None":
        return False
    schema, needed = theirs.schema, version.schema
    if schema is None or schema.open_api_v3_schema is None or needed is None or needed.open_api_v3_schema is None:
        return False
    return _covers(schema.open_api_v3_schema.tree, needed.open_api_v3_schema.tree)


def _covers(theirs: Any, ours: Tree) -> bool:
    """Whether no field of ours is pruned by their schema, and none is free of rules that has some."""
    if not isinstance(theirs, dict) or (
        ours.get("x-kubernetes-validations") and not theirs.get("x-kubernetes-validations")
    ):
        return False
    properties = theirs.get("properties") or {}
    inner = [(properties.get(name), tree) for name, tree in (ours.get("properties") or {}).items()]
    inner += [
        (theirs.get(word), ours[word]) for word in ("items", "additionalProperties") if isinstance(ours.get(word), dict)
    ]
    return all(_covers(*each) for each in inner)


# As many as there are kinds of ours.
@cache
def _compiled(kind: OwnKind) -> CompiledVersion:
    return CompiledVersion(_object_tree(kind.resource))


def read_object(kind: OwnKind, tree: Any) -> Any:
    """The object in a document that no API server has looked at, held to the schema that one would hold it to.

    Args:
        tree: the document in builtins.

    Returns:
        An object of the kind's struct, with the schema's defaults.

    Raises:
        InvalidObject: another kind, unknown fields, or what the schema refuses.
    """
    resource = kind.resource
    if not isinstance(tree, dict):
        raise InvalidObject(f"got {json_codec.go_kind(tree)}, expected {resource.api_version} {resource.kind}")
    found = f"{tree.get('apiVersion', '')} {tree.get('kind', '')}".strip()
    if found != f"{resource.api_version} {resource.kind}":
        raise InvalidObject(f"got {found or 'no kind'}, expected {resource.api_version} {resource.kind}")
    cleaned = copy.deepcopy(tree)
    try:
        unknown = _compiled(kind).clean(cleaned)
        errors = [error for error in _compiled(kind).validate(cleaned, None).errors if error is not UNCHECKED]
        if unknown:
            raise InvalidObject(", ".join(f"unknown field {quote(path)}" for path in unknown))
        if errors:
            raise InvalidObject(aggregate(errors))
        return json_codec.from_tree(cleaned, resource.type).value
    except json_codec.UnmarshalError as err:
        raise InvalidObject(str(err)) from err


def _object_tree(resource: Resource[Any]) -> Tree:
    tree = schema_tree(schema_of(resource.type))
    tree["properties"] |= _GENERIC
    return tree


def schema_tree(struct: StructSchema) -> Tree:
    """The structural schema of a struct as a JSON tree.

    Raises:
        TypeError: a field has a type that custom resources cannot have.
    """
    tree: Tree = {"type": "object"}
    if struct.type.__doc__:
        tree["description"] = inspect.cleandoc(struct.type.__doc__)
    tree["properties"] = {field.name: _property(field) for field in struct.fields}
    required = [field.name for field in struct.fields if field.required]
    if required:
        tree["required"] = required
    return tree


def _property(field: FieldSchema) -> Tree:
    tree = _type_tree(field.type, field.name)
    if field.doc:
        tree["description"] = field.doc
    if field.enum:
        # Those of a list are its items'.
        (tree["items"] if isinstance(field.type, ListSchema) else tree)["enum"] = list(field.enum)
    if field.list_type:
        tree["x-kubernetes-list-type"] = field.list_type
    if field.map_keys:
        tree["x-kubernetes-list-map-keys"] = list(field.map_keys)
    if field.atomic:
        tree["x-kubernetes-map-type"] = "atomic"
    return {**tree, **field.schema}


def _type_tree(of: TypeSchema, name: str) -> Tree:
    if isinstance(of, StructSchema):
        return schema_tree(of)
    if isinstance(of, ListSchema):
        return {"type": "array", "items": _type_tree(of.item, name)}
    if isinstance(of, MapSchema):
        return {"type": "object", "additionalProperties": _type_tree(of.value, name)}
    found = _SCALARS.get(of.kind) if isinstance(of, ScalarSchema) else None
    if found is None:
        raise TypeError(f"{name}: custom resources have nothing of this type")
    return dict(found)
