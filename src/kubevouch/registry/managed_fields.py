"""Tracks field owners for every way in which a resource is written."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from kubevouch.machinery import managed_fields
from kubevouch.machinery.managed_fields import ManagedFieldsManager
from kubevouch.machinery.meta import Object
from kubevouch.machinery.times import Time
from kubevouch.registry.interface import Context, Definition

T = TypeVar("T", bound=Object)


class FieldTracker(Generic[T]):
    """A :class:`ManagedFieldsManager` for each version of the resource and each of its subresources."""

    def __init__(self, definition: Definition[T]) -> None:
        stored = definition.resource
        same = [stored.api_version, *(view.resource.api_version for view in definition.views if view.same_fields)]
        other = [view.resource.api_version for view in definition.views if not view.same_fields]
        writers = {"": definition.strategy} | {sub.name: sub.strategy for sub in definition.subresources}
        self._managers: dict[tuple[str, str], ManagedFieldsManager] = {}
        for resource, defaulter in (
            (stored, definition.defaulter),
            *((view.resource, view.defaulter) for view in definition.views),
        ):
            kindred, foreign = (same, other) if resource.api_version in same else ([], same)
            for subresource, strategy in writers.items():
                self._managers[resource.api_version, subresource] = ManagedFieldsManager(
                    resource, subresource, strategy.reset_fields, defaulter, kindred=kindred, foreign=foreign
                )
        self._stored = stored.api_version
        # Writes are tracked on stored objects: only a version that names their fields alike can be written down.
        self._tracked = frozenset(same)

    def _tracker(self, ctx: Context, subresource: str) -> ManagedFieldsManager:
        version = ctx.api_version if ctx.api_version in self._tracked else self._stored
        return self._managers[version, subresource]

    def on_create(self, ctx: Context, obj: T) -> T:
        return self._tracker(ctx, "").track_update(
            obj, None, ctx.field_manager, Time.of(ctx.now), reset=ctx.resets_managed_fields
        )

    def on_update(self, ctx: Context, new: T, old: T, subresource: str) -> T:
        return self._tracker(ctx, subresource).track_update(
            new, old, ctx.field_manager, Time.of(ctx.now), reset=ctx.resets_managed_fields
        )

    def apply(self, ctx: Context, live: Any | None, patch: Any, subresource: str, *, force: bool) -> Any:
        """``live`` and what is returned are objects of ``ctx.api_version``.

        Raises:
            APIStatusError: 400, 409, 500.
        """
        manager = self._managers[ctx.api_version or self._stored, subresource]
        return manager.apply(live, patch, ctx.field_manager, Time.of(ctx.now), force=force)

    @staticmethod
    def settle(new: T, old: T) -> T:
        """A write that changes nothing but times in managedFields is none."""
        return managed_fields.restore_times(new, old)
