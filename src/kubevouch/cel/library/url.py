"""URLs as Go reads them.

Source: k8s.io/apiserver/pkg/cel/library/urls.go, Go's net/url (Kubernetes 1.36).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote_plus

from kubevouch.cel.functions import function, method, opaque
from kubevouch.cel.values import EvaluationError, Opaque, Run
from kubevouch.machinery.text import gotext

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):", re.ASCII)
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})", re.ASCII)
_BAD_HOST = re.compile(r"[ \"<>\\^`{|}]")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
# What Go leaves as it is in a path.
_PATH_SAFE = "$&+,/:;=@!'()*~%[]"


class URLError(ValueError):
    """In Go's words."""


@opaque("kubernetes.URL")
@dataclass(frozen=True)
class URL(Opaque):
    """The parts of a URL, the path as it was written."""

    scheme: str = ""
    host: str = ""
    path: str = ""
    query: str = ""

    @property
    def port(self) -> str:
        return self.host[self._colon + 1 :]

    @property
    def hostname(self) -> str:
        host = self.host[: self._colon]
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    @property
    def _colon(self) -> int:
        colon = self.host.rfind(":")
        return colon if colon > self.host.rfind("]") else len(self.host)


def parse_request_uri(text: str) -> URL:
    """An absolute URI or an absolute path. Raises :class:`URLError`."""
    try:
        return _parts(text)
    except URLError as err:
        raise URLError(f"parse {gotext.quote(text)}: {err}") from err


def _parts(text: str) -> URL:
    if _CONTROL.search(text):
        raise URLError("net/url: invalid control character in URL")
    if not text:
        raise URLError("empty url")
    if text == "*":
        return URL(path="*")
    found = _SCHEME.match(text)
    scheme, rest = (found[1].lower(), text[found.end() :]) if found else ("", text)
    if not found and text.startswith(":"):
        raise URLError("missing protocol scheme")
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            # An opaque URL, such as mailto:x.
            return URL(scheme, query=query)
        raise URLError("invalid URI for request")
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host(authority), slash + path
    bad = _BAD_ESCAPE.search(rest)
    if bad:
        raise URLError(f"invalid URL escape {gotext.quote(rest[bad.start() : bad.start() + 3])}")
    return URL(scheme, host, rest, query)


def _host(authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise URLError("net/url: invalid userinfo")
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise URLError("missing ']' in host")
        _port(host[end + 1 :])
    elif ":" in host:
        # Only the last colon can start a port; one before it makes no host.
        first = host.index(":")
        _port(host[host.rindex(":") :])
        if host.count(":") > 1:
            _port(host[first:])
    bad = _BAD_HOST.search(host)
    if bad:
        raise URLError(f"invalid character {gotext.quote(bad[0])} in host name")
    return host


def _port(text: str) -> None:
    if not _PORT.fullmatch(text):
        raise URLError(f"invalid port {gotext.quote(text)} after host")


@function("url", "string")
def _url(text: str, *, run: Run) -> URL:
    run.spend_on_text(text)
    try:
        parsed = parse_request_uri(text)
    except URLError as err:
        raise EvaluationError(f"URL parse error during conversion from string: {err}") from err
    # What is checked has the fragment in its path or query; what is returned has not.
    return replace(parsed, path=parsed.path.partition("#")[0], query=parsed.query.partition("#")[0])


@function("isURL", "string")
def _is_url(text: str, *, run: Run) -> bool:
    run.spend_on_text(text)
    try:
        parse_request_uri(text)
    except URLError:
        return False
    return True


method("getScheme", "kubernetes.URL")(lambda url: url.scheme)
method("getHost", "kubernetes.URL")(lambda url: url.host)
method("getHostname", "kubernetes.URL")(lambda url: url.hostname)
method("getPort", "kubernetes.URL")(lambda url: url.port)
method("getEscapedPath", "kubernetes.URL")(lambda url: quote(url.path, safe=_PATH_SAFE))


@method("getQuery", "kubernetes.URL")
def _query(url: URL, *, run: Run) -> dict[str, list[str]]:
    run.spend_on_text(url.query)
    found: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        # Go drops what has a semicolon or a bad escape.
        if pair and ";" not in pair and not _BAD_ESCAPE.search(pair):
            key, _, value = pair.partition("=")
            found.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return found
