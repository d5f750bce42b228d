"""OpenAPI 3.0: one document a group version, and small ones for what is above them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubevouch.api.autoscaling_v1 import Scale
from kubevouch.server.endpoints import Served
from kubevouch.server.openapi.names import APIMACHINERY
from kubevouch.server.openapi.operations import Operations
from kubevouch.server.openapi.schemas import Schemas, Tree, reference

TITLE = "kubevouch"
VERSION_SCHEMA = f"{APIMACHINERY}.version.Info"
SECURITY_NAME = "BearerToken"
SECURITY_SCHEME = {
    "type": "apiKey", "in": "header", "name": "authorization", "description": "Bearer, a space and a token.",
}  # fmt: skip


class Documents(msgspec.Struct, frozen=True):
    """The documents by name (``apis/certificates.k8s.io/v1``), and everything that is in them."""

    by_name: dict[str, Tree]
    schemas: dict[str, Tree]
    paths: dict[str, Tree]
    info: dict[str, str]


def build(served: Served, version_info: Mapping[str, str]) -> Documents:
    """All documents.

    Args:
        version_info: what ``/version`` answers.
    """
    schemas = Schemas(served.scheme)
    schemas.trees[VERSION_SCHEMA] = _version_schema(version_info)
    operations = Operations(served, schemas, VERSION_SCHEMA)
    info = {"title": TITLE, "version": version_info["gitVersion"]}
    documents: dict[str, Tree] = {}
    paths: dict[str, Tree] = {}
    for name, items in operations.documents.items():
        paths |= items
        documents[name] = {
            "openapi": "3.0.0",
            "info": info,
            "paths": items,
            "components": {
                "schemas": schemas.reachable(items),
                "securitySchemes": {SECURITY_NAME: SECURITY_SCHEME},
            },
            "security": [{SECURITY_NAME: []}],
        }
    # Custom kinds may have scales, and the document of version 2 that they share describes it once.
    everything = schemas.reachable([paths, reference(schemas.struct(Scale))])
    return Documents(documents, everything, paths, info)


def _version_schema(version_info: Mapping[str, str]) -> Tree:
    return {
        "type": "object",
        "description": "What this server runs, and which Kubernetes it follows.",
        "required": list(version_info),
        "properties": {key: {"type": "string", "default": ""} for key in version_info},
    }
