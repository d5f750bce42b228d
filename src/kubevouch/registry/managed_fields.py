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
    """One :class:`ManagedFieldsManager` for the resource and one for each subresource."""

    def __init__(self, definition: Definition[T]) -> None:
        resource = definition.resource
        self._managers = {
            "": ManagedFieldsManager(resource, "", definition.strategy.reset_fields, definition.defaulter)
        }
        for sub in definition.subresources:
            self._managers[sub.name] = ManagedFieldsManager(
                resource, sub.name, sub.strategy.reset_fields, definition.defaulter
            )

    def on_create(self, ctx: Context, obj: T) -> T:
        return self._managers[""].track_update(
            obj, None, ctx.field_manager, Time.of(ctx.now), reset=ctx.resets_managed_fields
        )

    def on_update(self, ctx: Context, new: T, old: T, subresource: str) -> T:
        return self._managers[subresource].track_update(
            new, old, ctx.field_manager, Time.of(ctx.now), reset=ctx.resets_managed_fields
        )

    def apply(self, ctx: Context, live: T | None, patch: Any, subresource: str, *, force: bool) -> T:
        """Raises ``APIStatusError``: 400, 409, 500."""
        return self._managers[subresource].apply(live, patch, ctx.field_manager, Time.of(ctx.now), force=force)

    @staticmethod
    def settle(new: T, old: T) -> T:
        """A write that changes nothing but times in managedFields is none."""
        return managed_fields.restore_times(new, old)
