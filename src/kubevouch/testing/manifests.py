"""What a test writes down: objects, trees or YAML, and the kinds they are of."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kubevouch.api import catalog
from kubevouch.machinery.codec import json_codec, yamltext
from kubevouch.machinery.custom_object import CustomCodec, CustomObject
from kubevouch.machinery.meta import Object
from kubevouch.machinery.scheme import GroupVersion, GroupVersionKind, Resource

Manifest = Object | Mapping[str, Any] | str | bytes
"""An object, a JSON tree with ``apiVersion`` and ``kind``, or YAML."""

DEFAULT_NAMESPACE = "default"

_BUILT_IN: tuple[Resource[Any], ...] = (*catalog.STORED, *catalog.VIEWS)


class ManifestError(ValueError):
    """What a test gave is no object of a served kind."""


class Kinds:
    """The kinds that a cluster serves: Kubernetes' own, and those that definitions brought.

    Args:
        custom: the latter, each version of its own, the preferred one first.
    """

    def __init__(self, custom: Callable[[], Sequence[Resource[Any]]] = tuple) -> None:
        self._custom = custom

    def named(self, kind: str) -> Resource[Any]:
        """The resource of a kind, plural, singular or short name, with ``.group`` or ``.version.group`` or without.

        As kubectl takes them.

        Raises:
            ManifestError: nothing of that name is served.
        """
        name, _, group = kind.lower().partition(".")
        known = (*_BUILT_IN, *self._custom())
        for resource in known:
            names = {resource.plural, resource.singular, resource.kind.lower(), *resource.short_names}
            if name in names and group in ("", resource.group, f"{resource.version}.{resource.group}"):
                return resource
        raise ManifestError(f"got the kind {kind!r}, expected one of: {_told(known)}")

    def of(self, obj: Object) -> Resource[Any]:
        """Raises :class:`ManifestError` for an object that is not stored, such as a SubjectAccessReview."""
        for resource in _BUILT_IN:
            if type(obj) is resource.type and obj.api_version in ("", resource.api_version):
                return resource
        raise ManifestError(f"got a {type(obj).__name__}, expected an object of a kind that is stored")

    def trees(self, manifest: Manifest) -> list[tuple[Resource[Any], dict[str, Any]]]:
        """The documents of a manifest, each with its resource; a ``List`` counts as its items.

        Raises:
            ManifestError: not YAML, no kind, or a kind that is not served.
        """
        if isinstance(manifest, Object):
            resource = self.of(manifest)
            tree = json_codec.to_builtins(manifest)
            return [(resource, {**tree, "apiVersion": resource.api_version, "kind": resource.kind})]
        if isinstance(manifest, Mapping):
            return self._items(dict(manifest))
        try:
            text = manifest.decode() if isinstance(manifest, bytes) else manifest
            # Written inside a test, it is indented like the test.
            documents = yamltext.load_documents(textwrap.dedent(text))
        except (yamltext.YAMLError, UnicodeDecodeError) as err:
            raise ManifestError(str(err)) from err
        return [found for document in documents for found in self._items(document)]

    def one_tree(self, manifest: Manifest) -> tuple[Resource[Any], dict[str, Any]]:
        """The one document of a manifest. Raises :class:`ManifestError`."""
        found = self.trees(manifest)
        if len(found) != 1:
            raise ManifestError(f"got {len(found)} documents, expected one; apply_all takes several")
        return found[0]

    def _items(self, tree: Any) -> list[tuple[Resource[Any], dict[str, Any]]]:
        if not isinstance(tree, dict) or not tree.get("kind") or not tree.get("apiVersion"):
            raise ManifestError(f"got {str(tree)[:80]!r}, expected an object with apiVersion and kind")
        if tree["kind"] == "List":
            return [found for item in tree.get("items") or [] for found in self._items(item)]
        try:
            group_version = GroupVersion.parse(str(tree["apiVersion"]))
        except ValueError as err:
            raise ManifestError(str(err)) from err
        gvk = GroupVersionKind(group_version.group, group_version.version, str(tree["kind"]))
        resource = catalog.SCHEME.resources.get(gvk)
        if resource is None:
            custom = self._custom()
            resource = next((each for each in custom if each.gvk == gvk), None)
            if resource is None:
                served = [each.api_version for each in (*_BUILT_IN, *custom) if each.kind == gvk.kind]
                if served:
                    raise ManifestError(
                        f"got the kind {gvk.kind!r} of {gvk.api_version!r}, expected it in {' or '.join(served)}"
                    )
                known = _told((*_BUILT_IN, *custom))
                raise ManifestError(
                    f"got the kind {gvk.kind!r} of {gvk.api_version!r}, expected one of: {known}; kinds of one's own "
                    "come with Cluster(crds=[...]) or cluster.crd(...)"
                )
        return [(resource, tree)]


def _told(known: Iterable[Resource[Any]]) -> str:
    return ", ".join(sorted({resource.kind for resource in known}))


def namespace_for(resource: Resource[Any], namespace: str) -> str:
    """``default`` where a namespace is needed and none is given, as kubectl has it."""
    return (namespace or DEFAULT_NAMESPACE) if resource.namespaced else ""


def decoded(resource: Resource[Any], tree: Mapping[str, Any]) -> Any:
    """The struct with its defaults. Raises :class:`ManifestError` for values that do not fit and unknown fields."""
    try:
        read = resource.codec.from_tree(dict(tree))
    except json_codec.UnmarshalError as err:
        raise ManifestError(str(err)) from err
    if read.strict_errors:
        raise ManifestError(f"strict decoding error: {', '.join(read.strict_errors)}")
    return catalog.SCHEME.default(resource.codec.bare(read.value))


def shown(obj: Any) -> Any:
    """What a test gets to see: a plain tree of an object whose kind a definition brought."""
    if isinstance(obj, CustomObject):
        return {"apiVersion": obj.api_version, "kind": obj.kind, **_CUSTOM.to_tree(obj)}
    return obj


_CUSTOM = CustomCodec()
