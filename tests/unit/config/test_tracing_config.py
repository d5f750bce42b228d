"""config/tracing_config.py: what kube-apiserver's tracing configuration may say."""

from __future__ import annotations

import pytest

from kubevouch.config.config_file import ConfigFileError
from kubevouch.config.tracing_config import DEFAULT_ENDPOINT, decode


def text(*lines: str, version: str = "v1") -> bytes:
    head = (f"apiVersion: apiserver.config.k8s.io/{version}", "kind: TracingConfiguration")
    return "\n".join((*head, *lines)).encode()


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_everything_may_be_left_out(version: str) -> None:
    config = decode(text(version=version))
    assert (config.url, config.sampling_rate_per_million) == (DEFAULT_ENDPOINT, None)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("collector:4318", "http://collector:4318"),
        ("https://[2001:db8::1]:4318/x", "https://[2001:db8::1]:4318/x"),
        ("127.0.0.1:1", "http://127.0.0.1:1"),
    ],
)
def test_endpoints(endpoint: str, url: str) -> None:
    assert decode(text(f"endpoint: '{endpoint}'", "samplingRatePerMillion: 1000000")).url == url


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("samplingRatePerMillion: -1", "sampling rate must be positive"),
        ("samplingRatePerMillion: 1000001", "sampling rate per million must be less than or equal to one million"),
        ("endpoint: 'ftp://x'", "must be host:port"),
        ("endpoint: 'x:port'", "must be host:port"),
        ("endpoint: 'http://'", "must be host:port"),
        ("unknown: 1", 'unknown field "unknown"'),
    ],
)
def test_what_cannot_be_used(line: str, why: str) -> None:
    with pytest.raises(ConfigFileError, match=why):
        decode(text(line))
