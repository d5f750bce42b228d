"""Signed tokens of clouds (RFC 7519): RS256, by a key that we have, and in no other way. joserfc behind one file.

A token's header says nothing that is believed but which of our keys to take: whoever lets it choose the algorithm takes
an HMAC keyed with the public key for a signature (algorithm confusion), and whoever takes a key out of it (``jwk``,
``x5c``, ``jku``, ``x5u``) trusts everybody. JSON with a name twice is refused in header and payload, because two
readers would see two tokens.

KeySetError    what was published is no set of keys
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from joserfc import jwk, jws
from joserfc.errors import JoseError

from kubevouch.attestation import documents
from kubevouch.attestation.interface import RefusedEvidenceError

ALGORITHM = "RS256"
MAX_BYTES = 16 << 10
"""Of a token; those of clouds have some two."""
MAX_KEYS = 64
"""Of one set."""
MAX_LIFE = dt.timedelta(hours=25)
"""Between ``iat`` and ``exp``: managed identities' tokens are good for 24 hours."""
LEEWAY = dt.timedelta(minutes=2)
"""By which clocks may differ."""

_MIN_BITS = 2048
_MAX_BITS = 8192
_SEGMENT = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
# RFC 7515 section 4.1: each would let the token choose its key, or what else has to be understood (crit, and b64 of
# RFC 7797, which changes what is signed).
_REFUSED = ("jku", "jwk", "x5u", "x5c", "crit", "b64")
_REGISTRY = jws.JWSRegistry(algorithms=[ALGORITHM], strict_check_header=False)


class KeySetError(ValueError):
    """What was published is no set of keys."""


class UnknownKeyError(RefusedEvidenceError):
    """No key of the set has the token's ``kid``: perhaps a newer set has one."""


class Claims(msgspec.Struct):
    """Those that every token has (RFC 7519 section 4.1). Times in seconds since 1970."""

    iss: str = ""
    aud: str | list[str] = ""
    exp: int | None = None
    iat: int | None = None
    nbf: int | None = None


class _Header(msgspec.Struct):
    alg: Any = None
    kid: Any = None


C = TypeVar("C", bound=Claims)


class KeySet:
    """Public keys by their ``kid``."""

    def __init__(self, keys: Mapping[str, jwk.RSAKey]) -> None:
        self._keys = dict(keys)

    @classmethod
    def parse(cls, text: bytes) -> KeySet:
        """A JWK Set (RFC 7517 section 5). Keys that could sign no token of ours are passed over.

        Raises:
            KeySetError: it is none, has no key that can be used, or two of one ``kid``.
        """
        try:
            read = documents.decode(text, dict[str, Any], "a set of keys")
        except RefusedEvidenceError as err:
            raise KeySetError(str(err)) from err
        listed = read.get("keys")
        if not isinstance(listed, list) or len(listed) > MAX_KEYS:
            raise KeySetError(f"got no list of keys, expected one of at most {MAX_KEYS}")
        keys: dict[str, jwk.RSAKey] = {}
        for each in listed:
            if not isinstance(each, dict) or not _is_usable(each):
                continue
            if each["kid"] in keys:
                raise KeySetError(f"got two keys {each['kid'][:64]!r}")
            keys[each["kid"]] = _loaded(each)
        if not keys:
            raise KeySetError(f"got no RSA key for signatures with a kid, expected one for {ALGORITHM}")
        return cls(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def payload(self, token: str) -> bytes:
        """What one of the keys has signed.

        Raises:
            RefusedEvidenceError: ``size``, ``structure``, ``duplicate-key``, ``alg``, ``header``, ``signature``.
            UnknownKeyError: ``kid``.
        """
        # 1. Its form: three segments, each written in the one way that there is (RFC 7515 section 7.1).
        if len(token) > MAX_BYTES:
            raise RefusedEvidenceError("size", f"got a token of {len(token)} bytes, expected at most {MAX_BYTES}")
        segments = token.split(".")
        if len(segments) != 3:
            raise RefusedEvidenceError("structure", f"got {len(segments)} segments of a token, expected 3")
        head = segments[0]
        if not all(map(_is_canonical, segments)):
            raise RefusedEvidenceError("structure", "got a token that is not in base64url, expected no other octet")
        # 2. The algorithm, which is ours to say.
        header_text = _octets(head)
        header = documents.decode(header_text, _Header, "the header of a token")
        if header.alg != ALGORITHM:
            raise RefusedEvidenceError("alg", f"got {str(header.alg)[:32]!r}, expected {ALGORITHM}")
        # 3. The key, by its name only. A header that brings a key has none of ours that it would verify with.
        named = documents.decode(header_text, dict[str, Any], "the header of a token")
        brought = [name for name in _REFUSED if name in named]
        if brought:
            step = "signature" if brought[0] in ("jku", "jwk", "x5u", "x5c") else "header"
            raise RefusedEvidenceError(step, f"got {', '.join(brought)} in the header, expected a kid only")
        key = self._keys.get(header.kid) if isinstance(header.kid, str) else None
        if key is None:
            raise UnknownKeyError("kid", f"got {str(header.kid)[:64]!r}, expected the kid of a key that is published")
        # 4. The signature.
        try:
            return bytes(jws.deserialize_compact(token, key, registry=_REGISTRY).payload)
        except (JoseError, ValueError, TypeError) as err:
            raise RefusedEvidenceError("signature", f"the key {header.kid[:64]!r} has not signed this token") from err


def claims(payload: bytes, into: type[C]) -> C:
    """What a payload says. Raises :class:`RefusedEvidenceError` (``structure``, ``duplicate-key``)."""
    return documents.decode(payload, into, "the payload of a token")


def verify_issuer(said: Claims, issuer: str) -> None:
    """Raises :class:`RefusedEvidenceError` (``issuer``)."""
    if said.iss != issuer:
        raise RefusedEvidenceError("issuer", f"got {said.iss[:128]!r}, expected {issuer!r}")


def verify_audience(said: Claims, audience: str) -> None:
    """A token that is for others too is not for us: they could show it. Raises :class:`RefusedEvidenceError`."""
    if said.aud != audience:
        raise RefusedEvidenceError("audience", f"got {str(said.aud)[:256]!r}, expected {audience!r}")


def verify_times(said: Claims, now: dt.datetime, longest: dt.timedelta = MAX_LIFE) -> None:
    """It has begun, has not ended, and was not made for longer than ``longest``.

    Raises:
        RefusedEvidenceError: ``time``.
    """
    if said.exp is None or said.iat is None:
        raise RefusedEvidenceError("time", "got no exp or no iat, expected both")
    # In whole seconds: what a token says may be no number that a float or a datetime can hold.
    moment, leeway, most = (int(each) for each in (now.timestamp(), LEEWAY.total_seconds(), longest.total_seconds()))
    begins = max(said.iat, said.nbf or said.iat)
    if begins > moment + leeway:
        raise RefusedEvidenceError("time", f"it begins {begins - moment} s from now")
    if said.exp <= moment - leeway:
        raise RefusedEvidenceError("time", f"it ended {moment - said.exp} s ago")
    if not 0 < said.exp - said.iat <= most:
        raise RefusedEvidenceError("time", f"it is good for {said.exp - said.iat} s, expected at most {most}")


def _is_usable(entry: Mapping[str, Any]) -> bool:
    return (
        entry.get("kty") == "RSA"
        and entry.get("use", "sig") == "sig"
        and entry.get("alg", ALGORITHM) == ALGORITHM
        and isinstance(entry.get("kid"), str)
        and bool(entry["kid"])
    )


def _loaded(entry: Mapping[str, Any]) -> jwk.RSAKey:
    try:
        bits = 8 * len(_octets(entry["n"]))
        # Of what is published the numbers only: a private half would be nobody's business here.
        if _MIN_BITS <= bits <= _MAX_BITS:
            return jwk.RSAKey.import_key({"kty": "RSA", "n": entry["n"], "e": entry["e"]})
    except (JoseError, ValueError, TypeError, KeyError) as err:
        raise KeySetError(f"the key {entry['kid'][:64]!r} cannot be read: {str(err)[:128]}") from err
    raise KeySetError(f"the key {entry['kid'][:64]!r} has {bits} bits, expected {_MIN_BITS} to {_MAX_BITS}")


def _octets(segment: str) -> bytes:
    return base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))


def _is_canonical(segment: str) -> bool:
    """Whether it is what the octets are written as: unused bits that are set would let one token be written twice."""
    if not _SEGMENT.fullmatch(segment):
        return False
    try:
        return base64.urlsafe_b64encode(_octets(segment)).rstrip(b"=").decode() == segment
    except binascii.Error:
        return False
