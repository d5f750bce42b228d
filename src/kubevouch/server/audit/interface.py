"""The contract of audit backends."""

from __future__ import annotations

from typing import Protocol


class AuditBackend(Protocol):
    """Takes events and keeps them elsewhere. It never makes a request wait."""

    def record(self, event: bytes) -> None:
        """Keep one event, or drop and count it."""
        ...

    async def close(self) -> None:
        """Deliver what is held, within a few seconds."""
        ...
