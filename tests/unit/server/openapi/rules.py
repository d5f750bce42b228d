"""What OpenAPI 3.0 and 2.0 demand of a document, as far as these documents use it; each rule is one line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

Tree = dict[str, Any]

_TYPES = {"string", "integer", "number", "boolean", "array", "object"}
_SCHEMA_KEYS = {
    "$ref", "allOf", "type", "format", "description", "default", "properties", "required", "items", "enum",
    "additionalProperties", "title", "externalDocs", "pattern", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
    "maxProperties",
}  # fmt: skip
_METHODS = {"get", "put", "post", "delete", "head", "patch"}
_OPERATION_KEYS_V3 = {"tags", "description", "operationId", "parameters", "requestBody", "responses", "deprecated"}
_OPERATION_KEYS_V2 = {
    "tags", "description", "operationId", "parameters", "responses", "deprecated", "consumes", "produces", "schemes",
}  # fmt: skip
_PLACEHOLDER = re.compile(r"\{([^}]*)\}")


def broken_rules(document: Tree) -> list[str]:
    """Every rule that the document breaks, with the place."""
    return list(_v3(document) if "openapi" in document else _v2(document))


def _v3(document: Tree) -> Iterator[str]:
    yield from _keys("document", document, {"openapi", "info", "paths", "components", "security"})
    if not re.fullmatch(r"3\.0\.\d", document["openapi"]):
        yield f"openapi: {document['openapi']}"
    schemas = document["components"]["schemas"]
    yield from _info(document)
    yield from _security(document, document["components"].get("securitySchemes", {}))
    yield from _references(document, "#/components/schemas/", schemas)
    for name, schema in schemas.items():
        yield from _schema(name, schema, siblings_of_references=False)
    for path, method, operation in _operations(document):
        where = f"{method} {path}"
        yield from _operation(where, operation, _OPERATION_KEYS_V3)
        if "requestBody" in operation:
            yield from _content(f"{where} body", operation["requestBody"]["content"])
        for code, response in operation["responses"].items():
            if "content" in response:
                yield from _content(f"{where} {code}", response["content"])
        for parameter in _parameters(document, path, operation):
            yield from _keys(where, parameter, {"name", "in", "description", "required", "schema"})
            yield from _schema(f"{where} {parameter['name']}", parameter["schema"], siblings_of_references=False)
        yield from _placeholders(where, path, _parameters(document, path, operation))
    yield from _unique_ids(document)


def _v2(document: Tree) -> Iterator[str]:
    yield from _keys(
        "document", document, {"swagger", "info", "paths", "definitions", "security", "securityDefinitions"}
    )
    if document["swagger"] != "2.0":
        yield f"swagger: {document['swagger']}"
    yield from _info(document)
    yield from _security(document, document["securityDefinitions"])
    yield from _references(document, "#/definitions/", document["definitions"])
    for name, schema in document["definitions"].items():
        yield from _schema(name, schema, siblings_of_references=True)
    for path, method, operation in _operations(document):
        where = f"{method} {path}"
        yield from _operation(where, operation, _OPERATION_KEYS_V2)
        parameters = _parameters(document, path, operation)
        bodies = [parameter for parameter in parameters if parameter["in"] == "body"]
        if len(bodies) > 1:
            yield f"{where}: more than one body"
        if bool(bodies) != ("consumes" in operation):
            yield f"{where}: a body without consumes, or the other way round"
        for parameter in parameters:
            rest = {"schema"} if parameter in bodies else {"type", "format", "description"}
            yield from _keys(where, parameter, {"name", "in", "required", *rest})
            if parameter not in bodies and parameter["type"] not in _TYPES - {"object", "array"}:
                yield f"{where}: {parameter['name']} has type {parameter['type']}"
        yield from _placeholders(where, path, parameters)
    yield from _unique_ids(document)


def _info(document: Tree) -> Iterator[str]:
    if not document["info"].get("title") or not document["info"].get("version"):
        yield "info: no title or version"


def _security(document: Tree, schemes: Tree) -> Iterator[str]:
    for requirement in document.get("security", ()):
        yield from (f"security: {name} is not declared" for name in requirement if name not in schemes)
    for name, scheme in schemes.items():
        if scheme["type"] != "apiKey" or scheme["in"] not in ("header", "query") or not scheme["name"]:
            yield f"security: {name}"


def _references(tree: object, prefix: str, known: Tree) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "$ref" and isinstance(value, str):
                if not value.startswith(prefix) or value.removeprefix(prefix) not in known:
                    yield f"$ref leads nowhere: {value}"
            else:
                yield from _references(value, prefix, known)
    elif isinstance(tree, list):
        for value in tree:
            yield from _references(value, prefix, known)


def _schema(where: str, schema: Tree, *, siblings_of_references: bool) -> Iterator[str]:
    yield from _keys(where, schema, _SCHEMA_KEYS)
    if not siblings_of_references and "$ref" in schema and len(schema) > 1:
        yield f"{where}: what stands beside $ref is ignored"
    anything = set(schema) == {"description"}
    if "$ref" not in schema and "allOf" not in schema and not anything and schema.get("type") not in _TYPES:
        yield f"{where}: type {schema.get('type')}"
    if (schema.get("type") == "array") != ("items" in schema):
        yield f"{where}: array without items, or items without array"
    properties = schema.get("properties", {})
    if properties and schema["type"] != "object":
        yield f"{where}: properties of no object"
    yield from (f"{where}: requires unknown {name}" for name in schema.get("required", ()) if name not in properties)
    if schema.get("required") == []:
        yield f"{where}: required is empty"
    inner = [*properties.items(), *(("allOf", part) for part in schema.get("allOf", ()))]
    inner += [(key, schema[key]) for key in ("items", "additionalProperties") if key in schema]
    for name, part in inner:
        if name == "additionalProperties" and isinstance(part, bool):
            continue
        yield from _schema(f"{where}.{name}", part, siblings_of_references=siblings_of_references)


def _operations(document: Tree) -> Iterator[tuple[str, str, Tree]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield path, method, operation


def _operation(where: str, operation: Tree, allowed: set[str]) -> Iterator[str]:
    yield from _keys(where, operation, allowed)
    if where.split()[0] not in _METHODS:
        yield f"{where}: no such method"
    if not any(re.fullmatch(r"2\d\d", code) for code in operation["responses"]):
        yield f"{where}: no response for success"
    for code, response in operation["responses"].items():
        if not re.fullmatch(r"[1-5]\d\d", code) or not response.get("description"):
            yield f"{where}: response {code}"


def _content(where: str, content: Tree) -> Iterator[str]:
    for media, value in content.items():
        if not re.fullmatch(r"[\w*]+/[\w.+*-]+(;\w+=\w+)?", media):
            yield f"{where}: media type {media}"
        yield from _schema(where, value["schema"], siblings_of_references=False)


def _parameters(document: Tree, path: str, operation: Tree) -> list[Tree]:
    return [*document["paths"][path].get("parameters", ()), *operation.get("parameters", ())]


def _placeholders(where: str, path: str, parameters: list[Tree]) -> Iterator[str]:
    if not path.startswith("/"):
        yield f"{where}: the path has no slash at its start"
    named = sorted(parameter["name"] for parameter in parameters if parameter["in"] == "path")
    if named != sorted(_PLACEHOLDER.findall(path)):
        yield f"{where}: parameters {named}"
    if any(parameter["in"] == "path" and not parameter.get("required") for parameter in parameters):
        yield f"{where}: a path parameter is not required"
    counted = Counter((parameter["in"], parameter["name"]) for parameter in parameters)
    yield from (f"{where}: parameter {name} twice" for (_, name), count in counted.items() if count > 1)


def _unique_ids(document: Tree) -> Iterator[str]:
    counted = Counter(operation["operationId"] for _, _, operation in _operations(document))
    yield from (f"operationId {name} twice" for name, count in counted.items() if count > 1)


def _keys(where: str, tree: Tree, allowed: set[str]) -> Iterator[str]:
    yield from (f"{where}: unknown key {key}" for key in tree if key not in allowed and not key.startswith("x-"))
