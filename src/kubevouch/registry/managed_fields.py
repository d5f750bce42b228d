"""Tracks field owners for every way in which a resource is written."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from kubevouch.machinery.meta import Object, replace_metadata
from kubevouch.machinery.text.times import Time
from kubevouch.machinery.writing import managed_fields
from kubevouch.machinery.writing.managed_fields import ManagedFieldsManager
from kubevouch.machinery.writing.managed_versions import Foreign
from kubevouch.registry.interface import Context, Definition

T = TypeVar("T", bound=Object)


class FieldTracker(Generic[T]):
    """A :class:`ManagedFieldsManager` for each version of the resource and each of its subresources."""

    def __init__(self, definition: Definition[T]) -> None:
        stored = definition.resource
        views = {view.resource.api_version: view for view in definition.views if not view.same_fields}
        same = [
            *definition.kindred,
            stored.api_version,
            *(view.resource.api_version for view in definition.views if view.same_fields),
        ]
        writers = {"": definition.strategy} | {sub.name: sub.strategy for sub in definition.subresources}
        self._managers: dict[tuple[str, str], ManagedFieldsManager] = {}
        for resource, defaulter in (
            (stored, definition.defaulter),
            *((view.resource, view.defaulter) for view in definition.views),
        ):
            own = views.get(resource.api_version)
            if own is None:
                foreign = [Foreign(view.resource, view.from_storage, view.to_storage) for view in views.values()]
            else:
                foreign = [Foreign(stored, own.to_storage, own.from_storage)]
            for subresource, strategy in writers.items():
                self._managers[resource.api_version, subresource] = ManagedFieldsManager(
                    resource, subresource, strategy.reset_fields, defaulter,
                    kindred=same if own is None else (), foreign=foreign,
                )  # fmt: skip
        self._stored = stored.api_version
        # Writes are tracked on stored objects; one through such a view on objects as the view has them.
        self._views = views

    def _track(self, ctx: Context, new: T, old: T | None, subresource: str) -> T:
        version = ctx.api_version or self._stored
        tracker, view, now = self._managers[version, subresource], self._views.get(version), Time.of(ctx.now)
        if view is None:
            return tracker.track_update(new, old, ctx.field_manager, now, reset=ctx.resets_managed_fields)
        before = None if old is None else view.from_storage(old)
        seen: Object = tracker.track_update(
            view.from_storage(new), before, ctx.field_manager, now, reset=ctx.resets_managed_fields
        )
        tracked: T = replace_metadata(new, managed_fields=seen.metadata.managed_fields)
        return tracked

    def on_create(self, ctx: Context, obj: T) -> T:
        return self._track(ctx, obj, None, "")

    def on_update(self, ctx: Context, new: T, old: T, subresource: str) -> T:
        return self._track(ctx, new, old, subresource)

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
