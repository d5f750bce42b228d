"""Names in the documents: of schemas, of operations, of tags.

Clients look schemas up by these names and generators make class and method names of them, so they follow
kube-openapi's rules (pkg/builder, endpoints/openapi/openapi.go; Kubernetes 1.36).
"""

from __future__ import annotations

import re
from typing import Any

from kubevouch.api import meta_v1
from kubevouch.machinery import meta
from kubevouch.machinery.scheme import GroupVersion, Resource, Scheme

APIMACHINERY = "io.k8s.apimachinery.pkg"
META = f"{APIMACHINERY}.apis.meta.v1"

_META_MODULES = frozenset({meta.__name__, meta_v1.__name__})
_VERSIONED_MODULE = re.compile(r".+_v[0-9]+(?:(?:alpha|beta)[0-9]+)?", re.ASCII)
# Groups whose Go types are not in k8s.io/api.
_ELSEWHERE = {
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}
_VERBS = {"get": "read", "update": "replace", "deletecollection": "delete"}


class SchemaNames:
    """The name of every struct's schema.

    Kinds of Kubernetes are called ``io.k8s.api.<group>.<version>.<type>``, other groups' kinds carry the group's
    domain backwards, as CustomResourceDefinitions do. A struct that is no kind is called after the kinds beside it.
    """

    def __init__(self, scheme: Scheme) -> None:
        self._homes: dict[str, str] = {}
        for gvk, struct in scheme.kinds.items():
            self._homes.setdefault(_package(struct.__module__), _prefix(gvk.group, gvk.version))

    def of(self, struct: type[Any]) -> str:
        return f"{self._home(struct)}.{struct.__name__}"

    def of_list(self, resource: Resource[Any]) -> str:
        return f"{self._home(resource.type)}.{resource.list_kind}"

    def _home(self, struct: type[Any]) -> str:
        module = struct.__module__
        return META if module in _META_MODULES else self._homes.get(_package(module), module)


def _package(module: str) -> str:
    """The module of a group version, for what is split over several files as ``core_v1``."""
    parts = module.split(".")
    for index, part in enumerate(parts):
        if _VERSIONED_MODULE.fullmatch(part):
            return ".".join(parts[: index + 1])
    return module


def _prefix(group: str, version: str) -> str:
    elsewhere = _ELSEWHERE.get(group)
    if elsewhere is not None:
        return f"{elsewhere}.{version}"
    if "." not in group or group.endswith(".k8s.io"):
        return f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}"
    return ".".join([*reversed(group.split(".")), version])


# ------------------------------------------------------------------ operations


def _words(group: str) -> list[str]:
    return re.split(r"[.-]", group.removesuffix(".k8s.io") or "core")


def _title(word: str) -> str:
    return word[:1].upper() + word[1:]


def tag(group: str, version: str = "") -> str:
    """``rbacAuthorization_v1``: generators make one class a tag."""
    first, *rest = _words(group)
    name = first + "".join(_title(word) for word in rest)
    return f"{name}_{version}" if version else name


def group_title(group: str, version: str = "") -> str:
    """``RbacAuthorizationV1``: group and version inside an operation's name."""
    return "".join(_title(word) for word in _words(group)) + _title(version)


def operation_id(
    verb: str,
    group_version: GroupVersion,
    kind: str,
    *,
    namespaced: bool = False,
    everywhere: bool = False,
    collection: bool = False,
    subresource: str = "",
) -> str:
    """The name of an operation on a resource.

    Args:
        verb: Kubernetes' verb.
        namespaced: the path names a namespace.
        everywhere: the path is that of a namespaced resource, without a namespace.
        collection: a deprecated watch of a whole collection.
        subresource: the last segment of the path, if it is one.
    """
    what = ("Namespaced" if namespaced else "") + kind + _title(subresource)
    if verb == "deletecollection":
        what = f"Collection{what}"
    if collection:
        what += "List"
    if everywhere:
        what += "ForAllNamespaces"
    return _VERBS.get(verb, verb) + group_title(*group_version) + what
