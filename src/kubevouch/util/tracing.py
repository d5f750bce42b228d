"""Traces without the library behind them: whoever has work to tell of asks for the current span.

Nothing is traced, and nothing costs more than the look at one context variable, until somebody with a :class:`Tracer`
starts a span. ``util.otlp`` has the tracer that sends spans away. W3C Trace Context, level 1, names spans between
processes.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Protocol

HEADER = "traceparent"
MAX_ORIGINS = 10_000

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?", re.ASCII)

Attribute = str | int | float | bool


class Kind(Enum):
    """Which side of a call a span is on."""

    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"


class Span(Protocol):
    """One piece of work under way."""

    @property
    def traceparent(self) -> str:
        """The span's name for other processes."""
        ...

    def set(self, name: str, value: Attribute) -> None: ...

    def fail(self, why: str) -> None:
        """The work came to nothing."""
        ...

    def child(self, name: str, kind: Kind, attributes: dict[str, Attribute]) -> Span:
        """A new span within this one."""
        ...

    def end(self) -> None: ...


class Tracer(Protocol):
    """Where spans begin."""

    def start(
        self, name: str, kind: Kind, attributes: dict[str, Attribute], *, parent: str = "", link: str = ""
    ) -> Span:
        """A span within the one named ``parent``, or a trace of its own that may point to ``link``."""
        ...

    def close(self) -> None:
        """Send what has ended. Blocks."""
        ...


_current: ContextVar[Span | None] = ContextVar("span", default=None)


def _failure(err: Exception) -> str:
    """Never its text, which may hold values of an object, a first line of an answer or a credential."""
    code = getattr(err, "code", None)
    return f"{type(err).__name__} {code}" if isinstance(code, int) else type(err).__name__


@contextmanager
def active(span: Span) -> Iterator[Span]:
    """Makes ``span`` the current one, and ends it with the block; an exception fails it."""
    token = _current.set(span)
    try:
        yield span
    except Exception as err:
        span.fail(_failure(err))
        raise
    finally:
        _current.reset(token)
        span.end()


@contextmanager
def child(name: str, kind: Kind = Kind.INTERNAL, **attributes: Attribute) -> Iterator[Span | None]:
    """A span within the current one; without one, nothing."""
    parent = _current.get()
    if parent is None:
        yield None
        return
    with active(parent.child(name, kind, attributes)) as span:
        yield span


def current() -> Span | None:
    return _current.get()


def traceparent() -> str:
    """The current span's name for other processes, or nothing."""
    span = _current.get()
    return "" if span is None else span.traceparent


def parse(text: str) -> str:
    """``text`` if it is a traceparent, else nothing: a bad one counts as none."""
    known = len(text) <= 256 and text[:2] != "ff" and _TRACEPARENT.fullmatch(text)
    return text if known and (text[:2] != "00" or len(text) == 55) else ""


class Origins:
    """In which span an object was created, so that controllers go on in its trace. Holds the newest."""

    def __init__(self, size: int = MAX_ORIGINS) -> None:
        self._size = size
        self._found: OrderedDict[Hashable, str] = OrderedDict()

    def remember(self, key: Hashable, traceparent: str) -> None:
        self._found[key] = traceparent
        self._found.move_to_end(key)
        if len(self._found) > self._size:
            self._found.popitem(last=False)

    def get(self, key: Hashable) -> str:
        """The traceparent, or nothing."""
        return self._found.get(key, "")
