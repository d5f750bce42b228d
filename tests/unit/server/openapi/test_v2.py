"""server/openapi/v2.py: the document of version 2."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.machinery.codec import gojson, json_codec
from kubevouch.server.openapi import v2, v3
from unit.server.openapi.everything import VERSION, everything_served
from unit.server.openapi.rules import broken_rules

Tree = dict[str, Any]

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@pytest.fixture(scope="module")
def documents() -> v3.Documents:
    return v3.build(everything_served(), VERSION)


@pytest.fixture(scope="module")
def document(documents: v3.Documents) -> Tree:
    return v2.build(documents)


def test_it_keeps_the_rules(document: Tree) -> None:
    assert broken_rules(document) == []


def test_the_rules_find_faults(document: Tree) -> None:
    body = {"name": "body", "in": "body", "schema": {"$ref": "#/definitions/gone"}}
    path = {"name": "name", "in": "path", "type": "object"}
    operation = {"operationId": "x", "parameters": [body, body, path], "responses": {"2": {}}}
    faulty = document | {"definitions": {}, "paths": {"/{other}": {"get": operation}}, "swagger": "3"}
    assert broken_rules(faulty) == [
        "swagger: 3",
        "$ref leads nowhere: #/definitions/gone",
        "$ref leads nowhere: #/definitions/gone",
        "get /{other}: no response for success",
        "get /{other}: response 2",
        "get /{other}: more than one body",
        "get /{other}: a body without consumes, or the other way round",
        "get /{other}: name has type object",
        "get /{other}: parameters ['name']",
        "get /{other}: a path parameter is not required",
        "get /{other}: parameter body twice",
    ]


def test_it_holds_everything(documents: v3.Documents, document: Tree) -> None:
    assert set(document["paths"]) == set(documents.paths)
    assert set(document["definitions"]) == set(documents.schemas)
    for path, item in documents.paths.items():
        assert set(document["paths"][path]) == set(item)


def test_schemas_in_the_older_words() -> None:
    newer = {
        "type": "object",
        "properties": {
            "default": {"type": "string", "default": ""},
            "part": {
                "allOf": [{"$ref": "#/components/schemas/Part"}], "description": "A part.", "default": {},
                "x-kubernetes-map-type": "atomic",
            },
            "parts": {"type": "array", "items": {"allOf": [{"$ref": "#/components/schemas/Part"}], "default": {}}},
            "named": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Part"}},
        },
    }  # fmt: skip
    assert v2.schema(newer) == {
        "type": "object",
        "properties": {
            "default": {"type": "string"},
            "part": {"$ref": "#/definitions/Part", "description": "A part.", "x-kubernetes-map-type": "atomic"},
            "parts": {"type": "array", "items": {"$ref": "#/definitions/Part"}},
            "named": {"type": "object", "additionalProperties": {"$ref": "#/definitions/Part"}},
        },
    }


def test_nothing_of_the_newer_form_is_left(document: Tree) -> None:
    text = json_codec.encode(document).decode()
    # A field may be called default or allOf, and then has a schema.
    for word in ("components", '"allOf":[', "requestBody", 'content"', '"default":{}', '"default":"', '"default":0'):
        assert word not in text


def test_an_operation(document: Tree) -> None:
    patch = document["paths"][f"{CSRS}/{{name}}"]["patch"]
    assert patch["parameters"][0] == {
        "name": "body", "in": "body", "required": True,
        "schema": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"},
    }  # fmt: skip
    validation = next(p for p in patch["parameters"] if p["name"] == "fieldValidation")
    assert (validation["in"], validation["type"]) == ("query", "string")
    assert "application/strategic-merge-patch+json" in patch["consumes"]
    assert patch["produces"] == ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
    assert patch["schemes"] == ["https"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "CertificateSigningRequest"
    listing = document["paths"][CSRS]["get"]
    assert listing["responses"]["200"]["schema"]["$ref"].endswith("CertificateSigningRequestList")
    assert "application/json;stream=watch" in listing["produces"]
    assert "consumes" not in listing


def test_the_newer_documents_are_left_alone(documents: v3.Documents) -> None:
    before = json_codec.encode(documents.paths)
    v2.build(documents)
    assert json_codec.encode(documents.paths) == before
    assert gojson.loads(before)
