"""What a worker asks of the process that it shares a machine and a port with, and that has what is there once."""

from __future__ import annotations

from typing import Protocol

from kubevouch.server.request import Result


class Owner(Protocol):
    """It keeps the store, the controllers and what they publish. Its worker serves, and neither puts in place what a
    cluster has nor looks after it.
    """

    async def metrics(self) -> bytes:
        """Of all processes together, in Prometheus' text format."""
        ...

    async def controllers(self) -> str:
        """Why the controllers are not at work; empty if they are."""
        ...

    async def published(self, method: str, path: str, octets: bytes) -> Result:
        """What anybody may read of what is revoked, as :class:`.revocation_paths.RevocationPaths` answers."""
        ...
