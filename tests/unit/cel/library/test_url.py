"""cel/library/url.py"""

from __future__ import annotations

import pytest

from cel_cases import error_of, value_of


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("isURL('https://user:pass@example.com:80/path?query=val#fragment') && isURL('/absolute-path')", True),
        ("['https://a:b:c/', '../a', '', ':x', 'http://a b/', 'http://[::1/', '/%zz'].exists(u, isURL(u))", False),
        ("url('/path').getScheme()", ""),
        ("url('HTTPS://example.com/').getScheme()", "https"),
        ("url('https://example.com:80/').getHost()", "example.com:80"),
        ("url('https://[::1]:80/').getHost()", "[::1]:80"),
        ("url('https://user:pass@[::1]/').getHost()", "[::1]"),
        ("url('/path').getHost()", ""),
        ("url('https://example.com:80/').getHostname()", "example.com"),
        ("url('https://[::1]:80/').getHostname()", "::1"),
        ("url('https://[::1]/').getHostname()", "::1"),
        ("url('https://example.com:80/').getPort()", "80"),
        ("url('https://example.com/').getPort()", ""),
        ("url('https://[::1]/').getPort()", ""),
        ("url('https://example.com/path with spaces/').getEscapedPath()", "/path%20with%20spaces/"),
        ("url('https://example.com/a%20b#f').getEscapedPath()", "/a%20b"),
        ("url('https://example.com').getEscapedPath()", ""),
        ("url('https://example.com/path?k1=a&k2=b&k2=c#f').getQuery()", {"k1": ["a"], "k2": ["b", "c"]}),
        ("url('https://example.com/path?key with spaces=a+b').getQuery()", {"key with spaces": ["a b"]}),
        ("url('https://example.com/path?').getQuery()", {}),
        ("url('/a') == url('/a') && url('/a') != url('/b')", True),
    ],
)  # fmt: skip
def test_values(source: str, value: object) -> None:
    assert value_of(source) == value


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("url('https://a:b:c/')", 'parse "https://a:b:c/": invalid port ":c" after host'),
        ("url('../relative-path')", 'parse "../relative-path": invalid URI for request'),
        ("url('')", 'parse "": empty url'),
    ],
)
def test_errors(source: str, text: str) -> None:
    assert error_of(source) == f"URL parse error during conversion from string: {text}"
