"""Reading and writing the releases of ``records/decision_releases.py``.

Who lacks the right goes on without: what was taken back may then be put back by a process that does not know of it.
"""

from __future__ import annotations

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client import stored
from kubevouch.client.interface import Client
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Object, ObjectMeta
from kubevouch.records import decision_releases
from kubevouch.records.decision_releases import MAX_SUCCESSORS, Release
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.decision_releases")

Read = dict[str, ConfigMap | None]
"""By name; None for what is not there."""

_NAMESPACE = wellknown.KUBE_SYSTEM_NAMESPACE
_REMEDY = "apply deploy/controllers/access.yaml and deploy/crds/guards.yaml of this version"


class DecisionReleases:
    """What all processes of one cluster know of decisions that were taken back."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def find(self, plural: str, held: Object, read: Read | None = None) -> Release | None:
        """That of an object as a ledger has it, or of one that took its place.

        Args:
            read: ConfigMaps that were read for others in the same turn; those that are read here are added.

        Raises:
            APIStatusError, TransportError
        """
        uid, generation = held.metadata.uid, held.metadata.generation
        read = {} if read is None else read
        for _ in range(MAX_SUCCESSORS):
            name = decision_releases.config_map_of(uid)
            if name not in read:
                read[name] = await self._read(name)
            config_map = read[name]
            found = None if config_map is None else decision_releases.find(config_map.data, plural, uid)
            if found is None:
                return None
            if not found.successor:
                return found if generation <= found.generation else None
            # Whatever was taken back of the successor was said after this.
            uid, generation = found.successor, 0
        return None

    async def _read(self, name: str) -> ConfigMap | None:
        try:
            return await stored.find(self._client, CONFIG_MAPS, name, _NAMESPACE)
        except APIStatusError as err:
            if err.code != 403:
                raise
            log.error("releases of decisions by other processes cannot be read", err=str(err), hint=_REMEDY)
            return None

    async def release(self, plural: str, obj: Object) -> None:
        """An admitted request has taken it back. Raises APIStatusError, TransportError."""
        release = Release(at=self._clock.now(), generation=obj.metadata.generation)
        await self._write(plural, obj, release)

    async def replace(self, plural: str, held: Object, made: Object) -> None:
        """Another object says the same in its place. Raises APIStatusError, TransportError."""
        if held.metadata.uid != made.metadata.uid:
            await self._write(plural, held, Release(at=self._clock.now(), successor=made.metadata.uid))

    async def _write(self, plural: str, obj: Object, release: Release) -> None:
        uid = obj.metadata.uid
        name = decision_releases.config_map_of(uid)

        def decide(found: ConfigMap | None) -> ConfigMap | None:
            data = decision_releases.added({} if found is None else found.data, plural, uid, release)
            if found is None:
                return ConfigMap(metadata=ObjectMeta(name=name, namespace=_NAMESPACE), data=data)
            return found if data == found.data else msgspec.structs.replace(found, data=data)

        try:
            await stored.change(self._client, CONFIG_MAPS, name, _NAMESPACE, decide)
        except APIStatusError as err:
            # An operator's word does not wait for a right that is missing; another ledger may put back what it has.
            if err.code not in (403, 404):
                raise
            log.error(
                "a release cannot be told to other processes, which may put it back", resource=plural,
                name=obj.metadata.name, err=str(err), hint=_REMEDY,
            )  # fmt: skip
