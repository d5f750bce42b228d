"""What is said of the schemas in definitions; the rules of expressions have tests of their own."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.structural.definition import check_schema

TEXT: dict[str, Any] = {"type": "string"}
MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True}
ANY = {"x-kubernetes-preserve-unknown-fields": True}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def listed(**more: Any) -> dict[str, Any]:
    return {"type": "array", "items": TEXT, **more}


def keyed(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": item, **MAP, **more}


def errors(tree: dict[str, Any], *, status: bool = False, old: Any = None, stored: Any = ()) -> list[str]:
    found = check_schema(tree, "F", status_enabled=status, old=old, stored=stored)
    return [str(error) for error in found]


AT_ROOT = [
    (of(), []),
    ({"properties": {}}, ["F.type: Required value: must not be empty at the root"]),
    (ANY, []),
    ({"type": "array", "items": TEXT}, ['F.type: Invalid value: "array": must be object at the root']),
    ({"type": "object", "nullable": True}, ["F.nullable: Forbidden: nullable cannot be true at the root"]),
    (
        {"type": "object", "additionalProperties": TEXT},
        ["F.additionalProperties: Forbidden: must not be used at the root"],
    ),
    (of(metadata=of(name=TEXT, generateName=TEXT)), []),
    (of(metadata={"type": "object"}), []),
    (
        of(metadata=of(name=TEXT, labels={"type": "object"})),
        [
            (
                "F.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
                "metadata is implicitly specified"
            )
        ],
    ),
    (
        of(metadata={**of(name=TEXT), "required": ["name"]}),
        [
            (
                "F.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
                "metadata is implicitly specified"
            )
        ],
    ),
    (of(metadata=TEXT), ['F.properties[metadata].type: Invalid value: "string": must be object']),
    (
        of(kind={"type": "integer"}, apiVersion={"type": "object"}),
        [
            'F.properties[apiVersion].type: Invalid value: "object": must be string',
            'F.properties[kind].type: Invalid value: "integer": must be string',
        ],
    ),
    (
        of(kind={**TEXT, "default": "K"}),
        ["F.properties[kind].default: Forbidden: must not be set in top-level kind"],
    ),
    (
        {**of(a=TEXT), "anyOf": [{"properties": {"b": {"minLength": 1}}}], "not": {"properties": {"a": {"items": {}}}}},
        [
            "F.properties[a].items: Required value: because it is defined in F.not.properties[a].items",
            "F.properties[b]: Required value: because it is defined in F.anyOf[0].properties[b]",
        ],
    ),
    (
        {**of(), "oneOf": [{"properties": {"metadata": {"required": ["name"]}}}]},
        [
            "F.oneOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
            "F.properties[metadata]: Required value: because it is defined in F.oneOf[0].properties[metadata]",
        ],
    ),
    ({"type": "object", "$schema": "x"}, ["F: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"]),
]


@pytest.mark.parametrize(("tree", "expected"), AT_ROOT)
def test_a_schema_of_a_whole_object(tree: dict[str, Any], expected: list[str]) -> None:
    assert errors(tree) == expected


BELOW = [
    ({}, ["S.type: Required value: must not be empty for specified object fields"]),
    (ANY, []),
    ({"type": "array"}, ["S.items: Required value: must be specified"]),
    ({"type": "array", "items": {}}, ["S.items.type: Required value: must not be empty for specified array items"]),
    ({"type": "object", "additionalProperties": True, "properties": {"a": TEXT}}, []),
    (
        {"type": "object", "additionalProperties": False, "properties": {"a": TEXT}},
        ["S.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    ),
    (
        {"type": "object", "additionalProperties": {}},
        ["S.additionalProperties.type: Required value: must not be empty for specified object fields"],
    ),
    # below junctors
    (
        {**TEXT, "anyOf": [{"type": "string"}, {"description": "x", "default": 1}]},
        [
            "S.anyOf[0].type: Forbidden: must be empty to be structural",
            "S.anyOf[1].default: Forbidden: must be undefined to be structural",
            "S.anyOf[1].description: Forbidden: must be empty to be structural",
        ],
    ),
    (
        {**of(a=TEXT), "not": {"properties": {"a": {"nullable": True, "allOf": [{"title": "x", **ANY}]}}}},
        [
            "S.not.properties[a].allOf[0].title: Forbidden: must be empty to be structural",
            ("S.not.properties[a].allOf[0].x-kubernetes-preserve-unknown-fields: Forbidden: must be false to be "
            "structural"),
            "S.not.properties[a].nullable: Forbidden: must be false to be structural",
        ],
    ),
    (
        {**of(), "allOf": [{"additionalProperties": False}, {"x-kubernetes-validations": [{"rule": "true"}]}]},
        [
            "S.allOf[0].additionalProperties: Forbidden: must be undefined to be structural",
            "S.allOf[1].x-kubernetes-validations: Forbidden: must be empty to be structural",
        ],
    ),
    # what junctors of deeper nodes speak of need not be declared
    ({**of(), "anyOf": [{"properties": {"b": {"minLength": 1}}}]}, []),
    # int-or-string
    ({"x-kubernetes-int-or-string": True}, []),
    ({"x-kubernetes-int-or-string": True, "type": "string"}, []),
    ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, []),
    (
        {
            "x-kubernetes-int-or-string": True,
            "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"maxLength": 3}],
        },
        [],
    ),
    (
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "string"}, {"type": "integer"}]},
        [
            "S.anyOf[0].type: Forbidden: must be empty to be structural",
            "S.anyOf[1].type: Forbidden: must be empty to be structural",
        ],
    ),
    (
        {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}] * 2},
        [
            "S.allOf[1].anyOf[0].type: Forbidden: must be empty to be structural",
            "S.allOf[1].anyOf[1].type: Forbidden: must be empty to be structural",
        ],
    ),
    (
        {"x-kubernetes-int-or-string": True, **ANY},
        [
            ("S.x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if "
            "x-kubernetes-int-or-string is true")
        ],
    ),
    # embedded objects
    ({**EMBEDDED, **ANY}, []),
    ({**EMBEDDED, "properties": {"metadata": {"type": "object"}}}, []),
    (
        {"x-kubernetes-embedded-resource": True, **ANY},
        ["S.type: Required value: must be object if x-kubernetes-embedded-resource is true"],
    ),
    (
        {**EMBEDDED, **ANY, "additionalProperties": True},
        ["S.additionalProperties: Forbidden: must not be used if x-kubernetes-embedded-resource is set"],
    ),
    (
        EMBEDDED,
        [
            ("S.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields")
        ],
    ),
    (
        {**EMBEDDED, "properties": {"metadata": of(x={**EMBEDDED, **ANY})}},
        [
            ("S.properties[metadata].properties[x].x-kubernetes-embedded-resource: Forbidden: must not be used inside "
            "of resource meta")
        ],
    ),
    (
        {**EMBEDDED, "properties": {"metadata": of(labels={
            "type": "object", "additionalProperties": {**TEXT, "default": "x"}})}},
        [
            ("S.properties[metadata].properties[labels].additionalProperties.default: Forbidden: must not be set "
            "inside additionalProperties applying to object metadata")
        ],
    ),
    # types and keys that OpenAPI has and Kubernetes has not
    (
        {"type": "text"},
        [
            ('S.type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", '
            '"string"')
        ],
    ),
    (
        {"type": "null"},
        [
            ('S.type: Unsupported value: "null": supported values: "array", "boolean", "integer", "number", "object", '
            '"string"'),
            "S.type: Forbidden: type cannot be set to null, use nullable as an alternative",
        ],
    ),
    *(
        ({**TEXT, key: value}, [f"S.{key}: Forbidden: {key} is not supported"])
        for key, value in {
            "id": "x", "$ref": "x", "patternProperties": {"a": TEXT}, "definitions": {"a": TEXT},
            "dependencies": {"a": ["b"]}, "additionalItems": False,
        }.items()
    ),
    (
        {"type": "array", "items": [TEXT]},
        ["S.items: Forbidden: items must be a schema object and not an array"],
    ),
    (
        listed(uniqueItems=True),
        ["S.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"],
    ),
    (
        {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
        ["S.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
    ),
    (
        {**TEXT, "pattern": "(a"},
        [
            ('S.pattern: Invalid value: "(a": must be a valid regular expression, but isn\'t: error parsing regexp: '
            "missing closing ): `(a`")
        ],
    ),
    # lists and maps
    (listed(**{"x-kubernetes-list-type": "set"}), []),
    (
        {**TEXT, "x-kubernetes-list-type": "set", "x-kubernetes-map-type": "atomic"},
        [
            'S.type: Invalid value: "string": must be object if x-kubernetes-map-type is specified',
            'S.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified',
        ],
    ),
    (
        {**ANY, "x-kubernetes-list-type": "atomic"},
        ["S.type: Required value: must be array if x-kubernetes-list-type is specified"],
    ),
    (
        {"type": "object", "x-kubernetes-map-type": "x"},
        ['S.x-kubernetes-map-type: Unsupported value: "x": supported values: "atomic", "granular"'],
    ),
    (
        listed(**{"x-kubernetes-list-type": "bag"}),
        ['S.x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map"'],
    ),
    (
        listed(**{"x-kubernetes-list-map-keys": ["k"]}),
        ["S.x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty"],
    ),
    (
        listed(**{"x-kubernetes-list-type": "set", "x-kubernetes-list-map-keys": ["k"]}),
        [
            'S.x-kubernetes-list-type: Invalid value: "set": must be map if x-kubernetes-list-map-keys is non-empty'
        ],
    ),
    (
        {"type": "array", "items": of(), "x-kubernetes-list-type": "map"},
        ["S.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"],
    ),
    (
        {"type": "array", **MAP},
        [
            "S.items: Required value: must be specified",
            "S.items: Required value: must have a schema if x-kubernetes-list-type is map",
        ],
    ),
    (
        keyed(TEXT),
        ["S.items.type: Invalid value: \"string\": must be object if parent array's x-kubernetes-list-type is map"],
    ),
    (keyed({**of(k=TEXT), "required": ["k"]}), []),
    (keyed(of(k={**TEXT, "default": "x"})), []),
    (
        keyed({**of(k=of()), "required": ["k"]}),
        [
            ('S.items.properties[k].type: Invalid value: "object": must be a scalar type if parent array\'s '
            "x-kubernetes-list-type is map")
        ],
    ),
    (
        keyed({**of(k=TEXT), "required": ["k"]}, **{"x-kubernetes-list-map-keys": ["k", "z", "k"]}),
        [
            'S.x-kubernetes-list-map-keys: Invalid value: ["k","z","k"]: entries must all be names of item properties',
            'S.x-kubernetes-list-map-keys: Invalid value: ["k","z","k"]: must not contain duplicate entries',
        ],
    ),
    (
        keyed({**of(k={**TEXT, "nullable": True}), "nullable": True}),
        [
            "S.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is map",
            ("S.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it "
            "must have a default or be a required property"),
            ("S.items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it "
            "cannot be nullable"),
        ],
    ),
    (
        {"type": "array", "items": of(), "x-kubernetes-list-type": "set"},
        [
            ("S.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with "
            "x-kubernetes-list-type=set")
        ],
    ),
    (
        {
            "type": "array", "items": listed(**{"x-kubernetes-list-type": "set"}), "x-kubernetes-list-type": "set",
        },
        [
            ('S.items.x-kubernetes-list-type: Invalid value: "set": must be atomic as item of a list with '
            "x-kubernetes-list-type=set")
        ],
    ),
    ({"type": "array", "items": listed(), "x-kubernetes-list-type": "set"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "expected"), BELOW)
def test_a_schema_of_a_field(tree: dict[str, Any], expected: list[str]) -> None:
    assert errors(of(s=tree)) == [text.replace("S", "F.properties[s]", 1) for text in expected]


def test_structural_errors_are_sorted_and_come_first() -> None:
    tree = of(b={"id": ""}, a={"type": "array", "uniqueItems": True})
    assert errors(tree) == [
        "F.properties[a].items: Required value: must be specified",
        "F.properties[b].type: Required value: must not be empty for specified object fields",
        (
            "F.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity "
            "becomes quadratic"
        ),
    ]


def test_rules_are_compiled_where_everything_else_is_right() -> None:
    ruled = {**of(), "x-kubernetes-validations": [{"rule": "1"}]}
    (error,) = errors(of(a=ruled, b=listed(uniqueItems=True)))[1:]
    assert error.endswith("cel expression must evaluate to a bool")
    assert len(errors(of(a=ruled, b={"type": "array"}))) == 1


# ------------------------------------------------------------------ with a status subresource


def test_the_status_has_to_be_taken_out_of_the_root() -> None:
    (error,) = errors({**of(), "minProperties": 1, "maxProperties": 2}, status=True)
    assert error.startswith('F: Invalid value: {"ID":"","Schema":"","Ref":null,"Description":"","Type":"object",')
    assert error.endswith(
        "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength "
        "Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example "
        "XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource "
        "is enabled"
    )
    assert errors({**of(), "minProperties": 1}) == []
    assert errors({**of(), "required": ["spec"], "description": "x"}, status=True) == []


def test_the_root_is_an_object_where_there_is_a_status() -> None:
    assert errors({"type": "array", "items": TEXT}, status=True)[0] == (
        'F.type: Invalid value: "array": only "object" is allowed as the type at the root of the schema if the status '
        "subresource is enabled"
    )


# ------------------------------------------------------------------ what is stored

LATER_RULES = [
    {"type": "text"},
    {"type": "array", "items": of(), "x-kubernetes-list-type": "set"},
    keyed(of(k=TEXT)),
    {**of(), "default": {"x": 1}},
]


@pytest.mark.parametrize("wrong", LATER_RULES)
def test_what_a_stored_schema_violates_is_not_asked_of_a_new_one(wrong: dict[str, Any]) -> None:
    new = of(a=wrong, b=TEXT)
    assert len(errors(new)) == 1
    assert errors(new, old=of(a=wrong)) == []
    assert errors(new, stored=[of(c=wrong)]) == []
    others = [each for each in LATER_RULES if each is not wrong]
    assert len(errors(new, stored=[of(a=each) for each in others])) == 1
