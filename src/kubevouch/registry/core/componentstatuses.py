"""ComponentStatus: asked for at each read, never stored (pkg/registry/core/componentstatus; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.core_v1.components import HEALTHY, ComponentCondition, ComponentStatus
from kubevouch.machinery import errors
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.registry.interface import Column, Definition, Printer, Strategy
from kubevouch.registry.printing import NAME
from kubevouch.registry.reader import ListResult
from kubevouch.registry.store import ResourceStore
from kubevouch.storage.interface import Revision
from kubevouch.storage.watchcache.objects import Stored
from kubevouch.storage.watchcache.resource_cache import Scope

Ask = Callable[[], Awaitable[str]]
"""Says why a part is not healthy, or nothing."""


class ComponentStatuses(ResourceStore[ComponentStatus]):
    """Read by the handlers of what is stored; there are no verbs that would ask more of it.

    Args:
        components: by name; looked at anew each time.
    """

    def __init__(self, components: Mapping[str, Ask]) -> None:
        self.definition = DEFINITION
        self._conversion = None
        self._components = components

    async def get(self, namespace: str, name: str, resource_version: str = "") -> Stored[ComponentStatus]:  # noqa: ARG002
        ask = self._components.get(name)
        if ask is None:
            raise errors.untyped(f"Component not found: {name}")
        return await self._asked(name, ask)

    async def list_(
        self,
        scope: Scope[ComponentStatus],
        *,
        limit: int = 0,  # noqa: ARG002 - there is one page
        continue_token: str = "",  # noqa: ARG002
        resource_version: str = "",  # noqa: ARG002
        match: str = "",  # noqa: ARG002
    ) -> ListResult[ComponentStatus]:
        found = [await self._asked(name, ask) for name, ask in self._components.items()]
        if scope.key or scope.matches:
            found = [each for each in found if scope.covers(each)]
        return ListResult(found, Revision(0))

    async def _asked(self, name: str, ask: Ask) -> Stored[ComponentStatus]:
        why = await ask()
        status = wellknown.CONDITION_FALSE if why else wellknown.CONDITION_TRUE
        condition = ComponentCondition(type=HEALTHY, status=status, message=why or "ok")
        obj = ComponentStatus(metadata=ObjectMeta(name=name), conditions=[condition])
        return Stored(self.definition.key("", name), obj, Revision(0), b"")


def _cells(component: ComponentStatus, _now: dt.datetime) -> list[object]:
    for each in component.conditions:
        if each.type == HEALTHY:
            word = "Healthy" if each.status == wellknown.CONDITION_TRUE else "Unhealthy"
            return [component.metadata.name, word, each.message, each.error]
    return [component.metadata.name, "Unknown", "", ""]


DEFINITION = Definition(
    resource=catalog.COMPONENT_STATUSES,
    strategy=Strategy[ComponentStatus](),
    printer=Printer(
        (
            NAME,
            Column("Status", description="Whether it is healthy."),
            Column("Message", description="What it says of itself."),
            Column("Error", description="Why it could not be asked."),
        ),
        _cells,
    ),
    verbs=("get", "list"),
    is_stored=False,
    deprecation="v1 ComponentStatus is deprecated in v1.19+",
)
