"""Which API servers are at work on a store: each writes its address under a key that is gone soon after it is.

Source: pkg/controlplane/reconcilers/lease.go (Kubernetes 1.36). The keys and values are Kubernetes' own, so that its
API servers and ours know of each other while one takes over from the other.
"""

from __future__ import annotations

from ipaddress import ip_address

from kubevouch.api import catalog
from kubevouch.api.core_v1 import EndpointAddress, Endpoints, EndpointSubset
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.server.bootstrap.kubernetes_service import Address
from kubevouch.storage.interface import KeyExists, RevisionConflict, Store
from kubevouch.util.logger import get_logger

PREFIX = "/registry/masterleases/"
# DefaultEndpointReconcilerTTL and -Interval.
TTL_SECONDS, INTERVAL_SECONDS = 15.0, 10.0
_ATTEMPTS = 3

log = get_logger("server-leases")


class ServerLeases:
    """Of one server, which is reached at ``own``."""

    def __init__(self, store: Store, own: Address) -> None:
        self._store = store
        self._own = own

    @property
    def _key(self) -> str:
        return f"{PREFIX}{self._own}"

    async def renew(self) -> None:
        """Be known for another :data:`TTL_SECONDS`. Raises StoreError."""
        for attempt in range(1, _ATTEMPTS + 1):
            found = await self._store.get(self._key)
            try:
                if found is None:
                    await self._store.create(self._key, self._value(1), ttl=TTL_SECONDS)
                else:
                    former = _decoded(found.value)
                    generation = 0 if former is None else former.metadata.generation
                    # Counted up, because Kubernetes' writes nothing where the bytes stay the same.
                    value = self._value(generation + 1)
                    await self._store.update(self._key, value, found.revision, ttl=TTL_SECONDS)
            except (KeyExists, RevisionConflict):
                # It ended meanwhile, or another server says to have this address.
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    async def addresses(self) -> list[Address]:
        """Of all servers, those of this one's family. Raises StoreError."""
        found = []
        for item in (await self._store.list(PREFIX)).items:
            endpoints = _decoded(item.value)
            for subset in endpoints.subsets if endpoints is not None else ():
                for each in subset.addresses:
                    try:
                        found.append(ip_address(each.ip))
                    except ValueError:
                        log.warning("a server lease names no address", key=item.key)
        return sorted({each for each in found if each.version == self._own.version}, key=int)

    async def release(self) -> None:
        """Be known no more. Raises StoreError."""
        found = await self._store.get(self._key)
        if found is not None:
            await self._store.delete(self._key, found.revision)

    def _value(self, generation: int) -> bytes:
        subset = EndpointSubset(addresses=[EndpointAddress(ip=str(self._own))])
        lease = Endpoints(metadata=ObjectMeta(generation=generation), subsets=[subset])
        resource = catalog.ENDPOINTS
        return resource.codec.to_value(lease, resource.api_version, resource.kind)


def _decoded(value: bytes) -> Endpoints | None:
    resource = catalog.ENDPOINTS
    try:
        return resource.codec.from_value(value, resource.api_version, resource.kind)
    except ValueError as err:
        log.warning("a server lease cannot be read", err=type(err).__name__)
        return None
