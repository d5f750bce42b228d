"""The contract of audit backends."""

from __future__ import annotations

import asyncio
from typing import Protocol


class AuditBackend(Protocol):
    """Takes events and keeps them elsewhere."""

    def record(self, event: bytes) -> asyncio.Future[bool] | None:
        """Keep one event, or drop and count it.

        Returns:
            What the request has to wait for, None for nothing. False says that it must not go on: the event is not
            kept, and the mode is ``blocking-strict``.
        """
        ...

    async def close(self) -> None:
        """Deliver what is held, within a few seconds."""
        ...
