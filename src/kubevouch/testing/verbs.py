"""What a test does with a cluster, call by call, without a coroutine in sight."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar, overload

from kubevouch.client import interface
from kubevouch.client.interface import Client, ListOptions, WriteOptions
from kubevouch.machinery.meta import Object, replace_metadata
from kubevouch.machinery.scheme import Resource
from kubevouch.testing.manifests import Kinds, Manifest, decoded, namespace_for, shown
from kubevouch.testing.waiting import TIMEOUT_SECONDS, exists, wait_for, wait_for_deletion

T = TypeVar("T", bound=Object)
R = TypeVar("R")

FIELD_MANAGER = "kubevouch-testing"
# A typing error in a test should fail it, as kubectl's own default has it.
_STRICT = WriteOptions(field_manager=FIELD_MANAGER, field_validation="Strict")


class _Call(Protocol):
    def __call__(self, coroutine: Coroutine[Any, Any, R], /) -> R: ...


class Verbs:
    """The verbs as one user.

    ``kind`` is a handle of ``kubevouch.api.catalog``, or a name as kubectl takes it: ``ConfigMap``, ``configmaps``,
    ``cm``. Where a namespace is needed and none is given, it is ``default``. Every verb raises ``APIStatusError`` with
    Kubernetes' own text when the server refuses, and ``ManifestError`` for what is no object.

    Objects of Kubernetes' own kinds are typed; those whose kind a CustomResourceDefinition brought are dicts.
    """

    def __init__(self, call: _Call, client: Callable[[], Client], kinds: Kinds) -> None:
        self._call = call
        self._verbs_client = client
        self._kinds = kinds

    def resource(self, kind: str) -> Resource[Any]:
        """The handle of a kind, which the methods of ``client()`` take. Raises ``ManifestError``."""
        return self._kinds.named(kind)

    # -------------------------------------------------------------- writing

    @overload
    def apply(self, manifest: T, *, subresource: str = "") -> T: ...
    @overload
    def apply(self, manifest: Manifest, *, subresource: str = "") -> Any: ...
    def apply(self, manifest: Manifest, *, subresource: str = "") -> Any:
        """Make or change one object by server-side apply, taking over fields from other managers."""
        resource, tree = self._kinds.one_tree(manifest)
        return self._call(self._apply(resource, tree, subresource))

    def apply_all(self, manifests: Manifest) -> list[Any]:
        """Every document of a YAML text, in its order."""
        return [self._call(self._apply(resource, tree, "")) for resource, tree in self._kinds.trees(manifests)]

    @overload
    def create(self, manifest: T) -> T: ...
    @overload
    def create(self, manifest: Manifest) -> Any: ...
    def create(self, manifest: Manifest) -> Any:
        """Make one object, which may have ``generateName``."""
        resource, tree = self._kinds.one_tree(manifest)
        obj = decoded(resource, tree)
        obj = replace_metadata(obj, namespace=namespace_for(resource, obj.metadata.namespace))
        return shown(self._call(self._verbs_client().create(resource, obj, _STRICT)))

    @overload
    def update(self, obj: T, *, subresource: str = "") -> T: ...
    @overload
    def update(self, obj: Mapping[str, Any], *, subresource: str = "") -> Any: ...
    def update(self, obj: Any, *, subresource: str = "") -> Any:
        """Replace an object that was read before, or its ``/status``."""
        if isinstance(obj, Mapping):
            resource, tree = self._kinds.one_tree(obj)
            obj = decoded(resource, tree)
        else:
            resource = self._kinds.of(obj)
        return shown(self._call(self._verbs_client().update(resource, obj, _STRICT, subresource=subresource)))

    def delete(self, kind: str | Resource[Any], name: str, namespace: str = "") -> None:
        resource = self._resource(kind)
        self._call(self._verbs_client().delete(resource, name, namespace_for(resource, namespace)))

    # -------------------------------------------------------------- reading

    @overload
    def get(self, kind: Resource[T], name: str, namespace: str = "") -> T: ...
    @overload
    def get(self, kind: str, name: str, namespace: str = "") -> Any: ...
    def get(self, kind: str | Resource[Any], name: str, namespace: str = "") -> Any:
        resource = self._resource(kind)
        return shown(self._call(self._verbs_client().get(resource, name, namespace_for(resource, namespace))))

    @overload
    def list(self, kind: Resource[T], namespace: str = "", *, label_selector: str = "") -> list[T]: ...
    @overload
    def list(self, kind: str, namespace: str = "", *, label_selector: str = "") -> list[Any]: ...
    def list(self, kind: str | Resource[Any], namespace: str = "", *, label_selector: str = "") -> list[Any]:
        """All objects; an empty namespace means all namespaces."""
        options = ListOptions(label_selector=label_selector)
        found = self._call(self._verbs_client().list(self._resource(kind), namespace, options))
        return [shown(each) for each in found.items]

    # -------------------------------------------------------------- waiting

    @overload
    def wait_for(
        self,
        kind: Resource[T],
        name: str,
        namespace: str = "",
        *,
        until: Callable[[T], bool] = ...,
        timeout: float = ...,
    ) -> T: ...
    @overload
    def wait_for(
        self,
        kind: str,
        name: str,
        namespace: str = "",
        *,
        until: Callable[[Any], bool] = ...,
        timeout: float = ...,
    ) -> Any: ...
    def wait_for(
        self,
        kind: str | Resource[Any],
        name: str,
        namespace: str = "",
        *,
        until: Callable[[Any], bool] = exists,
        timeout: float = TIMEOUT_SECONDS,
    ) -> Any:
        """The object as soon as ``until`` holds for it; see ``testing.waiting.wait_for``.

        For a dict, a key that is not there yet means that it does not hold yet.
        """
        resource = self._resource(kind)
        where = namespace_for(resource, namespace)
        reached = _of_shown(until)
        waited = wait_for(self._verbs_client(), resource, name, where, until=reached, timeout=timeout)
        return shown(self._call(waited))

    def wait_for_deletion(
        self, kind: str | Resource[Any], name: str, namespace: str = "", *, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        resource = self._resource(kind)
        where = namespace_for(resource, namespace)
        self._call(wait_for_deletion(self._verbs_client(), resource, name, where, timeout=timeout))

    async def _apply(self, resource: Resource[Any], tree: dict[str, Any], subresource: str) -> Any:
        meta = tree.get("metadata") or {}
        made = await self._verbs_client().patch(
            resource,
            str(meta.get("name") or ""),
            tree,
            interface.APPLY_PATCH,
            namespace_for(resource, str(meta.get("namespace") or "")),
            _STRICT,
            subresource=subresource,
            force=True,
        )
        return shown(made)

    def _resource(self, kind: str | Resource[Any]) -> Resource[Any]:
        return self._kinds.named(kind) if isinstance(kind, str) else kind


def _of_shown(until: Callable[[Any], bool]) -> Callable[[Any], bool]:
    @functools.wraps(until)
    def reached(obj: Any) -> bool:
        tree = shown(obj)
        if tree is obj:
            return until(obj)
        try:
            return until(tree)
        except (KeyError, IndexError, TypeError):
            return False  # what it looks at is not there yet

    return reached
