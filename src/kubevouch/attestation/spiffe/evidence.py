"""What a machine shows that has an X.509-SVID: the same as for any other certificate.

Source: SPIFFE's X509-SVID and SPIFFE-ID documents (version 1.0).
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec

NAME = "spiffe"
VERSIONS = ("v1",)
MAX_ID = 2048
"""Octets of a SPIFFE ID (SPIFFE-ID, section 2.3)."""

_TRUST_DOMAIN = re.compile(r"[a-z0-9._-]{1,255}", re.ASCII)
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


class SpiffeID(msgspec.Struct, frozen=True):
    """``path`` begins with a slash."""

    trust_domain: str
    path: str

    def __str__(self) -> str:
        return f"spiffe://{self.trust_domain}{self.path}"


def is_trust_domain(text: str) -> bool:
    """Whether it can be one (section 2.1)."""
    return _TRUST_DOMAIN.fullmatch(text) is not None


def parse_id(text: str) -> SpiffeID:
    """A SPIFFE ID with a path (section 2). Raises :class:`ValueError`."""
    if len(text) > MAX_ID:
        raise ValueError(f"got {len(text)} characters, expected at most {MAX_ID}")
    parts = urlsplit(text)
    read = SpiffeID(parts.netloc, parts.path)
    segments = read.path.split("/")[1:]
    if (
        str(read) != text
        or parts.scheme != "spiffe"
        or not is_trust_domain(read.trust_domain)
        or not segments
        or not all(_SEGMENT.fullmatch(each) and each not in (".", "..") for each in segments)
    ):
        raise ValueError(f"got {text[:128]!r}, expected spiffe://TRUST-DOMAIN/PATH")
    return read
