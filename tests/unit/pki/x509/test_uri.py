"""Texts and verdicts were compared with Go 1.26 over 300,000 generated URIs; these are one of each kind."""

from __future__ import annotations

import pytest

from kubevouch.pki.x509 import uri
from kubevouch.pki.x509.uri import URI


@pytest.mark.parametrize(
    ("text", "printed", "host"),
    [
        ("spiffe://blue.test/n/7", "spiffe://blue.test/n/7", "blue.test"),
        ("HTTPS://Blue.Test:80/a%2fb?q=%zz#f%41", "https://Blue.Test:80/a%2fb?q=%zz#f%41", "Blue.Test:80"),
        ("mailto:a@b", "mailto:a@b", ""),
        ("urn:a:b?", "urn:a:b?", ""),
        ("*", "*", ""),
        ("", "", ""),
        ("//host", "//host", "host"),
        ("///path", "///path", ""),
        ("file:///etc", "file:///etc", ""),
        ("http://", "http:", ""),
        ("a/b:c", "a/b:c", ""),
        ("/a b", "/a%20b", ""),
        ("/%2A", "/%2A", ""),
        ("%2a?", "%2a?", ""),
        ("x?a?b", "x?a?b", ""),
        ("#", "", ""),
        ("/a#x y", "/a#x%20y", ""),
        ("http://u:p%40w@h/", "http://u:p%40w@h/", "h"),
        ("http://u@v@h/", "http://u%40v@h/", "h"),
        ("http://[::1]:80/", "http://[::1]:80/", "[::1]:80"),
        ("http://[fe80::1%25en%200]/", "http://[fe80::1%25en%200]/", "[fe80::1%en 0]"),
        ("http://%e9.example/", "http://%E9.example/", "\xe9.example"),
        ("postgres://a:1,b:2/x", "postgres://a:1,b:2/x", "a:1,b:2"),
    ],
)
def test_what_go_prints(text: str, printed: str, host: str) -> None:
    assert uri.parse(text) == URI(printed, host)


def test_a_star() -> None:
    assert uri.parse("%2A").text == "%2A"
    assert uri.parse('%2A"').text == "%2A%22"
    assert uri.parse("*?q").text == "*?q"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\x7fb", 'parse "a\\x7fb": net/url: invalid control character in URL'),
        (":x", 'parse ":x": missing protocol scheme'),
        ("%2Fa:b", 'parse "%2Fa:b": first path segment in URL cannot contain colon'),
        ("a b:c", 'parse "a b:c": first path segment in URL cannot contain colon'),
        ("http://h:x/", 'parse "http://h:x/": invalid port ":x" after host'),
        ("http://[::1]x/", 'parse "http://[::1]x/": invalid port "x" after host'),
        ("http://[::1/", "parse \"http://[::1/\": missing ']' in host"),
        ("http://[1.2.3.4]/", 'parse "http://[1.2.3.4]/": invalid host: ParseAddr("1.2.3.4"): unable to parse IP'),
        ("http://[::1%25]/", 'parse "http://[::1%25]/": invalid host: ParseAddr("::1%"): unable to parse IP'),
        ("http://a b/", 'parse "http://a b/": invalid character " " in host name'),
        ("http://%41/", 'parse "http://%41/": invalid URL escape "%41"'),
        ("http://%4/", 'parse "http://%4/": invalid URL escape "%4"'),
        ("http://[::1%25%0a]/", 'parse "http://[::1%25%0a]/": invalid URL escape "%0a"'),
        ("http://a|b@h/", 'parse "http://a|b@h/": net/url: invalid userinfo'),
        ("http://%z@h/", 'parse "http://%z@h/": invalid URL escape "%z"'),
        ("/%4g%", 'parse "/%4g%": invalid URL escape "%4g"'),
        ("/#%", 'parse "/#%": invalid URL escape "%"'),
    ],
)
def test_what_go_refuses(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        uri.parse(text)
    assert str(refusal.value) == message
