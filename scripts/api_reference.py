"""The page of the API, from what a server says of itself: API discovery, and its list of paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from kubevouch.api import catalog
from kubevouch.authorization.interface import Authorizer
from kubevouch.authorization.param_access import ParamAccess
from kubevouch.authorization.rbac_escalation import EscalationGuard
from kubevouch.machinery.scheme import Resource
from kubevouch.registry.catalog import definitions
from kubevouch.server.runtime_config import RuntimeConfig
from kubevouch.testing import Cluster

_AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
_INTRODUCTION = """\
Kinds, verbs and fields are Kubernetes' own; `kubectl explain` tells the fields. What differs is in
[compatibility.md](../compatibility.md), how to talk to the API in [api-clients.md](../howto/api-clients.md)."""
_MEDIA = """\
| what | media types |
|---|---|
| objects, in both directions | `application/json`, `application/yaml`, `application/vnd.kubernetes.protobuf` |
| watches | `application/json`, `application/vnd.kubernetes.protobuf`, each with `;stream=watch` |
| reads `;as=Table` | JSON, YAML; `;v=v1;g=meta.k8s.io` |
| reads `;as=PartialObjectMetadata`, `;as=PartialObjectMetadataList` | JSON, YAML and protobuf; `;v=v1;g=meta.k8s.io` |
| patches | `application/json-patch+json`, `application/merge-patch+json`, `application/strategic-merge-patch+json`, \
`application/apply-patch+yaml` |
| discovery, aggregated | JSON and protobuf; `;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io` |
| OpenAPI | v2 and v3 as JSON, v2 as protobuf, too |"""
_KINDS = """\
*Empty* kinds can be listed and watched, for clients do; nothing runs, so creating one is refused, and the one Service
there is can only be read. Those marked
*off* are there with `--runtime-config` ([trust-bundles.md](../howto/trust-bundles.md))."""


def page(made: str) -> str:
    """``made`` says what makes the page."""
    with Cluster(runtime_config="api/all=true") as cluster:
        client = cluster.client()

        def get(path: str, headers: dict[str, str] | None = None) -> Any:
            return msgspec.json.decode(cluster.run(client.raw("GET", path, headers=headers or {})).body)

        groups = [group for root in ("/api", "/apis") for group in get(root, _AGGREGATED)["items"]]
        paths = get("/")["paths"]
    parts = ["# The API", made, _INTRODUCTION, "## Kinds", _KINDS]
    for group in groups:
        for version in group["versions"]:
            name = group["metadata"].get("name", "")
            title = f"{name}/{version['version']}" if name else version["version"]
            parts += [f"### {title}", _table(_rows(name, version))]
    listed = "\n".join(f"- `{path}`" for path in paths if not path.startswith(("/api/", "/apis/")))
    parts += ["## Media types", _MEDIA, "## Other paths", listed]
    return "\n\n".join(parts) + "\n"


def _table(rows: Iterator[tuple[str, ...]]) -> str:
    head = ("kind", "resource", "namespaced", "verbs", "subresources", "")
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _rows(group: str, version: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    known = {(each.group, each.version, each.plural): each for each in _resources()}
    empty, usual = _empty(), RuntimeConfig()
    for found in version["resources"]:
        resource = known[group, version["version"], found["resource"]]
        names = ", ".join(f"`{each}`" for each in (found["resource"], *found.get("shortNames", ())))
        below = "; ".join(f"`{each['subresource']}`: {_verbs(each)}" for each in found.get("subresources", ()))
        mark = "*empty*" if resource in empty else "" if usual.serves(resource) else "*off*"
        scope = "yes" if found["scope"] == "Namespaced" else "no"
        yield found["responseKind"]["kind"], names, scope, _verbs(found), below, mark


def _verbs(found: dict[str, Any]) -> str:
    return ", ".join(found["verbs"])


def _resources() -> Iterator[Resource[Any]]:
    yield from (
        *catalog.STORED,
        *catalog.VIEWS,
        *catalog.EMPTY.values(),
        *catalog.OLDER.values(),
        catalog.COMPONENT_STATUSES,
        *catalog.REVIEWS,
    )


def _empty() -> set[Resource[Any]]:
    # Nobody is asked anything: the definitions only say which kinds there are.
    stored = definitions(cast(EscalationGuard, None), cast(ParamAccess, None), cast(Authorizer, None))
    return {definition.resource for definition in stored if definition.refuses_creation}
