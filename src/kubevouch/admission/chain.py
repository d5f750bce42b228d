"""Runs the plug-ins of both phases in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubevouch.admission.interface import MutatingPlugin, Operation, Request, ValidatingPlugin
from kubevouch.admission.observer import ADMIT, UNOBSERVED, VALIDATE, Observer, Watch
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import GroupResource


class AdmissionChain:
    """The mutating and the validating plug-ins, each in the order given."""

    def __init__(self, mutating: Sequence[MutatingPlugin] = (), validating: Sequence[ValidatingPlugin] = ()) -> None:
        self._mutating = tuple(mutating)
        self._validating = tuple(validating)
        self._observer: Observer = UNOBSERVED
        # Which plug-ins handle what never changes, so each combination is worked out once.
        self._mutating_for: dict[tuple[Operation, GroupResource, str], tuple[MutatingPlugin, ...]] = {}
        self._validating_for: dict[tuple[Operation, GroupResource, str], tuple[ValidatingPlugin, ...]] = {}

    def report_to(self, observer: Observer) -> None:
        """Tell ``observer`` what is done from now on."""
        self._observer = observer

    def use(self, other: AdmissionChain) -> None:
        """Take over the plug-ins of ``other``: plug-ins read caches that exist only after the stores are made."""
        self._mutating, self._validating = other._mutating, other._validating
        self._mutating_for.clear()
        self._validating_for.clear()

    async def admit(self, request: Request) -> Any:
        """The object after all mutating plug-ins. Raises ``APIStatusError`` from the first that refuses.

        They run a second time when one of them asks for it.
        """
        key = (request.operation, request.resource, request.subresource)
        plugins = self._mutating_for.get(key)
        if plugins is None:
            plugins = tuple(plugin for plugin in self._mutating if plugin.handles(*key))
            self._mutating_for[key] = plugins
        request.observer = self._observer
        watch = Watch(self._observer, ADMIT, request.operation)
        await _admit(plugins, request, watch)
        if request.reinvocation.wanted:
            request.reinvocation.again = True
            await _admit(plugins, request, watch)
        watch.ended()
        return request.obj

    async def validate(self, request: Request) -> None:
        """Raises ``APIStatusError`` from the first plug-in that refuses."""
        key = (request.operation, request.resource, request.subresource)
        plugins = self._validating_for.get(key)
        if plugins is None:
            plugins = tuple(plugin for plugin in self._validating if plugin.handles(*key))
            self._validating_for[key] = plugins
        request.observer = self._observer
        watch = Watch(self._observer, VALIDATE, request.operation)
        for plugin in plugins:
            try:
                await plugin.validate(request)
            except APIStatusError:
                watch.refused(plugin.name)
                raise
            watch.ran(plugin.name)
        watch.ended()


async def _admit(plugins: Sequence[MutatingPlugin], request: Request, watch: Watch) -> None:
    for plugin in plugins:
        try:
            request.obj = await plugin.admit(request)
        except APIStatusError:
            watch.refused(plugin.name)
            raise
        watch.ran(plugin.name)
