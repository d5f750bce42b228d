"""TracingConfiguration, kube-apiserver's ``--tracing-config-file`` (component-base/tracing/api/v1, Kubernetes 1.36)."""

from __future__ import annotations

import urllib.parse
from typing import Annotated

from kubevouch.config import config_file
from kubevouch.machinery import field
from kubevouch.machinery.declaration import Struct, wire
from kubevouch.machinery.field import FieldError

MAX_SAMPLING = 1_000_000
# Kubernetes speaks OTLP over gRPC, to port 4317; here it is OTLP over HTTP, whose port this is.
DEFAULT_ENDPOINT = "http://localhost:4318"


class TracingConfiguration(Struct):
    """Where spans go, and how many."""

    endpoint: Annotated[str | None, wire(1, "The collector: host:port or an http(s) URL.")] = None
    sampling_rate_per_million: Annotated[
        int | None, wire(2, "How many of a million requests without a parent are traced; none if absent.")
    ] = None

    @property
    def url(self) -> str:
        given = self.endpoint or DEFAULT_ENDPOINT
        return given if "://" in given else f"http://{given}"


def decode(text: bytes) -> TracingConfiguration:
    """Raises :class:`ConfigFileError`."""
    versions = [f"{config_file.GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha1")]
    return config_file.decode(text, "TracingConfiguration", dict.fromkeys(versions, TracingConfiguration), _problems)


def _problems(config: TracingConfiguration) -> list[FieldError]:
    problems = []
    rate = config.sampling_rate_per_million
    if rate is not None and rate < 0:
        problems.append(field.invalid("tracing.samplingRatePerMillion", rate, "sampling rate must be positive"))
    if rate is not None and rate > MAX_SAMPLING:
        text_ = "sampling rate per million must be less than or equal to one million"
        problems.append(field.invalid("tracing.samplingRatePerMillion", rate, text_))
    if not _is_address(config.url):
        problems.append(field.invalid("tracing.endpoint", config.endpoint or "", "must be host:port or an http(s) URL"))
    return problems


def _is_address(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
