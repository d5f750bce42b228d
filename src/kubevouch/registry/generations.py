"""metadata.generation: 1 at first, and one more with each change that counts (pkg/registry; Kubernetes 1.36)."""

from __future__ import annotations

from typing import Any, TypeVar

from kubevouch.machinery.meta import Object, replace_metadata
from kubevouch.registry.interface import Context, Strategy

T = TypeVar("T", bound=Object)


class CountingStrategy(Strategy[T]):
    """Counts the changes of spec, unless ``counts`` says otherwise."""

    def counts(self, new: Any, old: Any) -> bool:
        """Whether the change from ``old`` to ``new`` is one that counts."""
        return bool(new.spec != old.spec)

    def prepare_for_create(self, _ctx: Context, obj: T) -> T:
        counted: T = replace_metadata(obj, generation=1)
        return counted

    def prepare_for_update(self, _ctx: Context, new: T, old: T) -> T:
        counted: T = replace_metadata(new, generation=old.metadata.generation + self.counts(new, old))
        return counted
