"""What encrypts the values of one store, while its configuration may change."""

from __future__ import annotations

import asyncio

from kubevouch.api.storage_keys import ROOT
from kubevouch.storage.encryption.interface import Read, SeedMissing
from kubevouch.storage.encryption.transformers import ResourceTransformers, Transformers


class Encryption:
    """The transformers in use; whoever reads asks here each time.

    Args:
        root: what keys begin with where they are stored, in the place of ``/registry/``: values are bound to them.
    """

    def __init__(self, transformers: ResourceTransformers, root: str = ROOT) -> None:
        self._transformers = transformers
        self.root = root
        self._waiting: set[asyncio.Future[None]] = set()
        self.epoch = 0
        """How often what could not be read may have become readable."""

    def of(self, key: str) -> Transformers | None:
        """The transformers of a key; None stores its value as it is."""
        return self._transformers.of(key)

    def write(self, key: str, plain: bytes) -> bytes:
        """A value as it is to be stored. Raises ``TransformError``."""
        transformers = self.of(key)
        return plain if transformers is None else transformers.write(plain, self.associated(key))

    async def read(self, key: str, value: bytes) -> Read:
        """A stored value. Where nothing is configured it is taken as it is, even if it is encrypted.

        Raises:
            TransformError
        """
        transformers = self.of(key)
        if transformers is None:
            return Read(value, stale=False)
        associated = self.associated(key)
        while True:
            try:
                return transformers.read(value, associated)
            except SeedMissing as missing:
                await missing.fetch()

    def associated(self, key: str) -> bytes:
        """What a value is bound to: the key as the medium has it."""
        return (key if self.root == ROOT else self.root + key.removeprefix(ROOT)).encode()

    def replace(self, transformers: ResourceTransformers) -> None:
        """Use another configuration from now on."""
        self._transformers = transformers
        self.recovered()

    def recovered(self) -> None:
        """A key is there that was not; wakes who waits for one."""
        self.epoch += 1
        waiting, self._waiting = self._waiting, set()
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def after(self, epoch: int) -> None:
        """Returns once ``epoch`` is over."""
        while self.epoch <= epoch:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(waiter)
            try:
                await waiter
            finally:
                self._waiting.discard(waiter)
