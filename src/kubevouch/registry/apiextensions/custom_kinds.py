"""What a CustomResourceDefinition says of the kind that it defines, read once for all who serve it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubevouch.api.apiextensions_v1.definitions import (
    NAMESPACED,
    CustomResourceDefinition,
    CustomResourceDefinitionVersion,
    CustomResourceSubresources,
)
from kubevouch.api.apiextensions_v1.schema_props import JSONSchemaProps
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text.versions import version_priority
from kubevouch.structural.scale import ScalePaths


class KindVersion(msgspec.Struct, frozen=True):
    """One version of a kind.

    Args:
        props: its ``openAPIV3Schema``, which is not looked into before a request is about the kind.
        columns: its ``additionalPrinterColumns``.
        selectable: the paths of its ``selectableFields``.
    """

    name: str
    served: bool
    stored: bool
    deprecated: bool = False
    deprecation_warning: str | None = None
    props: JSONSchemaProps | None = None
    has_status: bool = False
    scale: ScalePaths | None = None
    columns: tuple[Mapping[str, Any], ...] = ()
    selectable: tuple[str, ...] = ()

    @property
    def schema(self) -> Mapping[str, Any]:
        """The tree of its schema."""
        return {} if self.props is None else self.props.tree


class Kind(msgspec.Struct, frozen=True):
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
    conversion: Mapping[str, Any] = msgspec.field(default_factory=dict)

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


def kind_of(definition: CustomResourceDefinition) -> Kind:
    """The kind of a definition."""
    spec, accepted = definition.spec, definition.status.accepted_names
    names = accepted if accepted.plural and accepted.kind else spec.names
    return Kind(
        definition=definition.metadata.name,
        uid=definition.metadata.uid,
        group=spec.group,
        plural=names.plural,
        singular=names.singular or names.kind.lower(),
        kind=names.kind,
        list_kind=names.list_kind or f"{names.kind}List",
        short_names=tuple(names.short_names),
        categories=tuple(names.categories),
        namespaced=spec.scope == NAMESPACED,
        versions=tuple(map(_version, spec.versions)),
        conversion={} if spec.conversion is None else json_codec.to_builtins(spec.conversion),
    )


def _version(version: CustomResourceDefinitionVersion) -> KindVersion:
    subresources = version.subresources or CustomResourceSubresources()
    scale = subresources.scale
    return KindVersion(
        name=version.name,
        served=version.served,
        stored=version.storage,
        deprecated=version.deprecated,
        deprecation_warning=version.deprecation_warning,
        props=None if version.schema is None else version.schema.open_api_v3_schema,
        has_status=subresources.status is not None,
        scale=None
        if scale is None
        else ScalePaths(scale.spec_replicas_path, scale.status_replicas_path, scale.label_selector_path or ""),
        columns=tuple(json_codec.to_builtins(version.additional_printer_columns)),
        selectable=tuple(each.json_path for each in version.selectable_fields),
    )
