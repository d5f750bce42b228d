"""Conversion between versions that differ in nothing but their schemas.

Source: apiextensions-apiserver pkg/apiserver/conversion/nop_converter.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubevouch.machinery.custom_object import CustomObject
from kubevouch.registry.apiextensions.custom_resources import ServedKind, ServedKindVersion
from kubevouch.util.turns import give_way

# Objects converted before others have their turn.
_SLICE = 50


class RelabellingConversion:
    """A ``registry.interface.Conversion``: the other apiVersion, then what that version's schema makes of it."""

    def __init__(self, owner: ServedKind, version: ServedKindVersion) -> None:
        self._owner = owner
        self._version = version

    def serves(self, obj: CustomObject) -> bool:
        return obj.api_version == self._version.api_version

    def at_once(self, obj: CustomObject) -> CustomObject:
        return obj if self.serves(obj) else _relabelled(obj, self._version)

    async def to_served(self, objs: Sequence[CustomObject]) -> list[CustomObject]:
        made = []
        for number, obj in enumerate(objs, 1):
            made.append(self.at_once(obj))
            if number % _SLICE == 0:
                await give_way()
        return made

    async def to_stored(self, obj: CustomObject) -> CustomObject:
        stored = self._owner.stored
        return obj if obj.api_version == stored.api_version else _relabelled(obj, stored)


def _relabelled(obj: CustomObject, version: ServedKindVersion) -> CustomObject:
    tree = {**msgspec.to_builtins(obj.content), "kind": obj.kind, "apiVersion": version.api_version, "metadata": {}}
    version.compiled.clean(tree, stored=True)
    content = {key: value for key, value in tree.items() if key not in ("kind", "apiVersion", "metadata")}
    return msgspec.structs.replace(obj, api_version=version.api_version, content=content)
