"""Admission that objects configure, kept up to date from the server's caches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kubevouch.admission.dynamic.configured import ConfiguredAdmission
from kubevouch.admission.dynamic.matching import NamespaceGetter
from kubevouch.admission.dynamic.policy_source import Misconfigured
from kubevouch.api import catalog
from kubevouch.authorization.interface import Authorizer
from kubevouch.machinery.scheme import GroupVersionKind, Resource
from kubevouch.registry.interface import Conversion
from kubevouch.server.apiserver import Caches
from kubevouch.storage.interface import StoreError
from kubevouch.storage.watchcache.objects import CacheEvent
from kubevouch.storage.watchcache.resource_cache import ResourceCache
from kubevouch.util.clock import Clock

_STORED = {resource.gvk: resource for resource in catalog.STORED}


def configured_admission(
    caches: Caches, clock: Clock, namespace_named: NamespaceGetter, authorizer: Authorizer
) -> ConfiguredAdmission:
    """Webhooks and policies as the caches have them, from the moment they are loaded."""

    async def objects_of(kind: GroupVersionKind) -> _CachedObjects | None:
        resource = _STORED.get(kind)
        if resource is not None:
            return _CachedObjects(resource, caches[resource.plural])
        try:
            found = await caches.custom_kind(kind)
        except (StoreError, ValueError) as err:
            raise Misconfigured(f"paramKind kind `{kind}` not yet synced to use for admission: {err}") from err
        return None if found is None else _CachedObjects(found[0].resource, found[1], found[0].conversion)

    configured = ConfiguredAdmission(clock, namespace_named, objects_of, authorizer)
    mutating, validating, policies = configured.mutating, configured.validating, configured.policies
    _follow(caches[catalog.MUTATING_WEBHOOK_CONFIGURATIONS.plural], mutating.load, mutating.changed)
    _follow(caches[catalog.VALIDATING_WEBHOOK_CONFIGURATIONS.plural], validating.load, validating.changed)
    _follow(caches[catalog.VALIDATING_ADMISSION_POLICIES.plural], policies.load_policies, policies.policy_changed)
    changing = configured.mutating_policies
    _follow(caches[catalog.MUTATING_ADMISSION_POLICIES.plural], changing.load_policies, changing.policy_changed)
    _follow(caches[catalog.MUTATING_ADMISSION_POLICY_BINDINGS.plural], changing.load_bindings, changing.binding_changed)
    _follow(
        caches[catalog.VALIDATING_ADMISSION_POLICY_BINDINGS.plural], policies.load_bindings, policies.binding_changed
    )
    return configured


def _follow(
    cache: ResourceCache[Any], load: Callable[[Iterable[Any]], None], changed: Callable[[str, Any], None]
) -> None:
    def follow_event(event: CacheEvent[Any]) -> None:
        changed(event.key.removeprefix(cache.prefix), None if event.current is None else event.current.obj)

    cache.on_event(follow_event)
    cache.on_load(lambda: load(stored.obj for stored in cache.values()))


class _CachedObjects:
    """The objects of a cache, by namespace and name."""

    def __init__(
        self, resource: Resource[Any], cache: ResourceCache[Any], conversion: Conversion[Any] | None = None
    ) -> None:
        self.resource = resource
        self._cache = cache
        self._conversion = conversion

    async def get(self, namespace: str, name: str) -> Any | None:
        stored = self._cache.get(f"{self._folder(namespace)}{name}")
        return None if stored is None else (await self._served([stored.obj]))[0]

    async def list(self, namespace: str) -> Sequence[Any]:
        return await self._served([stored.obj for stored in self._cache.scan(self._folder(namespace))])

    async def _served(self, objs: Sequence[Any]) -> Sequence[Any]:
        return objs if self._conversion is None else await self._conversion.to_served(objs)

    def _folder(self, namespace: str) -> str:
        return f"{self._cache.prefix}{namespace}/" if namespace else self._cache.prefix
