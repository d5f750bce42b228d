"""The documents of kinds that came at run time.

Source: apiextensions-apiserver pkg/controller/openapi/builder/builder.go (Kubernetes 1.36).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from kubevouch.api.autoscaling_v1 import Scale
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import DeleteOptions, ListMeta, ObjectMeta, Status
from kubevouch.machinery.scheme import GroupVersion, Scheme
from kubevouch.registry.apiextensions.custom_resources import ServedKindVersion
from kubevouch.server.handlers import patch
from kubevouch.server.negotiation import JSON, YAML
from kubevouch.server.openapi import names, schemas
from kubevouch.server.openapi.operations import (
    ACTIONS,
    METHODS,
    SENTENCES,
    SUBRESOURCE_SENTENCES,
    PathItems,
    body_of,
    placeholders,
    responses,
)
from kubevouch.server.openapi.parameters import Parameters
from kubevouch.server.openapi.schemas import Schemas, Tree
from kubevouch.structural.publishing import PublishedKind

_INFO = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
_MEDIA = (JSON, YAML)
_ON_COLLECTION = ("list", "create", "deletecollection")
_ON_ITEM = ("get", "update", "patch", "delete")
_ON_SUBRESOURCE = ("get", "update", "patch")
_CODES = {"create": (200, 201, 202), "update": (200, 201), "delete": (200, 202)}


def published(version: ServedKindVersion) -> PublishedKind:
    """A version of a kind, as it is published."""
    kind, own = version.owner.kind, version.version
    return PublishedKind(kind.group, own.name, kind.kind, kind.list_kind, kind.plural, own.schema, own.selectable)


def document_of(version: ServedKindVersion) -> str:
    """The name of the document that a version is in."""
    return f"apis/{version.owner.kind.group}/{version.version.name}"


class CustomDocuments:
    """Makes the documents. It reads nothing that changes: one thread at a time may use it beside the loop."""

    def __init__(self, scheme: Scheme) -> None:
        self._schemas = Schemas(scheme)
        self._parameters = Parameters()
        self._shared = {
            struct: self._schemas.struct(struct) for struct in (Status, DeleteOptions, Scale, ObjectMeta, ListMeta)
        }
        self._patch = self._schemas.fixed(schemas.PATCH)
        # Of what a document has beside what its definitions say: another release has other documents.
        self._salt = hashlib.sha512(json_codec.encode(self._schemas.trees)).digest()

    def digest(self, version: ServedKindVersion) -> bytes:
        """Stands for all that is published of a version; the documents need not be made to know it."""
        kind, own = version.owner.kind, version.version
        named = [document_of(version), kind.plural, kind.kind, kind.list_kind, kind.namespaced]
        said = [own.selectable, own.has_status, own.scale is not None]
        schema = b"" if own.props is None else own.props.to_message()
        return hashlib.sha512(self._salt + json_codec.encode([*named, *said]) + schema).digest()

    def v3(self, versions: Iterable[ServedKindVersion]) -> Tree:
        """The document of a group version, which these kinds are served under."""
        paths: PathItems = {}
        own: dict[str, Tree] = {}
        for version in versions:
            kind = published(version)
            paths |= self._paths(version, kind)
            own |= kind.v3()
        # Its own schemas are not looked through: a default may have a key that looks like a reference.
        shared = [schemas.reference(self._shared[struct]) for struct in (ObjectMeta, ListMeta)]
        needed = self._schemas.reachable([paths, shared], apart_from=own)
        return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": own | needed}}

    def v2(self, version: ServedKindVersion) -> tuple[PathItems, dict[str, Tree]]:
        """What a version adds to the document of all: path items in the words of OpenAPI 3, and definitions."""
        kind = published(version)
        return self._paths(version, kind), kind.v2()

    # -------------------------------------------------------------- paths

    def _paths(self, version: ServedKindVersion, kind: PublishedKind) -> PathItems:
        namespaced = version.owner.kind.namespaced
        everywhere = f"/{document_of(version)}/{kind.plural}"
        collection = f"/{document_of(version)}/namespaces/{{namespace}}/{kind.plural}" if namespaced else everywhere
        found: PathItems = {}
        if namespaced:
            self._add(found, everywhere, "list", kind, kind.list_name, everywhere=True)
        for verb in _ON_COLLECTION:
            self._add(found, collection, verb, kind, kind.list_name if verb == "list" else kind.name)
        item = f"{collection}/{{name}}"
        for verb in _ON_ITEM:
            self._add(found, item, verb, kind, kind.name)
        subresources = {"status": kind.name} if version.version.has_status else {}
        if version.version.scale is not None:
            subresources["scale"] = self._shared[Scale]
        for subresource, schema in subresources.items():
            for verb in _ON_SUBRESOURCE:
                self._add(found, f"{item}/{subresource}", verb, kind, schema, subresource)
        return {
            path: {**operations, "parameters": self._parameters.of_path(placeholders(path))}
            for path, operations in found.items()
        }

    def _add(
        self,
        items: PathItems,
        path: str,
        verb: str,
        kind: PublishedKind,
        schema: str,
        subresource: str = "",
        *,
        everywhere: bool = False,
    ) -> None:
        within = placeholders(path)
        group_version = GroupVersion(kind.group, kind.version)
        answer = self._shared[Status] if verb in ("delete", "deletecollection") else schema
        operation: Tree = {
            "tags": [names.tag(*group_version)],
            "description": (SUBRESOURCE_SENTENCES if subresource else SENTENCES)[verb].format(
                kind=kind.kind, sub=subresource
            ),
            "operationId": names.operation_id(
                verb,
                group_version,
                kind.kind,
                namespaced="namespace" in within,
                everywhere=everywhere,
                subresource=subresource,
            ),
            "parameters": self._parameters.of_verb(verb, watches=True),
            "responses": responses(dict.fromkeys(_CODES.get(verb, (200,)), answer), _MEDIA),
            "x-kubernetes-action": ACTIONS.get(verb, verb),
            schemas.GVK: {"group": kind.group, "version": kind.version, "kind": kind.kind},
        }
        if verb in ("create", "update"):
            operation["requestBody"] = body_of(schema, _MEDIA)
        elif verb == "patch":
            operation["requestBody"] = body_of(self._patch, patch.CUSTOM_TYPES)
        elif verb in ("delete", "deletecollection"):
            operation["requestBody"] = body_of(self._shared[DeleteOptions], _MEDIA, required=False)
        items.setdefault(path, {})[METHODS[verb]] = operation
