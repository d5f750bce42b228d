from __future__ import annotations

import pytest

from kubevouch.client.endpoint import EndpointError, endpoint_of_url, parse_endpoint


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.10:6443", "192.0.2.10:6443"),
        ("Api.Blue.Test.:443", "api.blue.test:443"),
        ("[fd00:0:0::1]:6443", "[fd00::1]:6443"),
        ("[192.0.2.1]:1", "192.0.2.1:1"),
    ],
)
def test_what_can_be_joined(text: str, address: str) -> None:
    endpoint = parse_endpoint(text)
    assert endpoint.address == address
    assert endpoint_of_url(endpoint.url) == endpoint


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", "address x: missing port in address"),
        ("[::1]", "missing port in address"),
        ("fd00::1:6443", "too many colons in address"),
        ("https://a:6443", "expected HOST:PORT"),
        ("a:0", "expected 1 to 65535"),
        ("a:65536", "expected 1 to 65535"),
        ("a:", "got port nothing"),
        ("a:٣", "expected 1 to 65535"),
        ("a:6443\n", "expected 1 to 65535"),
        (":6443", "neither a DNS name nor an IP address"),
        ("a b:1", "neither"),
        ("user@a:1", "neither"),
        ("[fe80::1%eth0]:1", "zone"),
        ("[x]:1/2", "expected 1 to 65535"),
    ],
)
def test_what_cannot(text: str, why: str) -> None:
    with pytest.raises(EndpointError) as refusal:
        parse_endpoint(text)
    assert why in str(refusal.value)


@pytest.mark.parametrize("url", ["http://a:6443", "https://", "https://a:x", "a:6443", "https://[::1"])
def test_urls_without_an_endpoint(url: str) -> None:
    with pytest.raises(EndpointError):
        endpoint_of_url(url)
