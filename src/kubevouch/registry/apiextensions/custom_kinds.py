"""What a CustomResourceDefinition says of the kind that it defines, read once for all who serve it.

It is read from the definition's JSON tree, so that nothing of a schema has to be known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubevouch.api import catalog
from kubevouch.machinery.text.versions import version_priority
from kubevouch.structural.scale import ScalePaths

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KindVersion:
    """One version of a kind.

    Args:
        schema: its ``openAPIV3Schema``.
        columns: its ``additionalPrinterColumns``.
        selectable: the paths of its ``selectableFields``.
    """

    name: str
    served: bool
    stored: bool
    deprecated: bool = False
    deprecation_warning: str | None = None
    schema: Mapping[str, Any] = field(default_factory=dict)
    has_status: bool = False
    scale: ScalePaths | None = None
    columns: tuple[Mapping[str, Any], ...] = ()
    selectable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A custom kind under the names that were accepted.

    ``conversion`` is the definition's own, as a tree.
    """

    definition: str
    uid: str
    group: str
    plural: str
    singular: str
    kind: str
    list_kind: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    namespaced: bool
    versions: tuple[KindVersion, ...]
    conversion: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stored(self) -> KindVersion:
        return next((version for version in self.versions if version.stored), self.versions[0])

    def api_version(self, version: KindVersion) -> str:
        return f"{self.group}/{version.name}"

    def deprecation(self, version: KindVersion) -> str:
        """What whoever uses ``version`` is warned of (apiextensions-apiserver, getAPIWarnings; Kubernetes 1.36)."""
        if not version.deprecated:
            return ""
        if version.deprecation_warning is not None:
            return version.deprecation_warning
        text = f"{self.api_version(version)} {self.kind} is deprecated"
        mine = version_priority(version.name)
        better = [
            each
            for each in self.versions
            if each.served and not each.deprecated and version_priority(each.name) > mine
        ]  # fmt: skip
        if not better:
            return text
        newest = max(better, key=lambda each: version_priority(each.name))
        return f"{text}; use {self.api_version(newest)} {self.kind}"


def is_true(tree: Tree, condition: str) -> bool:
    """Whether the definition has the condition with status True."""
    conditions = (tree.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == condition and each.get("status") == "True" for each in conditions)


def is_available(tree: Tree) -> bool:
    """Whether requests for its objects are answered (apiextensions-apiserver, crdHandler)."""
    return is_true(tree, "NamesAccepted") or is_true(tree, "Established")


def tree_of(definition: Any) -> Tree:
    """The JSON tree of a CustomResourceDefinition."""
    return catalog.CUSTOM_RESOURCE_DEFINITIONS.codec.to_tree(definition)


def kind_of(tree: Tree) -> Kind:
    """The kind of a definition, given as its JSON tree."""
    spec, metadata = tree["spec"], tree.get("metadata") or {}
    accepted = (tree.get("status") or {}).get("acceptedNames") or {}
    names = accepted if accepted.get("plural") and accepted.get("kind") else spec["names"]
    kind = names["kind"]
    return Kind(
        definition=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        group=spec["group"],
        plural=names["plural"],
        singular=names.get("singular") or kind.lower(),
        kind=kind,
        list_kind=names.get("listKind") or f"{kind}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        namespaced=spec.get("scope") == "Namespaced",
        versions=tuple(_version(each) for each in spec["versions"]),
        conversion=spec.get("conversion") or {},
    )


def _version(tree: Tree) -> KindVersion:
    subresources = tree.get("subresources") or {}
    scale = subresources.get("scale")
    return KindVersion(
        name=tree["name"],
        served=bool(tree.get("served")),
        stored=bool(tree.get("storage")),
        deprecated=bool(tree.get("deprecated")),
        deprecation_warning=tree.get("deprecationWarning"),
        schema=(tree.get("schema") or {}).get("openAPIV3Schema") or {},
        has_status=subresources.get("status") is not None,
        scale=None
        if scale is None
        else ScalePaths(
            scale.get("specReplicasPath") or "",
            scale.get("statusReplicasPath") or "",
            scale.get("labelSelectorPath") or "",
        ),
        columns=tuple(tree.get("additionalPrinterColumns") or ()),
        selectable=tuple(each.get("jsonPath") or "" for each in tree.get("selectableFields") or ()),
    )
