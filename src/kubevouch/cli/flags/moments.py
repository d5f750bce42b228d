"""Moments and long durations as flags take them: ``30d`` beside Go's notation, which ends with hours."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import click

from kubevouch.machinery.text import gotext, times

_DAYS = re.compile(r"([0-9]{1,6})d", re.ASCII)


class LongDurationType(click.ParamType[dt.timedelta]):
    """``30d``, ``36h``, ``90m``."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dt.timedelta:
        if isinstance(value, dt.timedelta):
            return value
        try:
            return long_duration(value)
        except (ValueError, OverflowError):
            self.fail(f"got {value!r}, expected a duration such as 30d, 36h or 90m", param, ctx)


def long_duration(text: str) -> dt.timedelta:
    """Raises ValueError."""
    days = _DAYS.fullmatch(text)
    return dt.timedelta(days=int(days[1])) if days else gotext.parse_duration(text)


Moment = dt.datetime | dt.timedelta
"""A time, or how long ago."""


class MomentType(click.ParamType[Moment]):
    """``30d`` is so long ago; ``2026-01-02`` and ``2026-01-02T15:04:05Z`` are times."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        if isinstance(value, dt.datetime | dt.timedelta):
            return value
        try:
            return long_duration(value)
        except (ValueError, OverflowError):
            pass
        text = value if "T" in value else f"{value}T00:00:00Z"
        try:
            seconds, _ = times.parse_go_rfc3339(text)
            return dt.datetime.fromtimestamp(seconds, dt.UTC)
        except (ValueError, OverflowError, OSError):
            self.fail(f"got {value!r}, expected a time such as 30d, 2026-01-02 or 2026-01-02T15:04:05Z", param, ctx)


def before(moment: Moment | None, now: dt.datetime) -> dt.datetime | None:
    """The time that is meant. Raises OverflowError for what was before the first year."""
    return now - moment if isinstance(moment, dt.timedelta) else moment


LONG_DURATION = LongDurationType()
MOMENT = MomentType()
