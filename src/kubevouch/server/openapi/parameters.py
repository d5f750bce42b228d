"""Parameters in paths and queries. Those of a verb are the fields of its options (meta.k8s.io/v1)."""

from __future__ import annotations

from typing import Any

import msgspec

from kubevouch.api.meta_v1 import CreateOptions, GetOptions, ListOptions, PatchOptions, UpdateOptions
from kubevouch.machinery.meta import DeleteOptions
from kubevouch.machinery.schema import ListSchema, ScalarSchema, schema_of
from kubevouch.server.openapi.schemas import Tree, scalar

_WATCHES_ONLY = frozenset({"watch", "allowWatchBookmarks", "sendInitialEvents"})


def _of(options: type[msgspec.Struct], *, without: frozenset[str] = frozenset()) -> list[Tree]:
    """The fields of an options struct; those that are structs themselves fit into no query."""
    found = []
    for item in schema_of(options).fields:
        kind = item.type.item if isinstance(item.type, ListSchema) else item.type
        if item.number and isinstance(kind, ScalarSchema) and item.name not in without:
            found.append({"name": item.name, "in": "query", "description": item.doc, "schema": scalar(kind.kind)})
    return found


PRETTY: Tree = {
    "name": "pretty", "in": "query", "description": "true: indent the reply.", "schema": {"type": "string"},
}  # fmt: skip


_PROXIED: Tree = {
    "name": "path", "in": "query", "description": "The path to ask for.", "schema": {"type": "string"},
}  # fmt: skip


class Parameters:
    """The parameters of every verb; the lists are shared between operations and must not be changed."""

    def __init__(self) -> None:
        lists = _of(ListOptions)
        selects = [item for item in lists if item["name"] not in _WATCHES_ONLY]
        deletes = _of(DeleteOptions)
        self.watching_list = lists
        self._of_verb: dict[str, list[Tree]] = {
            "get": _of(GetOptions),
            "list": selects,
            "create": _of(CreateOptions),
            "update": _of(UpdateOptions),
            "patch": _of(PatchOptions),
            "delete": deletes,
            "deletecollection": [*deletes, *selects],
            "watch": _of(ListOptions, without=frozenset({"watch"})),
        }
        self._path: dict[str, Tree] = {
            "name": _in_path("name", "Name of the object."),
            "namespace": _in_path("namespace", "Namespace of the object."),
            "path": _in_path("path", "Path to the resource."),
        }
        self._of_path: dict[tuple[str, ...], list[Tree]] = {}

    def of_verb(self, verb: str, *, watches: bool = False) -> list[Tree]:
        """``watches``: a list that can be a watch instead."""
        return self.watching_list if verb == "list" and watches else self._of_verb[verb]

    def of_path(self, names: tuple[str, ...]) -> list[Tree]:
        """What all operations of a path have in common; ``names`` are the placeholders in it."""
        found = self._of_path.get(names)
        if found is None:
            found = self._of_path[names] = [*(self._path[name] for name in names), PRETTY]
        return found

    def of_connect(self, names: tuple[str, ...]) -> list[Tree]:
        """As :meth:`of_path`, for what is handed on as it is."""
        return [*(self._path[name] for name in names), _PROXIED]


def _in_path(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": {"type": "string"}}
