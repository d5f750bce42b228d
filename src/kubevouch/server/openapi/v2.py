"""OpenAPI 2.0 (Swagger), as old clients want it: one document, rewritten from the parts of the 3.0 documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubevouch.machinery.codec import json_codec
from kubevouch.server.openapi.schemas import PREFIX, Tree
from kubevouch.server.openapi.v3 import SECURITY_NAME, SECURITY_SCHEME, Documents

DEFINITIONS = "#/definitions/"
METHODS = ("get", "put", "post", "delete", "head", "patch")


def build(documents: Documents) -> Tree:
    """The document that holds everything but the kinds that come at run time."""
    return {
        "swagger": "2.0",
        "info": documents.info,
        "paths": path_items(documents.paths),
        "definitions": {name: schema(tree) for name, tree in documents.schemas.items()},
        "securityDefinitions": {SECURITY_NAME: SECURITY_SCHEME},
        "security": [{SECURITY_NAME: []}],
    }


def path_items(items: Mapping[str, Tree]) -> dict[str, Tree]:
    """Path items of 3.0 in the words of 2.0."""
    rewriter = _Rewriter()
    return {path: rewriter.path_item(item) for path, item in items.items()}


def entries(tree: Tree) -> bytes:
    """The entries of a JSON object, without the braces around them."""
    return json_codec.encode(tree)[1:-1]


def assemble(frame: Tree, paths: Iterable[bytes], definitions: Iterable[bytes]) -> bytes:
    """The document, as JSON.

    Args:
        frame: what it has beside paths and definitions.
        paths: pieces of them, as :func:`entries` makes them; ``definitions`` likewise.
    """
    pieces = (b'{"definitions":{', b",".join(filter(None, definitions)), b'},"paths":{', b",".join(filter(None, paths)))
    return b"".join((*pieces, b"},", entries(frame), b"}"))


def schema(tree: Tree) -> Tree:
    """A schema of 3.0 in the words of 2.0.

    A reference may have a description beside it there, as Kubernetes uses it; defaults of zero are left out, because
    kubectl's own validation stumbles over some (kube-openapi builder).
    """
    found: Tree = {}
    for key, value in tree.items():
        if key == "default":
            continue
        if key == "$ref":
            found[key] = DEFINITIONS + value.removeprefix(PREFIX)
        elif key == "allOf":
            found |= schema(value[0])
        elif key == "properties":
            found[key] = {name: schema(item) for name, item in value.items()}
        elif key in ("items", "additionalProperties"):
            found[key] = schema(value)
        else:
            found[key] = value
    return found


class _Rewriter:
    """Parameters are rewritten once, however many operations share them."""

    def __init__(self) -> None:
        self._lists: dict[int, list[Tree]] = {}

    def path_item(self, item: Tree) -> Tree:
        found = {method: self._operation(item[method]) for method in METHODS if method in item}
        return found | {"parameters": self._parameters(item["parameters"])} if "parameters" in item else found

    def _parameters(self, parameters: list[Tree]) -> list[Tree]:
        # The list lives as long as the documents, so its id is its name.
        found = self._lists.get(id(parameters))
        if found is None:
            found = self._lists[id(parameters)] = [_parameter(item) for item in parameters]
        return found

    def _operation(self, operation: Tree) -> Tree:
        found = {key: value for key, value in operation.items() if key not in _REWRITTEN}
        parameters = self._parameters(operation["parameters"]) if "parameters" in operation else []
        body = operation.get("requestBody")
        if body is not None:
            found["consumes"] = list(body["content"])
            parameters = [_body(body), *parameters]
        if parameters:
            found["parameters"] = parameters
        found["produces"] = list(operation["responses"]["200" if "200" in operation["responses"] else "201"]["content"])
        found["schemes"] = ["https"]
        found["responses"] = {code: _response(answer) for code, answer in operation["responses"].items()}
        return found


_REWRITTEN = frozenset({"parameters", "requestBody", "responses"})


def _parameter(parameter: Tree) -> Tree:
    found = {key: value for key, value in parameter.items() if key != "schema"}
    found.update(parameter["schema"])
    return found


def _content_schema(content: Tree) -> Tree:
    return schema(next(iter(content.values()))["schema"])


def _body(body: Tree) -> Tree:
    found: Tree = {"name": "body", "in": "body", "schema": _content_schema(body["content"])}
    return found | {"required": True} if body.get("required") else found


def _response(answer: Tree) -> Tree:
    found: Tree = {"description": answer["description"]}
    return found | {"schema": _content_schema(answer["content"])} if "content" in answer else found
