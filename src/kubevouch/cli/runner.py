"""Runs a command's coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end on uvloop. Control-C cancels it and then raises ``KeyboardInterrupt``."""
    try:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work)
    finally:
        # Without a loop it has not begun, and Python would add a line of its own about that.
        work.close()
