"""What OpenAPI says of a custom kind: the schema of its definition, as clients of either version read it.

Source: apiextensions-apiserver pkg/controller/openapi (builder, v2) and pkg/apiserver/schema/{kubeopenapi,unfold}.go
(Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

Tree = dict[str, Any]

GVK = "x-kubernetes-group-version-kind"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
SELECTABLE = "x-kubernetes-selectable-fields"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
V2_PREFIX, V3_PREFIX = "#/definitions/", "#/components/schemas/"

_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
# The words of Kubernetes: what generates clients compares them.
_TYPE_META = {
    "apiVersion": (
        "APIVersion defines the versioned schema of this representation of an object. Servers should convert "
        "recognized schemas to the latest internal value, and may reject unrecognized values. More info: "
        f"{_CONVENTIONS}#resources"
    ),
    "kind": (
        "Kind is a string value representing the REST resource this object represents. Servers may infer this from the "
        "endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: "
        f"{_CONVENTIONS}#types-kinds"
    ),
}
_EMBEDDED_TYPE_META = {
    "apiVersion": (
        "apiVersion defines the versioned schema of this representation of an object. More info: "
        f"{_CONVENTIONS}#resources"
    ),
    "kind": (
        "kind is a string value representing the type of this object. In CamelCase. More info: "
        f"{_CONVENTIONS}#types-kinds"
    ),
}
_METADATA = f"Standard object's metadata. More info: {_CONVENTIONS}#metadata"
_LIST_METADATA = f"Standard list metadata. More info: {_CONVENTIONS}#types-kinds"

_JUNCTORS = frozenset({"allOf", "anyOf", "oneOf", "not"})
# What a structural schema may not have, and what it has in vain.
_UNPUBLISHED = frozenset({
    "id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions", "example",
})  # fmt: skip
_BELOW = frozenset({"properties", "items", "additionalProperties"})
_NUMBER_OR_TEXT = [{"type": "integer"}, {"type": "string"}]


class PublishedKind(msgspec.Struct, frozen=True):
    """One version of a kind, as it is published.

    Args:
        schema: its ``openAPIV3Schema``; empty where it has none.
        selectable: the paths of its selectable fields.
    """

    group: str
    version: str
    kind: str
    list_kind: str
    plural: str
    schema: Mapping[str, Any]
    selectable: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The name of its schema: ``com.example.demo.v1.Widget``."""
        return self._named(self.kind)

    @property
    def list_name(self) -> str:
        """The name of the schema of its lists."""
        return self._named(self.list_kind)

    def v3(self) -> dict[str, Tree]:
        """Its schemas by name, for OpenAPI 3."""
        tree: Tree = {"type": "object"} if not self.schema else _complete(_v3(self.schema), _reference_v3)
        return {self.name: self._marked(tree), self.list_name: self._list(V3_PREFIX, _reference_v3)}

    def v2(self) -> dict[str, Tree]:
        """Its schemas by name, for OpenAPI 2.

        Of what takes any field nothing is published: kubectl would refuse what is not named.
        """
        if not self.schema or self.schema.get(PRESERVE):
            tree: Tree = {"type": "object"}
        else:
            tree = _complete(_v2(self.schema), _reference_v2)
        return {self.name: self._marked(tree), self.list_name: self._list(V2_PREFIX, _reference_v2)}

    def _named(self, kind: str) -> str:
        return ".".join((*reversed(self.group.split(".")), self.version, kind))

    def _gvk(self, kind: str) -> list[Tree]:
        return [{"group": self.group, "kind": kind, "version": self.version}]

    def _marked(self, tree: Tree) -> Tree:
        tree[GVK] = self._gvk(self.kind)
        if self.selectable:
            tree[SELECTABLE] = [{"fieldPath": path.removeprefix(".")} for path in self.selectable]
        return tree

    def _list(self, prefix: str, reference: _Reference) -> Tree:
        return {
            "type": "object",
            "description": f"{self.list_kind} is a list of {self.kind}",
            "required": ["items"],
            "properties": {
                **_texts(_TYPE_META),
                "items": {
                    "type": "array",
                    "description": f"List of {self.plural}. More info: {_CONVENTIONS}",
                    "items": {"$ref": prefix + self.name},
                },
                "metadata": reference(LIST_META, _LIST_METADATA),
            },
            GVK: self._gvk(self.list_kind),
        }


class _Reference:
    """How a version of OpenAPI refers to a schema, with a description beside it."""

    def __init__(self, prefix: str, *, wrapped: bool) -> None:
        self._prefix = prefix
        self._wrapped = wrapped

    def __call__(self, name: str, description: str) -> Tree:
        found = {"$ref": self._prefix + name}
        return {"description": description, **({"allOf": [found]} if self._wrapped else found)}


# OpenAPI 3 ignores what stands beside a bare reference.
_reference_v2, _reference_v3 = _Reference(V2_PREFIX, wrapped=False), _Reference(V3_PREFIX, wrapped=True)


def _texts(descriptions: Mapping[str, str]) -> Tree:
    return {name: {"description": text, "type": "string"} for name, text in descriptions.items()}


def _complete(tree: Tree, reference: _Reference) -> Tree:
    """The schema of a whole object: with the fields that every object has, which definitions leave out."""
    common = {**_texts(_TYPE_META), "metadata": reference(OBJECT_META, _METADATA)}
    tree["properties"] = tree.get("properties", {}) | common
    return tree


def _embed(tree: Tree, reference: _Reference) -> None:
    common = {**_texts(_EMBEDDED_TYPE_META), "metadata": reference(OBJECT_META, _METADATA)}
    tree["properties"] = tree.get("properties", {}) | common
    required = tree.get("required", [])
    tree["required"] = [*required, *(name for name in ("kind", "apiVersion") if name not in required)]


def _v3(schema: Mapping[str, Any]) -> Tree:
    tree: Tree = {key: value for key, value in schema.items() if key not in _BELOW and key not in _UNPUBLISHED}
    if schema.get("properties"):
        tree["properties"] = {name: _v3(each) for name, each in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        below = schema.get(key)
        if below is not None:
            tree[key] = _v3(below) if isinstance(below, Mapping) else below
    if schema.get(INT_OR_STRING):
        _unfold(tree)
    if schema.get(EMBEDDED):
        _embed(tree, _reference_v3)
    return tree


def _unfold(tree: Tree) -> None:
    """Say in OpenAPI's own words what a number or a text is, unless the definition does."""
    any_of, all_of = tree.get("anyOf"), tree.get("allOf") or []
    if any_of == _NUMBER_OR_TEXT or (all_of and all_of[0].get("anyOf") == _NUMBER_OR_TEXT):
        return
    if any_of:
        tree["allOf"] = [{"anyOf": _NUMBER_OR_TEXT}, *all_of]
    else:
        tree["anyOf"] = _NUMBER_OR_TEXT


def _v2(schema: Mapping[str, Any]) -> Tree:
    dropped = _BELOW | _UNPUBLISHED | _JUNCTORS | {"nullable", "default"}
    tree: Tree = {key: value for key, value in schema.items() if key not in dropped}
    # What may be of several types has none here, and kubectl cannot cope with properties of what has no type.
    loose = schema.get("nullable") or schema.get(PRESERVE) or schema.get(INT_OR_STRING)
    if loose:
        tree.pop("type", None)
    else:
        properties = schema.get("properties") or {}
        if properties:
            tree["properties"] = {name: _v2(each) for name, each in properties.items()}
        if isinstance(schema.get("items"), Mapping):
            tree["items"] = _v2(schema["items"])
        elif tree.get("type") == "array":
            del tree["type"]
        _release(tree, (name for name, each in properties.items() if each.get("nullable")))
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        tree["additionalProperties"] = _v2(additional)
        if additional.get("nullable"):
            tree.pop("required", None)
    elif additional is not None:
        tree["additionalProperties"] = additional
    if schema.get(EMBEDDED) and not schema.get(PRESERVE):
        _embed(tree, _reference_v2)
    return tree


def _release(tree: Tree, names: Iterable[str]) -> None:
    """A value that may be null is not required."""
    free = set(names)
    required = [name for name in tree.get("required", ()) if name not in free]
    if required:
        tree["required"] = required
    else:
        tree.pop("required", None)
