"""Paths and queries of requests about resources. No I/O."""

from __future__ import annotations

import re
import urllib.parse
from typing import Any

from kubevouch.client.interface import InvalidName, ListOptions, WatchOptions, WriteOptions
from kubevouch.machinery.scheme import Resource

Query = tuple[tuple[str, str], ...]

_USUAL_SEGMENT = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*")
_SEGMENT = "!$&'()*+,;=:@~"  # what RFC 3986 lets stand in a path segment besides letters, digits and -._


def _segment(text: str, what: str) -> str:
    """Raises :class:`InvalidName` for what no API server takes as a name (apimachinery pkg/api/validation/path)."""
    if _USUAL_SEGMENT.fullmatch(text):
        return text
    if text in ("", ".", "..") or "/" in text or "%" in text:
        raise InvalidName(f"{what} {text!r} cannot stand in a path: it must not be empty, '.', '..' or contain / or %")
    return urllib.parse.quote(text, safe=_SEGMENT)


def collection_path(resource: Resource[Any], namespace: str) -> str:
    """The path of a collection; of all namespaces when ``namespace`` is empty."""
    if namespace and not resource.namespaced:
        raise ValueError(f"{resource.plural} have no namespaces, got {namespace!r}")
    return resource.path(_segment(namespace, "namespace") if namespace else "")


def object_path(resource: Resource[Any], namespace: str, name: str, subresource: str = "") -> str:
    """The path of an object, or of one of its subresources."""
    if bool(namespace) is not resource.namespaced:
        raise ValueError(f"{resource.plural} {'need a namespace' if resource.namespaced else 'have no namespaces'}")
    return resource.path(_segment(namespace, "namespace") if namespace else "", _segment(name, "name"), subresource)


def list_query(options: ListOptions) -> Query:
    return _present(
        ("labelSelector", options.label_selector),
        ("fieldSelector", options.field_selector),
        ("limit", str(options.limit) if options.limit else ""),
        ("continue", options.continue_token),
        ("resourceVersion", options.resource_version or ""),
        ("resourceVersionMatch", options.resource_version_match),
    )


def watch_query(options: WatchOptions) -> Query:
    """Bookmarks are always asked for; they keep the last version fresh on quiet resources."""
    initial = options.send_initial_events
    return _present(
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("labelSelector", options.label_selector),
        ("fieldSelector", options.field_selector),
        ("resourceVersion", options.resource_version),
        ("sendInitialEvents", "true" if initial else ""),
        ("resourceVersionMatch", "NotOlderThan" if initial else ""),
        ("timeoutSeconds", "" if options.timeout_seconds is None else str(options.timeout_seconds)),
    )


def write_query(options: WriteOptions) -> Query:
    return _present(
        ("dryRun", "All" if options.dry_run else ""),
        ("fieldManager", options.field_manager),
        ("fieldValidation", options.field_validation),
    )


def _present(*pairs: tuple[str, str]) -> Query:
    return tuple(pair for pair in pairs if pair[1])
