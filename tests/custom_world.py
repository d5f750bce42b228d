"""Kinds that come at run time, as tests define them."""

from __future__ import annotations

import json
from typing import Any

from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.client.interface import Client, RawResponse
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.scheme import Resource
from kubevouch.standalone.server import StandaloneServer
from kubevouch.util.uuids import random_uuid

GROUP = "demo.example.com"
WIDGETS = Resource(GROUP, "v1", "Widget", "widgets", CustomObject, namespaced=True)
WIDGETS_PATH = f"/apis/{GROUP}/v1/namespaces/default/widgets"

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "default": 3},
                "color": {"type": "string"},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
                    },
                },
            },
        },
        "status": {"type": "object", "properties": {"size": {"type": "integer"}, "selector": {"type": "string"}}},
    },
}


def version(name: str = "v1", schema: dict[str, Any] | None = None, *, storage: bool = True, **more: Any) -> Any:
    """A version of a definition."""
    tree = {"openAPIV3Schema": SCHEMA if schema is None else schema}
    return {"name": name, "served": True, "storage": storage, "schema": tree, **more}


def definition(*versions: Any, scope: str = "Namespaced", plural: str = "widgets", kind: str = "Widget") -> Any:
    """A CustomResourceDefinition, as a manifest."""
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": scope, "names": names, "versions": list(versions) or [version()]},
    }


def _established(manifest: Any) -> Any:
    conditions = [{"type": each, "status": "True"} for each in ("NamesAccepted", "Established")]
    stored = [each["name"] for each in manifest["spec"]["versions"] if each["storage"]]
    status = {"acceptedNames": manifest["spec"]["names"], "storedVersions": stored, "conditions": conditions}
    return {**manifest, "status": status}


async def put(server: StandaloneServer, manifest: Any) -> None:
    """Store a definition as it looks once it is established, past all that judges it."""
    resource, api = CUSTOM_RESOURCE_DEFINITIONS, server.api
    name = manifest["metadata"]["name"]
    key = api.stores[resource.plural].definition.key("", name)
    known = await api.store.get(key)
    obj = resource.codec.bare(resource.codec.from_tree(_established(manifest)).value)
    # One without a uid could not be changed, and so not deleted.
    obj = obj if obj.metadata.uid else replace_metadata(obj, uid=random_uuid())
    value = resource.codec.to_value(obj, resource.api_version, resource.kind)
    if known is None:
        revision = await api.store.create(key, value)
    else:
        revision = await api.store.update(key, value, known.revision)
    await api.cacher.reach(revision)


async def remove(server: StandaloneServer, name: str) -> None:
    """Take a definition out of the store."""
    key = server.api.stores[CUSTOM_RESOURCE_DEFINITIONS.plural].definition.key("", name)
    known = await server.api.store.get(key)
    assert known is not None
    await server.api.cacher.reach(await server.api.store.delete(key, known.revision))


def widget(name: str = "w", **members: Any) -> Any:
    """A manifest."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        **({"spec": {"color": "red"}} | members),
    }


async def ask(
    client: Client, method: str, path: str, body: Any = None, content_type: str = "application/json"
) -> RawResponse:
    """A request with a JSON body."""
    data = None if body is None else json.dumps(body).encode()
    return await client.raw(method, path, data, {"Content-Type": content_type})
