"""URIs as Go's ``net/url`` (Go 1.26) reads and prints them.

A signed certificate carries the URI that Go prints, not the one that was asked for, and Go's host is what name
constraints and SPIFFE checks see. Only ASCII comes in: the subject alternative name is an IA5String.
"""

from __future__ import annotations

import ipaddress
import re

import msgspec

from kubevouch.machinery.text.gotext import quote

_ALNUM = "a-zA-Z0-9"
_MARKS = r"\-_.~"
# What each part keeps as it is; everything else is percent-encoded.
_KEPT_IN_PATH = re.compile(rf"[{_ALNUM}{_MARKS}$&+,/:;=@]", re.ASCII)
_KEPT_IN_FRAGMENT = re.compile(rf"[{_ALNUM}{_MARKS}$&+,/:;=?@!()*]", re.ASCII)
_KEPT_IN_USER = re.compile(rf"[{_ALNUM}{_MARKS}$&+,;=]", re.ASCII)
_KEPT_IN_HOST = re.compile(rf"[{_ALNUM}{_MARKS}!$&'()*+,;=:\[\]<>\"]", re.ASCII)
# What counts as a valid encoding of a path or fragment beyond what is kept.
_ALSO_VALID = frozenset("!$&'()*+,;=:@[]%")
_USERINFO = re.compile(rf"[{_ALNUM}\-._:~!$&'()*+,;=%@]*", re.ASCII)
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+\-.]*)?:", re.ASCII)
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")


class _URIError(Exception):
    pass


class URI(msgspec.Struct, frozen=True):
    """``text`` is the URI as Go prints it; ``host`` is unescaped and keeps its port."""

    text: str
    host: str


def parse(text: str) -> URI:
    """The URI in ``text``, which must be ASCII.

    Raises:
        ValueError: Go refuses it; the message is Go's.
    """
    whole, _, fragment = text.partition("#")
    subject = whole
    try:
        printed, host = _without_fragment(whole)
        if fragment:
            subject = text
            printed += "#" + _printed(fragment, _KEPT_IN_FRAGMENT)
    except _URIError as error:
        raise ValueError(f"parse {quote(subject)}: {error}") from None
    return URI(printed, host)


def _without_fragment(text: str) -> tuple[str, str]:
    if _CONTROL.search(text):
        raise _URIError("net/url: invalid control character in URL")
    if text == "*":
        return "*", ""
    scheme, rest = _scheme(text)
    query = ""
    if rest.endswith("?") and rest.count("?") == 1:
        rest, query = rest[:-1], "?"
    elif "?" in rest:
        rest, _, query = rest.partition("?")
        query = "?" + query if query else ""
    prefix = f"{scheme}:" if scheme else ""
    if not rest.startswith("/"):
        if scheme:
            return prefix + rest + query, ""
        if ":" in rest.partition("/")[0]:
            raise _URIError("first path segment in URL cannot contain colon")
    user = host = ""
    authority = False
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        named, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _authority(scheme, named)
        authority = True
    path = _printed(rest, _KEPT_IN_PATH)
    unescaped = _unescaped(rest)
    if authority and (user or host or unescaped):
        if scheme or user or host:
            prefix += "//"
        prefix += user + _escaped(host, _KEPT_IN_HOST)
    if not prefix and ":" in path.partition("/")[0]:
        prefix = "./"
    return prefix + path + query, host


def _scheme(text: str) -> tuple[str, str]:
    match = _SCHEME.match(text)
    if match is None:
        return "", text
    if match[1] is None:
        raise _URIError("missing protocol scheme")
    return match[1].lower(), text[match.end() :]


def _authority(scheme: str, text: str) -> tuple[str, str]:
    """The user part as printed, with its ``@``, and the host unescaped."""
    user, at, host = text.rpartition("@")
    host = _host(scheme, host)
    if not at:
        return "", host
    if not _USERINFO.fullmatch(user):
        raise _URIError("net/url: invalid userinfo")
    name, colon, password = user.partition(":")
    printed = _escaped(_unescaped(name), _KEPT_IN_USER) + colon + _escaped(_unescaped(password), _KEPT_IN_USER)
    return printed + "@", host


def _host(scheme: str, text: str) -> str:
    bracket = text.rfind("[")
    if bracket >= 0:
        return _literal(text, bracket)
    colon = text.find(":")
    if colon >= 0:
        if scheme in {"postgresql", "postgres"}:
            colon = text.rfind(":")
        if not _PORT.fullmatch(text[colon:]):
            raise _URIError(f"invalid port {quote(text[colon:])} after host")
    return _unescaped_host(text)


def _literal(text: str, bracket: int) -> str:
    closing = text.rfind("]")
    if closing < 0:
        raise _URIError("missing ']' in host")
    port = text[closing + 1 :]
    if not _PORT.fullmatch(port):
        raise _URIError(f"invalid port {quote(port)} after host")
    name = text[bracket + 1 : closing]
    zone_at = name.find("%25")
    if zone_at >= 0:
        name = _unescaped_host(name[:zone_at]) + _unescaped_host(name[zone_at:], zone=True)
    else:
        name = _unescaped_host(name)
    _check_ipv6(name)
    return f"[{name}]{port}"


def _check_ipv6(text: str) -> None:
    address, percent, zone = text.partition("%")
    try:
        if percent and not zone:
            raise ValueError
        ipaddress.IPv6Address(address)
    except ValueError:
        raise _URIError(f"invalid host: ParseAddr({quote(text)}): unable to parse IP") from None


def _unescaped(text: str) -> str:
    """Raises for a percent sign without two hexadecimal digits. One character of the result is one octet."""
    if "%" not in text:
        return text
    bad = _BAD_ESCAPE.search(text)
    if bad:
        raise _URIError(f"invalid URL escape {quote(text[bad.start() : bad.start() + 3])}")
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def _unescaped_host(text: str, *, zone: bool = False) -> str:
    position = 0
    while position < len(text):
        char = text[position]
        if char != "%":
            if not _KEPT_IN_HOST.fullmatch(char):
                raise _URIError(f"invalid character {quote(char)} in host name")
            position += 1
            continue
        escape = _ESCAPE.match(text, position)
        octet = chr(int(escape[1], 16)) if escape else ""
        # In a host only octets outside ASCII are encoded (RFC 3986); in a zone also what a host keeps, and blanks.
        if not octet or not (octet == "%" or (_in_zone(octet) if zone else octet >= "\x80")):
            raise _URIError(f"invalid URL escape {quote(text[position : position + 3])}")
        position += 3
    return _unescaped(text)


def _in_zone(octet: str) -> bool:
    return octet == " " or bool(_KEPT_IN_HOST.fullmatch(octet))


def _escaped(octets: str, kept: re.Pattern[str]) -> str:
    return "".join(char if kept.fullmatch(char) else f"%{ord(char):02X}" for char in octets)


def _printed(text: str, kept: re.Pattern[str]) -> str:
    """A path or fragment: as it came when that is a valid encoding, else escaped anew."""
    octets = _unescaped(text)
    if all(char in _ALSO_VALID or kept.fullmatch(char) for char in text):
        return text
    return _escaped(octets, kept)
