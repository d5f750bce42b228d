"""The paths of the documents: one operation for every verb of everything that is served."""

from __future__ import annotations

import re
from typing import Any

from kubevouch.machinery.meta import APIGroup, APIGroupList, APIResourceList, APIVersions, DeleteOptions, Status
from kubevouch.machinery.scheme import GroupVersion, GroupVersionKind, Resource
from kubevouch.server.endpoints import Action, Connect, Served, ServedVersion
from kubevouch.server.handlers import patch
from kubevouch.server.negotiation import ACCEPTED, JSON, PROTOBUF
from kubevouch.server.openapi import names, schemas
from kubevouch.server.openapi.parameters import Parameters
from kubevouch.server.openapi.schemas import Schemas, Tree

_STREAMS = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
_PLACEHOLDER = re.compile(r"\{(\w+)\}", re.ASCII)

METHODS = {
    "get": "get", "list": "get", "watch": "get", "create": "post", "update": "put", "patch": "patch",
    "delete": "delete", "deletecollection": "delete",
}  # fmt: skip
# x-kubernetes-action, where it is not the verb.
ACTIONS = {"create": "post", "update": "put"}
SENTENCES = {
    "get": "Read one {kind}.",
    "list": "List objects of kind {kind}.",
    "create": "Create a {kind}.",
    "update": "Replace a {kind}.",
    "patch": "Change a {kind} by a patch.",
    "delete": "Delete a {kind}.",
    "deletecollection": "Delete the objects of kind {kind} that a list with the same parameters returns.",
    "watch": "Watch objects of kind {kind}. Deprecated: add the parameter watch to a list instead.",
}
SUBRESOURCE_SENTENCES = {
    "get": "Read a {kind} through {sub}.",
    "update": "Replace the {sub} of a {kind}.",
    "patch": "Change the {sub} of a {kind} by a patch.",
}
_ON_COLLECTION = ("list", "create", "deletecollection")
_ON_ITEM = ("get", "update", "patch", "delete")

_CONNECTING = ("get", "put", "post", "delete", "head", "patch")

PathItems = dict[str, Tree]


class Operations:
    """All path items, sorted into one table a document: ``apis/certificates.k8s.io/v1``, ``api``, ``version``."""

    def __init__(self, served: Served, schemas_: Schemas, version_schema: str) -> None:
        self._served = served
        self._schemas = schemas_
        self._parameters = Parameters()
        self._status = schemas_.struct(Status)
        self.documents: dict[str, PathItems] = {}
        self._discovery()
        for endpoint in served.endpoints.values():
            if endpoint.ready is not None:
                continue
            self._endpoint(endpoint)
        for action in served.actions.values():
            self._action(action)
        for connect in served.connects:
            self._connect(connect)
        self._plain("version", "getCodeVersion", "version", "The version of this server.", version_schema, (JSON,))

    # -------------------------------------------------------------- discovery

    def _discovery(self) -> None:
        versions, groups = self._schemas.struct(APIVersions), self._schemas.struct(APIGroupList)
        self._plain("api", "getCoreAPIVersions", "core", "The versions of the core group.", versions)
        self._plain("apis", "getAPIVersions", "apis", "The groups and their versions.", groups)
        for group in self._served.groups():
            self._plain(
                f"apis/{group}", f"get{names.group_title(group)}APIGroup", names.tag(group),
                "The versions of this group.", self._schemas.struct(APIGroup),
            )  # fmt: skip
        for group, version in self._served.group_versions:
            self._plain(
                document_of(GroupVersion(group, version)), f"get{names.group_title(group, version)}APIResources",
                names.tag(group, version), "The resources of this version.", self._schemas.struct(APIResourceList),
            )  # fmt: skip

    def _plain(
        self, document: str, operation_id: str, tag: str, text: str, schema: str, media: tuple[str, ...] = ACCEPTED
    ) -> None:
        operation = {
            "tags": [tag],
            "description": text,
            "operationId": operation_id,
            "responses": responses({200: schema}, media),
        }
        self.documents.setdefault(document, {})[f"/{document}/"] = {"get": operation}

    # -------------------------------------------------------------- resources

    def _endpoint(self, endpoint: ServedVersion) -> None:
        resource = endpoint.resource
        collection, item = _collection(resource), f"{_collection(resource)}/{{name}}"
        for verb in endpoint.verbs:
            if verb in _ON_COLLECTION:
                self._resource_operation(endpoint, verb, collection)
            elif verb in _ON_ITEM:
                self._resource_operation(endpoint, verb, item)
        if resource.namespaced and "list" in endpoint.verbs:
            self._resource_operation(endpoint, "list", resource.path())
        if "watch" in endpoint.verbs:
            self._watches(endpoint)
        for sub in endpoint.subresources:
            for verb in sub.verbs:
                self._resource_operation(endpoint, verb, f"{item}/{sub.name}", sub.name)

    def _watches(self, endpoint: ServedVersion) -> None:
        resource = endpoint.resource
        root = document_of(resource.group_version)
        paths = [_collection(resource), f"{_collection(resource)}/{{name}}"]
        if resource.namespaced:
            paths.append(resource.path())
        for path in paths:
            self._resource_operation(endpoint, "watch", path.replace(f"/{root}/", f"/{root}/watch/", 1))

    def _resource_operation(self, endpoint: ServedVersion, verb: str, path: str, subresource: str = "") -> None:
        resource = endpoint.resource
        within = placeholders(path)
        watches = "watch" in endpoint.verbs
        sentence = SUBRESOURCE_SENTENCES[verb] if subresource else SENTENCES[verb]
        on_collection = "name" not in within
        operation: Tree = {
            "tags": [names.tag(resource.group, resource.version)],
            "description": sentence.format(kind=resource.kind, sub=subresource),
            "operationId": names.operation_id(
                verb,
                resource.group_version,
                resource.kind,
                namespaced="namespace" in within,
                everywhere=resource.namespaced and "namespace" not in within,
                collection=verb == "watch" and on_collection,
                subresource=subresource,
            ),
            "parameters": self._parameters.of_verb(verb, watches=watches),
            "responses": self._answer(verb, resource, watches=watches),
            "x-kubernetes-action": "watchlist" if verb == "watch" and on_collection else ACTIONS.get(verb, verb),
            schemas.GVK: schemas.kind_tree(resource.gvk),
        }
        if verb == "watch":
            operation["deprecated"] = True
        body = self._body(verb, resource)
        if body is not None:
            operation["requestBody"] = body
        self._add(resource.group_version, path, METHODS[verb], operation)

    def _body(self, verb: str, resource: Resource[Any]) -> Tree | None:
        if verb in ("create", "update"):
            return body_of(self._schemas.struct(resource.type), ACCEPTED)
        if verb == "patch":
            return body_of(self._schemas.fixed(schemas.PATCH), patch.TYPES)
        if verb in ("delete", "deletecollection"):
            return body_of(self._schemas.struct(DeleteOptions), ACCEPTED, required=False)
        return None

    def _answer(self, verb: str, resource: Resource[Any], *, watches: bool) -> Tree:
        if verb == "watch":
            return responses({200: self._schemas.fixed(schemas.WATCH_EVENT)}, _STREAMS)
        if verb == "list":
            return responses({200: self._schemas.list_of(resource)}, (*ACCEPTED, *(_STREAMS if watches else ())))
        if verb == "deletecollection":
            return responses({200: self._schemas.list_of(resource)}, ACCEPTED)
        if verb == "delete":
            return responses({200: self._status}, ACCEPTED)
        schema = self._schemas.struct(resource.type)
        codes = {"create": (201,), "update": (200, 201), "patch": (200, 201)}.get(verb, (200,))
        return responses(dict.fromkeys(codes, schema), ACCEPTED)

    def _action(self, action: Action) -> None:
        resource, body = action.resource, action.body
        struct = self._served.scheme.kinds.get(body.gvk, body.type)
        schema = self._schemas.struct(struct)
        path = _collection(resource)
        sentence = f"Create a {body.kind}: the answer comes at once, and nothing is stored."
        if action.subresource:
            path = f"{path}/{{name}}/{action.subresource}"
            sentence = f"Create a {body.kind} for a {resource.kind}."
        operation = {
            "tags": [names.tag(resource.group, resource.version)],
            "description": sentence,
            "operationId": names.operation_id(
                "create",
                resource.group_version,
                resource.kind,
                namespaced=resource.namespaced,
                subresource=action.subresource,
            ),
            "parameters": self._parameters.of_verb("create"),
            "requestBody": body_of(schema, ACCEPTED),
            "responses": responses({201: schema}, ACCEPTED),
            "x-kubernetes-action": "post",
            schemas.GVK: schemas.kind_tree(body.gvk),
        }
        self._add(resource.group_version, path, "post", operation)

    def _connect(self, connect: Connect) -> None:
        resource, title = connect.resource, connect.subresource.title()
        group_version = resource.group_version
        root = f"{_collection(resource)}/{{name}}/{connect.subresource}"
        for path, suffix in ((root, ""), (f"{root}/{{path}}", "WithPath")):
            item: Tree = {"parameters": self._parameters.of_connect(placeholders(path))}
            for method in _CONNECTING:
                group = names.group_title(*group_version)
                item[method] = {
                    "tags": [names.tag(*group_version)],
                    "description": f"Connect {method.upper()} requests to {connect.subresource} of a {resource.kind}.",
                    "operationId": f"connect{group}{method.title()}{resource.kind}{title}{suffix}",
                    "responses": {
                        "200": {"description": "OK", "content": {"*/*": {"schema": {"type": "string"}}}},
                        "401": {"description": "Unauthorized"},
                    },
                    "x-kubernetes-action": "connect",
                    schemas.GVK: schemas.kind_tree(GroupVersionKind(*group_version, connect.kind)),
                }
            self.documents[document_of(group_version)][path] = item

    def _add(self, group_version: GroupVersion, path: str, method: str, operation: Tree) -> None:
        items = self.documents[document_of(group_version)]
        item = items.get(path)
        if item is None:
            item = items[path] = {"parameters": self._parameters.of_path(placeholders(path))}
        item[method] = operation


def document_of(group_version: GroupVersion) -> str:
    """The name of a group version's document, which is also its path without the first slash."""
    return f"apis/{group_version}" if group_version.group else f"api/{group_version}"


def _collection(resource: Resource[Any]) -> str:
    return resource.path("{namespace}" if resource.namespaced else "")


def placeholders(path: str) -> tuple[str, ...]:
    """The names in braces."""
    return tuple(_PLACEHOLDER.findall(path))


def _content(schema: str, media: tuple[str, ...]) -> Tree:
    found = {"schema": schemas.reference(schema)}
    return dict.fromkeys(media, found)


def body_of(schema: str, media: tuple[str, ...], *, required: bool = True) -> Tree:
    """A requestBody of a schema, by name."""
    body: Tree = {"content": _content(schema, media)}
    return body | {"required": True} if required else body


def responses(codes: dict[int, str], media: tuple[str, ...]) -> Tree:
    """The responses of an operation: for each code the name of a schema."""
    words = {200: "OK", 201: "Created", 202: "Accepted"}
    found: Tree = {
        str(code): {"description": words[code], "content": _content(schema, media)} for code, schema in codes.items()
    }
    return found | {"401": {"description": "Unauthorized"}}
