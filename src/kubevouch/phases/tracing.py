"""A tracer as a TracingConfiguration says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kubevouch.config import tracing_config
from kubevouch.config.config_file import ConfigFileError
from kubevouch.util import otlp
from kubevouch.util.tracing import Kind, Tracer, active


class TracingError(Exception):
    """There can be no traces; nothing was done."""


@contextmanager
def traced(path: Path | None, service: str, name: str) -> Iterator[None]:
    """The block is the span ``name`` of a trace, sent at its end; nothing without a configuration.

    Raises:
        TracingError: before the block.
    """
    if path is None:
        yield
        return
    tracer = tracer_from(path, service)
    try:
        with active(tracer.start(name, Kind.INTERNAL, {})):
            yield
    finally:
        tracer.close()


def tracer_from(path: Path, service: str) -> Tracer:
    """The tracer of ``service``. Raises :class:`TracingError`."""
    try:
        config = tracing_config.decode(path.read_bytes())
        return otlp.tracer(service, config.url, config.sampling_rate_per_million or 0)
    except OSError as err:
        raise TracingError(f"the tracing configuration {path} cannot be read: {err.strerror}") from err
    except ConfigFileError as err:
        raise TracingError(f"the tracing configuration {path} cannot be used: {err}") from err
    except otlp.TracingUnavailable as err:
        raise TracingError(str(err)) from err
