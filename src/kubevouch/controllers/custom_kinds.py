"""The kinds that definitions add to those a server has, for controllers that work on whatever there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import msgspec

from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition
from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.client.cache.informer import ChangeHandler, InformerFactory
from kubevouch.client.interface import Client
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.versions import version_priority

_ESTABLISHED = "Established"


class CustomKind(msgspec.Struct, frozen=True):
    """A kind that is served: the resource in its preferred version, and every apiVersion that it is served in."""

    resource: Resource[CustomObject]
    api_versions: tuple[str, ...]


Heard = Callable[[CustomKind], None]


def custom_kind(definition: CustomResourceDefinition) -> CustomKind | None:
    """The kind that a definition stands for; None while it is not served."""
    served = sorted((v.name for v in definition.spec.versions if v.served), key=version_priority, reverse=True)
    conditions = definition.status.conditions or ()
    if not served or not any(each.type == _ESTABLISHED and each.status == "True" for each in conditions):
        return None
    group, names = definition.spec.group, definition.status.accepted_names
    resource = Resource(
        group, served[0], names.kind, names.plural, CustomObject, namespaced=definition.spec.scope == "Namespaced"
    )
    return CustomKind(resource, tuple(f"{group}/{name}" for name in served))


class CustomKinds:
    """The custom kinds of a server as a cache knows them.

    Args:
        client: reads the definitions, unless somebody else does already.
        came: is told of each kind that is there or comes.
        went: is told of each that goes. One whose names or versions change goes and comes.
    """

    def __init__(
        self, informers: InformerFactory, client: Client, came: Heard | None = None, went: Heard | None = None
    ) -> None:
        self._came = came
        self._went = went
        self._kinds: dict[str, CustomKind] = {}
        # Of which nobody was told yet. To follow a kind takes a third of a millisecond, and a server may have hundreds.
        self._coming: dict[str, CustomKind] = {}
        informers.informer(CUSTOM_RESOURCE_DEFINITIONS, client=client).add_handler(ChangeHandler(self._changed))

    def __iter__(self) -> Iterator[Resource[CustomObject]]:
        return iter([kind.resource for kind in self._kinds.values()])

    @property
    def has_told(self) -> bool:
        """Whether ``came`` has been told of all that there are."""
        return not self._coming

    def _changed(self, definition: CustomResourceDefinition, gone: bool) -> None:
        name = definition.metadata.name
        kind, known = None if gone else custom_kind(definition), self._kinds.get(name)
        if kind == known:
            return
        if known is not None:
            del self._kinds[name]
            if self._coming.pop(name, None) is None and self._went is not None:
                self._went(known)
        if kind is not None:
            self._kinds[name] = kind
            if self._came is not None:
                if not self._coming:
                    asyncio.get_running_loop().call_soon(self._tell)
                self._coming[name] = kind

    def _tell(self) -> None:
        """Of one kind in each turn of the loop."""
        if self._came is None or not self._coming:
            return
        self._came(self._coming.pop(next(iter(self._coming))))
        if self._coming:
            asyncio.get_running_loop().call_soon(self._tell)
