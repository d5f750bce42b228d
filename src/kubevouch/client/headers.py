"""The HTTP headers that Kubernetes gives a meaning. No I/O."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator

from kubevouch import __version__
from kubevouch.client.options import Impersonation


def user_agent(component: str) -> str:
    """``kubevouch/<version> (<component>)``; servers take the part before the slash as the field manager's default."""
    return f"kubevouch/{__version__} ({component}; {platform.system().lower()}/{platform.machine()})"


_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*", re.ASCII)
# k8s.io/client-go transport/round_trippers.go legalHeaderByte: RFC 9110's token without the percent sign.
_KEY_CHARACTERS = frozenset(b"!#$&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def impersonation(who: Impersonation) -> Iterator[tuple[str, str]]:
    """The Impersonate headers. Raises ``ValueError`` for a name that cannot stand in a header."""
    pairs = [("Impersonate-User", who.user), *(("Impersonate-Group", group) for group in who.groups)]
    if who.uid:
        pairs.append(("Impersonate-Uid", who.uid))
    for key, values in who.extra.items():
        pairs += [(f"Impersonate-Extra-{_escaped(key)}", value) for value in values]
    for name, value in pairs:
        if not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"{name} cannot hold {value!r}")
        yield name, value


def _escaped(key: str) -> str:
    return "".join(chr(byte) if byte in _KEY_CHARACTERS else f"%{byte:02X}" for byte in key.encode())


# RFC 9111 §5.5 (obsoleted there, but what kube-apiserver sends): 299 agent "text", more after a comma.
_WARNING = re.compile(r'\s*([0-9]{3}) (\S+) "((?:[^"\\]|\\.)*)"(?: "[^"]*")?\s*(?:,|$)', re.ASCII)
MAX_WARNINGS = 100


def warnings(values: Iterable[str]) -> list[str]:
    """The texts of Warning headers with code 299, in order, each once."""
    texts: dict[str, None] = {}
    for value in values:
        at = 0
        while (found := _WARNING.match(value, at)) is not None and len(texts) < MAX_WARNINGS:
            if found[1] == "299":
                texts[re.sub(r"\\(.)", r"\1", found[3])] = None
            at = found.end()
    return list(texts)
