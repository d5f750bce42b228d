"""What modules log by: a message that is a constant, and values as fields. Where it goes is said once for a process.

Loading this costs next to nothing, so that every module can have its logger; formats are in :mod:`kubevouch.util.logs`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal

Level = Literal["debug", "info", "warning", "error", "critical"]
# Takes the level, the message and the fields; ``exc_info`` is among them where an exception is to be told.
Sink = Callable[[Level, str, dict[str, Any]], None]

_RANKS: dict[Level, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


class Logger:
    """Writes what is at least as grave as the process's level. Fields that are bound come with every message."""

    __slots__ = ("_bound",)

    def __init__(self, bound: dict[str, Any] | None = None) -> None:
        self._bound = bound or {}

    def bind(self, **fields: Any) -> Logger:
        return Logger(self._bound | fields)

    def debug(self, message: str, **fields: Any) -> None:
        self._write("debug", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._write("info", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._write("warning", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._write("error", message, fields)

    def critical(self, message: str, **fields: Any) -> None:
        self._write("critical", message, fields)

    def exception(self, message: str, **fields: Any) -> None:
        """An error, with the exception that is being handled."""
        self._write("error", message, {"exc_info": True} | fields)

    def _write(self, level: Level, message: str, fields: dict[str, Any]) -> None:
        if _RANKS[level] >= _RANKS[_level]:
            _sink(level, message, self._bound | fields)


def to_standard_error(level: Level, message: str, fields: dict[str, Any]) -> None:
    """Where messages go until something else is said; never to standard output, which has what scripts read."""
    told = "".join(f" {key}={value!r}" for key, value in fields.items())
    sys.stderr.write(f"{level} {message}{told}\n")


_sink: Sink = to_standard_error
_level: Level = "debug"


def get_logger(_name: str = "") -> Logger:
    """A logger; its name is for readers of the code."""
    return Logger()


def send_to(sink: Sink, level: Level = "debug") -> tuple[Sink, Level]:
    """Have every logger of this process write to ``sink``, from ``level`` on. Returns what they wrote to before."""
    global _sink, _level
    before = _sink, _level
    _sink, _level = sink, level
    return before


def is_configured() -> bool:
    return _sink is not to_standard_error
