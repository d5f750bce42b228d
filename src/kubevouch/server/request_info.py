"""What a request is about: verb, group, resource, namespace, name (apiserver endpoints/request, Kubernetes 1.36)."""

from __future__ import annotations

from urllib.parse import unquote

from msgspec import Struct

from kubevouch.server.query import Query

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
# Namespaces' own subresources; every other third segment after a namespace is a resource in it.
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class RequestInfo(Struct, frozen=True):
    """``is_resource`` is False for paths outside ``/api/<version>/…`` and ``/apis/<group>/<version>/…``."""

    path: str
    verb: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    deprecated_watch: bool = False
    extra_parts: int = 0


def parse(method: str, raw_path: str, query: Query) -> RequestInfo:
    """Kubernetes parses leniently: what makes no resource is a plain path."""
    path = unquote(raw_path) if "%" in raw_path else raw_path
    parts = path.strip("/").split("/")
    plain = RequestInfo(path, method.lower())
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) >= 3:
        group, rest = parts[1], parts[2:]
    else:
        return plain
    if len(rest) < 2 or "" in rest:
        return plain
    return _resource_info(path, method, group, rest[0], rest[1:], query)


def _resource_info(path: str, method: str, group: str, version: str, parts: list[str], query: Query) -> RequestInfo:
    verb = _VERBS.get(method, "")
    watch_path = parts[0] == "watch"
    if watch_path:
        if len(parts) < 2:
            return RequestInfo(path, method.lower())
        verb, parts = "watch", parts[1:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource = parts[0]
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    field_selector = query.get("fieldSelector")
    if not name and verb in ("get", "delete") and not watch_path:
        if verb == "delete":
            verb = "deletecollection"
        else:
            verb = "watch" if query.flag("watch") else "list"
    if verb in ("list", "watch", "deletecollection") and not name:
        name = selected_name(field_selector) if verb != "deletecollection" else ""
    return RequestInfo(
        path=path,
        verb=verb,
        is_resource=True,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        subresource=subresource,
        name=name,
        field_selector=field_selector if verb in ("list", "watch", "deletecollection") else "",
        label_selector=query.get("labelSelector") if verb in ("list", "watch", "deletecollection") else "",
        deprecated_watch=watch_path,
        extra_parts=max(len(parts) - 3, 0),
    )


def selected_name(field_selector: str) -> str:
    """The name that a field selector pins, so that RBAC's resourceNames can allow a list of one object."""
    for term in field_selector.split(","):
        key, separator, value = term.partition("=")
        if separator and key.strip() == "metadata.name":
            return value.removeprefix("=").strip()
    return ""
