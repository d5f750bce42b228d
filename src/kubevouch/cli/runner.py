"""Runs a command's coroutine."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

_RARELY = (100_000, 50, 100)


@contextmanager
def rare_collections() -> Iterator[None]:
    """For commands that read a whole cluster: objects that stay are not looked at again and again for cycles."""
    before = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end on uvloop. Control-C cancels it and then raises ``KeyboardInterrupt``."""
    try:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work)
    finally:
        # Without a loop it has not begun, and Python would add a line of its own about that.
        work.close()
