"""When Python looks for cycles that nobody holds any more."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_RARELY = (100_000, 50, 100)


@contextmanager
def loading() -> Iterator[None]:
    """For imports: what a module makes stays. To look through it for what may go costs an eighth of the loading."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def rare_collections() -> Iterator[None]:
    """For commands that read a whole cluster: objects that stay are not looked at again and again for cycles."""
    before = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
