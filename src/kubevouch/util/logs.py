"""Logs in klog's text format or as JSON, with secrets taken out.

The text format is ``Lmmdd hh:mm:ss.uuuuuu threadid logger] "message" key="value"`` (k8s.io/klog v2), so that tools
which read the logs of Kubernetes' components read these.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from kubevouch.util import logger
from kubevouch.util.clock import Clock
from kubevouch.util.printable import escaped, json_escaped
from kubevouch.util.redact import redact

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["text", "json"]

_quoted = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps makes an encoder for each text

_SEVERITY = {"debug": "I", "info": "I", "warning": "W", "error": "E", "critical": "F"}


def configure(clock: Clock, *, level: Level = "info", form: Format = "text") -> None:
    """Send every logger of this process to standard error, as it is now."""
    render = _klog if form == "text" else _json
    stream = sys.stderr

    def write(level: logger.Level, message: str, fields: dict[str, Any]) -> None:
        event = {"event": message, **fields, "level": level, "ts": clock.now()}
        stream.write(render({key: redact(key, value) for key, value in _traced(event).items()}) + "\n")
        stream.flush()

    logger.send_to(write, level)


def _traced(event: dict[str, Any]) -> dict[str, Any]:
    """The way that an exception has come. Its text is left out: ``KeyError`` and its like print what they were given,
    and that may have come out of a Secret.
    """
    given = event.pop("exc_info", None)
    error = given if isinstance(given, BaseException) else sys.exc_info()[1] if given else None
    if error is not None:
        event["exception"] = "\n".join(_way(error, set()))
    return event


def _way(error: BaseException, seen: set[int]) -> Iterator[str]:
    import traceback  # rarely needed

    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen:
        yield from _way(before, seen)
        yield "which led to"
    yield "Traceback (most recent call last):"
    yield "".join(traceback.format_tb(error.__traceback__)).rstrip("\n")
    system = f": {os.strerror(error.errno)}" if isinstance(error, OSError) and error.errno else ""
    yield f"{type(error).__module__}.{type(error).__qualname__}{system}"
    for each in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        if id(each) not in seen:
            yield from _way(each, seen)


def _klog(fields: dict[str, Any]) -> str:
    when = fields.pop("ts")
    severity = _SEVERITY.get(str(fields.pop("level")), "I")
    trace = fields.pop("exception", "")
    message = str(fields.pop("event"))
    source = str(fields.pop("logger", None) or fields.get("controller") or "kubevouch")
    head = f"{severity}{when:%m%d %H:%M:%S.%f} {os.getpid():>7} {source}] {_quoted(message)}"
    # A client's text may be in any of them, and whoever follows the log does so on a terminal.
    told = "".join(f"\n{escaped(line)}" for line in trace.split("\n")) if trace else ""
    return json_escaped(head + _pairs(fields)) + told


def _pairs(fields: Mapping[str, Any]) -> str:
    return "".join(f" {key}={_quoted(_plain(value))}" for key, value in fields.items())


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)


def _json(fields: dict[str, Any]) -> str:
    when = fields.pop("ts")
    head = {"ts": when.timestamp() * 1000, "level": fields.pop("level"), "msg": fields.pop("event")}
    return json_escaped(json.dumps(head | fields, ensure_ascii=False, default=str))
