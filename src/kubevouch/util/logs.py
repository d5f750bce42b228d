"""Logs in klog's text format or as JSON, with secrets taken out.

The text format is ``Lmmdd hh:mm:ss.uuuuuu threadid logger] "message" key="value"`` (k8s.io/klog v2), so that tools
which read the logs of Kubernetes' components read these.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Literal

import structlog

from kubevouch.util.clock import Clock
from kubevouch.util.printable import escaped, json_escaped
from kubevouch.util.redact import redact

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["text", "json"]
Event = MutableMapping[str, Any]

_SEVERITY = {"debug": "I", "info": "I", "warning": "W", "error": "E", "critical": "F", "exception": "E"}


def configure(clock: Clock, *, level: Level = "info", form: Format = "text") -> None:
    """Send every logger of this process to standard error."""
    render = _klog if form == "text" else _json
    structlog.configure(
        processors=[
            _stamp(clock),
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            _redacted,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _stamp(clock: Clock) -> Callable[[Any, str, Event], Event]:
    def stamp(_logger: Any, _method: str, event: Event) -> Event:
        event["ts"] = clock.now()
        return event

    return stamp


def _redacted(_logger: Any, _method: str, event: Event) -> Event:
    return {key: redact(key, value) for key, value in event.items()}


def _klog(logger: Any, _method: str, event: Event) -> str:
    fields = dict(event)
    when = fields.pop("ts")
    severity = _SEVERITY.get(str(fields.pop("level")), "I")
    trace = fields.pop("exception", "")
    message = str(fields.pop("event"))
    source = str(fields.pop("logger", None) or _logger_name(fields, logger))
    head = f"{severity}{when:%m%d %H:%M:%S.%f} {os.getpid():>7} {source}] {json.dumps(message, ensure_ascii=False)}"
    # A client's text may be in any of them, and whoever follows the log does so on a terminal.
    told = "".join(f"\n{escaped(line)}" for line in trace.split("\n")) if trace else ""
    return json_escaped(head + _pairs(fields)) + told


def _logger_name(fields: Mapping[str, Any], _logger: Any) -> str:
    return str(fields.get("controller") or "kubevouch")


def _pairs(fields: Mapping[str, Any]) -> str:
    return "".join(f" {key}={json.dumps(_plain(value), ensure_ascii=False)}" for key, value in fields.items())


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)


def _json(_logger: Any, _method: str, event: Event) -> str:
    fields = dict(event)
    when = fields.pop("ts")
    head = {"ts": when.timestamp() * 1000, "level": fields.pop("level"), "msg": fields.pop("event")}
    return json_escaped(json.dumps(head | fields, ensure_ascii=False, default=str))
