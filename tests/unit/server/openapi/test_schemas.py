"""server/openapi/schemas.py: what a declaration says, in the words of OpenAPI."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import pytest

from kubevouch.api import catalog
from kubevouch.api.apiextensions_v1.definitions import CustomResourceValidation
from kubevouch.api.apiextensions_v1.schema_fields import FIELDS
from kubevouch.machinery.declaration import (
    ExtraValue,
    Int32,
    Int64,
    Quantity,
    RawJSON,
    Struct,
    always,
    named,
    null,
    wire,
)
from kubevouch.machinery.meta import DeleteOptions, ManagedFieldsEntry, Object, Status
from kubevouch.machinery.scheme import GroupVersionKind, Resource, Scheme
from kubevouch.machinery.text.times import MicroTime, Time
from kubevouch.server.openapi import schemas
from kubevouch.server.openapi.schemas import Schemas, Tree, reference

META = "io.k8s.apimachinery.pkg.apis.meta.v1"


class Part(Struct):
    """A part of something."""

    name: Annotated[str, wire(1, "What it is called.", required=True)] = always(str)


class Thing(Object):
    """Something with a field of every form.

    And a second paragraph.
    """

    text: Annotated[str, wire(2, "Some text.")] = ""
    word: Annotated[str, wire(3, enum=("A", "B"), required=True)] = always(str)
    flag: Annotated[bool, wire(4)] = always(bool)
    small: Annotated[Int32 | None, wire(5)] = None
    large: Annotated[Int64, wire(6)] = always(int)
    secret: Annotated[bytes | None, wire(7)] = null()
    moment: Annotated[Time | None, wire(8, "When.")] = null()
    instant: Annotated[MicroTime | None, wire(9)] = None
    amounts: Annotated[dict[str, Quantity], wire(10)] = {}
    anything: Annotated[RawJSON | None, wire(11)] = None
    part: Annotated[Part, wire(12, "The part.", atomic=True)] = always(Part)
    maybe: Annotated[Part | None, wire(13)] = None
    parts: Annotated[list[Part], wire(14, list_type="map", map_keys=("name",), patch_merge_key="name")] = []
    marks: Annotated[list[str], wire(15, list_type="set", patch_strategy="merge", enum=("X",))] = []
    labels: Annotated[dict[str, str], wire(16, atomic=True)] = {}
    extra: Annotated[dict[str, ExtraValue], wire(17)] = {}
    id: Annotated[str, wire(18)] = named("ID")


class Empty(Struct):
    pass


THINGS = Resource("example.com", "v1", "Thing", "things", Thing, namespaced=True)
PREFIX = "com.example.v1"


@pytest.fixture
def made() -> Schemas:
    return Schemas(Scheme.of([THINGS]))


@pytest.fixture
def thing(made: Schemas) -> Tree:
    tree = made.trees[made.struct(Thing)]
    assert tree["type"] == "object"
    return tree


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("text", {"type": "string", "description": "Some text."}),
        ("word", {"type": "string", "default": "", "enum": ["A", "B"]}),
        ("flag", {"type": "boolean", "default": False}),
        ("small", {"type": "integer", "format": "int32"}),
        ("large", {"type": "integer", "format": "int64", "default": 0}),
        ("secret", {"type": "string", "format": "byte"}),
        ("moment", {"allOf": [ref(f"{META}.Time")], "description": "When."}),
        ("instant", ref(f"{META}.MicroTime")),
        (
            "amounts",
            {"type": "object", "additionalProperties": ref("io.k8s.apimachinery.pkg.api.resource.Quantity")},
        ),
        ("anything", ref("io.k8s.apimachinery.pkg.runtime.RawExtension")),
        (
            "part",
            {
                "allOf": [ref(f"{PREFIX}.Part")], "description": "The part.", "default": {},
                "x-kubernetes-map-type": "atomic",
            },
        ),
        ("maybe", ref(f"{PREFIX}.Part")),
        (
            "parts",
            {
                "type": "array", "items": {"allOf": [ref(f"{PREFIX}.Part")], "default": {}},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge",
            },
        ),
        (
            "marks",
            {
                "type": "array", "items": {"type": "string", "default": "", "enum": ["X"]},
                "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge",
            },
        ),
        (
            "labels",
            {
                "type": "object", "additionalProperties": {"type": "string", "default": ""},
                "x-kubernetes-map-type": "atomic",
            },
        ),
        (
            "extra",
            {
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"type": "string", "default": ""}},
            },
        ),
        ("ID", {"type": "string"}),
    ],
)  # fmt: skip
def test_fields(thing: Tree, name: str, expected: Tree) -> None:
    assert thing["properties"][name] == expected


def test_a_kind(thing: Tree) -> None:
    assert thing["description"] == "Something with a field of every form.\n\nAnd a second paragraph."
    assert thing["required"] == ["word"]
    assert thing[schemas.GVK] == [{"group": "example.com", "version": "v1", "kind": "Thing"}]
    assert thing["properties"]["kind"]["type"] == "string"


def test_a_struct_that_is_no_kind(made: Schemas, thing: Tree) -> None:
    assert thing["properties"]["maybe"] == ref(f"{PREFIX}.Part")
    assert made.trees[f"{PREFIX}.Part"] == {
        "type": "object",
        "description": "A part of something.",
        "required": ["name"],
        "properties": {"name": {"type": "string", "description": "What it is called.", "default": ""}},
    }


def test_a_struct_without_fields_and_description(made: Schemas) -> None:
    assert made.trees[made.struct(Empty)] == {"type": "object"}


def test_fields_of_managed_fields_are_a_type_of_their_own(made: Schemas) -> None:
    entry = made.trees[made.struct(ManagedFieldsEntry)]
    assert entry["properties"]["fieldsV1"]["allOf"] == [ref(f"{META}.FieldsV1")]
    assert made.trees[f"{META}.FieldsV1"]["type"] == "object"


def test_kind_and_version_are_described_where_the_declaration_does_not(made: Schemas) -> None:
    own, inherited = made.trees[made.struct(Status)], made.trees[made.struct(Thing)]
    for name in ("kind", "apiVersion"):
        assert own["properties"][name]["description"]
        assert own["properties"][name] == inherited["properties"][name]


def test_a_list(made: Schemas) -> None:
    tree = made.trees[made.list_of(THINGS)]
    assert made.list_of(THINGS) == f"{PREFIX}.ThingList"
    assert tree["required"] == ["items"]
    assert tree["properties"]["items"]["items"] == {"allOf": [ref(f"{PREFIX}.Thing")], "default": {}}
    assert tree["properties"]["metadata"]["allOf"] == [ref(f"{META}.ListMeta")]
    assert set(tree["properties"]) == {"kind", "apiVersion", "metadata", "items"}
    assert tree[schemas.GVK] == [{"group": "example.com", "version": "v1", "kind": "ThingList"}]


def test_versions_that_share_a_struct_share_its_list() -> None:
    older = dataclasses.replace(THINGS, version="v1beta1")
    made = Schemas(Scheme.of([THINGS, older]))
    assert made.list_of(THINGS) == made.list_of(older) == made.list_of(THINGS)
    assert [kind["version"] for kind in made.trees[made.list_of(THINGS)][schemas.GVK]] == ["v1", "v1beta1"]


def test_what_clients_send_in_any_version_lists_them_all() -> None:
    made = Schemas(catalog.SCHEME)
    options = made.trees[made.struct(DeleteOptions)][schemas.GVK]
    events = made.trees[made.fixed(schemas.WATCH_EVENT)][schemas.GVK]
    assert {"group": "", "version": "v1", "kind": "DeleteOptions"} in options
    assert {"group": "certificates.k8s.io", "version": "v1beta1", "kind": "DeleteOptions"} in options
    assert [kind | {"kind": "DeleteOptions"} for kind in events] == options


def test_two_structs_of_one_name_are_refused(made: Schemas) -> None:
    other = type("Thing", (Struct,), {"__module__": __name__, "__annotations__": {}})
    made.struct(Thing)
    with pytest.raises(ValueError, match=r"two schemas are called com\.example\.v1\.Thing"):
        made.struct(other)


def test_reachable_follows_references_and_ends(made: Schemas) -> None:
    made.struct(Thing)
    made.struct(Status)
    found = made.reachable({"schema": ref(f"{PREFIX}.Thing")})
    assert {f"{PREFIX}.Thing", f"{PREFIX}.Part", f"{META}.OwnerReference", f"{META}.Time"} <= set(found)
    assert f"{META}.Status" not in found


def test_kind_tree() -> None:
    gvk = GroupVersionKind("", "v1", "Pod")
    assert schemas.kind_tree(gvk) == {"group": "", "version": "v1", "kind": "Pod"}


def test_schemas_inside_definitions_are_described() -> None:
    made = Schemas(catalog.SCHEME)
    name = made.struct(CustomResourceValidation)
    package = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
    assert name == f"{package}.CustomResourceValidation"
    held = made.trees[name]["properties"]["openAPIV3Schema"]
    assert held["allOf"] == [reference(f"{package}.JSONSchemaProps")]
    properties = made.trees[f"{package}.JSONSchemaProps"]["properties"]
    assert list(properties) == list(FIELDS)
    assert all(each["description"] for each in properties.values())
    assert properties["properties"]["additionalProperties"]["allOf"] == held["allOf"]
    assert properties["x-kubernetes-validations"]["items"]["allOf"] == [reference(f"{package}.ValidationRule")]
    # One of its fields is called as references are.
    assert properties["$ref"]["type"] == "string"
    wanted = {f"{package}.{each}" for each in ("JSON", "JSONSchemaProps", "JSONSchemaPropsOrBool", "ValidationRule")}
    assert wanted <= set(made.reachable(made.trees[name]))
