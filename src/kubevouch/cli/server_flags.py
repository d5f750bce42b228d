"""kube-apiserver's flags for the server itself, for ``kubevouch up``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kubevouch.cli.tracing_flag import tracing_flag
from kubevouch.server.options import (
    DEFAULT_MUTATING_REQUESTS_INFLIGHT,
    DEFAULT_REQUESTS_INFLIGHT,
    ServerOptions,
)
from kubevouch.util.logs import Level

# From here on kube-apiserver writes a line for each request, and one step further what helps to find errors.
_REQUESTS, _DEBUG = 3, 4


class _Verbosity(click.IntRange):
    """Also ``-v=3``, as Go's flags take it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        bare: Any = value.removeprefix("=") if isinstance(value, str) else value
        return super().convert(bare, param, ctx)


_FLAGS = (
    click.option(
        "--max-requests-inflight",
        type=click.IntRange(1),
        default=DEFAULT_REQUESTS_INFLIGHT,
        show_default=True,
        help="Requests at once; with the next flag the seats that all lanes share.",
    ),
    click.option(
        "--max-mutating-requests-inflight",
        type=click.IntRange(0),
        default=DEFAULT_MUTATING_REQUESTS_INFLIGHT,
        show_default=True,
        help="Added to the one above.",
    ),
    tracing_flag,
    click.option(
        "-v",
        "--v",
        "verbosity",
        type=_Verbosity(0, 10),
        default=0,
        help="klog's verbosity: 3 logs each request, 4 and more is --log-level debug.",
    ),
)


def server_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags to a command."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def take_server(flags: dict[str, Any]) -> ServerOptions:
    """The options that the flags say; takes them out of ``flags``."""
    return ServerOptions(
        max_requests_inflight=flags.pop("max_requests_inflight"),
        max_mutating_requests_inflight=flags.pop("max_mutating_requests_inflight"),
        tracing_config_file=flags.pop("tracing_config_file"),
        logs_requests=flags.pop("verbosity") >= _REQUESTS,
    )


def verbose(level: Level, verbosity: int) -> Level:
    """``--log-level``, or more where ``-v`` asks for it."""
    if verbosity >= _DEBUG:
        return "debug"
    return "info" if verbosity >= _REQUESTS and level in ("warning", "error") else level
