"""Durations as flags take them: Go's notation."""

from __future__ import annotations

import datetime as dt
from typing import Any

import click

from kubevouch.machinery.text import gotext


class DurationType(click.ParamType[dt.timedelta]):
    """``24h``, ``1h30m``, ``90s``; also plain ``0``."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dt.timedelta:
        if isinstance(value, dt.timedelta):
            return value
        try:
            return gotext.parse_duration(value)
        except ValueError:
            self.fail(f"got {value!r}, expected a duration such as 24h, 1h30m or 0", param, ctx)


DURATION = DurationType()
