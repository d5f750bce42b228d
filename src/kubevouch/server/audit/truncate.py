"""Events that are too large for a backend lose their objects, or are dropped.

Source: k8s.io/apiserver/plugin/pkg/audit/truncate/truncate.go (Kubernetes 1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from kubevouch.server.audit.interface import AuditBackend
from kubevouch.server.audit.policy import Level
from kubevouch.util.logger import get_logger

PLUGIN = "truncate"
ANNOTATION = "audit.k8s.io/truncated"

log = get_logger("audit")


def truncated(event: bytes, most: int) -> bytes | None:
    """``event`` in at most ``most`` bytes with its newline, if need be without its objects; None if that is too large,
    too."""
    if len(event) < most:
        return event
    tree = msgspec.json.decode(event, type=dict[str, Any])
    if Level(tree["level"]).rank < Level.REQUEST.rank:
        return None
    for name in ("requestObject", "responseObject"):
        tree.pop(name, None)
    tree["annotations"] = {**tree.pop("annotations", {}), ANNOTATION: "true"}
    smaller = msgspec.json.encode(tree)
    return smaller if len(smaller) < most else None


class Truncating:
    """An :class:`AuditBackend` in front of another.

    Args:
        most: bytes of an event.
        on_lost: told how many events were too large.
    """

    def __init__(self, backend: AuditBackend, most: int, on_lost: Callable[[int], None]) -> None:
        self._backend = backend
        self._most = most
        self._on_lost = on_lost

    def record(self, event: bytes) -> asyncio.Future[bool] | None:
        smaller = truncated(event, self._most)
        if smaller is None:
            self._on_lost(1)
            log.error("an audit event is too large even after truncating", size=len(event))
            return None
        return self._backend.record(smaller)

    async def close(self) -> None:
        await self._backend.close()
