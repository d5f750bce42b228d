from __future__ import annotations

import json

from kubevouch.machinery import field
from kubevouch.structural import go_form


def printed(value: object) -> str:
    return field.invalid("f", value, "x").body.removeprefix("Invalid value: ").removesuffix(": x")


def test_all_fields_stand_in_go_order() -> None:
    found = json.loads(printed(go_form.go_schema({"type": "object", "pattern": "<"})))
    assert list(found)[:6] == ["ID", "Schema", "Ref", "Description", "Type", "Nullable"]
    assert list(found)[-2:] == ["XMapType", "XValidations"]
    assert (found["Required"], found["XEmbeddedResource"], found["Title"]) == (None, False, "")


def test_what_is_nested_has_go_names_too() -> None:
    tree = {
        "properties": {"b": {"type": "string"}, "a": {}},
        "additionalProperties": False,
        "items": {"type": "string"},
        "dependencies": {"x": ["y"]},
        "externalDocs": {"url": "u"},
        "x-kubernetes-validations": [{"rule": "a < b"}],
        "enum": [{"b": 1, "a": [2]}],
        "not": {},
        "maximum": 3.0,
        "minimum": 0.5,
    }
    assert rb"a \u003c b" in bytes(go_form.go_schema(tree))
    whole = go_form.go_schema_tree(tree)
    assert list(whole["Properties"]) == ["a", "b"]
    assert whole["AdditionalProperties"] == {"Allows": False, "Schema": None}
    assert whole["Items"]["Schema"]["Type"] == "string"
    assert whole["Dependencies"] == {"x": {"Schema": None, "Property": ["y"]}}
    assert whole["ExternalDocs"] == {"Description": "", "URL": "u"}
    assert whole["XValidations"][0]["Rule"] == "a < b"
    assert json.dumps(whole["Enum"]) == '[{"a": [2], "b": 1}]'
    assert (json.dumps(whole["Maximum"]), whole["Minimum"]) == ("3", 0.5)
