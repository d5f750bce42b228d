"""metadata.generation of DeviceClass and ResourceSlice (pkg/registry/resource; Kubernetes 1.36)."""

from __future__ import annotations

from typing import TypeVar

from kubevouch.api.resource_v1 import DeviceClass, ResourceSlice
from kubevouch.machinery.meta import replace_metadata
from kubevouch.registry.interface import Context, Strategy

T = TypeVar("T", DeviceClass, ResourceSlice)


class SpecCountingStrategy(Strategy[T]):
    """Counts the changes of spec."""

    def prepare_for_create(self, _ctx: Context, obj: T) -> T:
        counted: T = replace_metadata(obj, generation=1)
        return counted

    def prepare_for_update(self, _ctx: Context, new: T, old: T) -> T:
        generation = old.metadata.generation + (new.spec != old.spec)
        counted: T = replace_metadata(new, generation=generation)
        return counted
