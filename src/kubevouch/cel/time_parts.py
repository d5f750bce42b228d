"""Parts of moments and of lengths of time.

Source: cel-spec doc/langdef.md; cel-go common/types/{timestamp,duration}.go (0.26).
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Callable

from kubevouch.cel.functions import method
from kubevouch.cel.values import EvaluationError, quotient

_PARTS: dict[str, Callable[[dt.datetime], int]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}


def _in_zone(moment: dt.datetime, zone: str) -> dt.datetime:
    sign, digits = (-1, zone[1:]) if zone.startswith("-") else (1, zone.removeprefix("+"))
    hours, colon, minutes = digits.partition(":")
    if colon and hours.isdigit() and minutes.isdigit() and len(digits) <= 5:
        return moment.astimezone(dt.timezone(sign * dt.timedelta(hours=int(hours), minutes=int(minutes))))
    try:
        return moment.astimezone(zoneinfo.ZoneInfo(zone))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as err:
        raise EvaluationError(f"unknown time zone {zone}") from err


def _accessor(name: str, part: Callable[[dt.datetime], int]) -> None:
    method(name, "timestamp")(lambda moment: part(moment.astimezone(dt.UTC)))

    def zoned(moment: dt.datetime, zone: str) -> int:
        try:
            return part(_in_zone(moment, zone))
        except (OverflowError, ValueError) as err:
            raise EvaluationError(str(err)) from err

    method(name, "timestamp string")(zoned)


for _name, _part in _PARTS.items():
    _accessor(_name, _part)
# The whole of a length in each unit, milliseconds too.
for _name, _unit in (("getHours", 3_600_000), ("getMinutes", 60_000), ("getSeconds", 1000), ("getMilliseconds", 1)):
    method(_name, "duration")(lambda value, unit=_unit: quotient(value // dt.timedelta(microseconds=1), unit * 1000))
