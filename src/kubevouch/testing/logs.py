"""What was logged, as tests look at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kubevouch.util import logger

Event = dict[str, Any]


@contextmanager
def capture_logs() -> Iterator[list[Event]]:
    """The fields of each message that is logged meanwhile, with the message as ``event`` and its ``log_level``."""
    events: list[Event] = []

    def keep(level: logger.Level, message: str, fields: Event) -> None:
        events.append({**fields, "event": message, "log_level": level})

    before = logger.send_to(keep)
    try:
        yield events
    finally:
        logger.send_to(*before)
