"""Flags that several commands share, or that are many: what they are called and what they become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def together(*flags: Decorator) -> Decorator:
    """Adds ``flags`` to a command, in their order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return add
