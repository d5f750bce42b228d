"""Public key pins: the SHA-256 of a CA's SubjectPublicKeyInfo (kubeadm ``pubkeypin``, RFC 7469 section 2.4)."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import PinError

if TYPE_CHECKING:
    from kubevouch.pki.x509.x509_certificate import Certificate

FORMAT = "sha256"
_DIGEST_SIZE = 32
_HEX = re.compile(r"[0-9a-fA-F]*")
_KNOWN_FORMATS = f"Known format(s) are: {FORMAT}"


class PinSet(msgspec.Struct, frozen=True):
    """The digests of the keys to trust."""

    digests: tuple[bytes, ...]

    def __bool__(self) -> bool:
        return bool(self.digests)

    def covers(self, certificate: Certificate) -> bool:
        digest = certificate.public_key.fingerprint()
        matches = [hmac.compare_digest(digest, pinned) for pinned in self.digests]
        return any(matches)


def pin_of(certificate: Certificate) -> str:
    """``sha256:`` and 64 lower-case digits: what ``kubeadm token create --print-join-command`` prints."""
    return f"{FORMAT}:{certificate.public_key.fingerprint().hex()}"


def parse(texts: Iterable[str]) -> PinSet:
    """The pins in ``texts``; the format's name and the digits in any case, no blanks.

    Raises:
        PinError: with kubeadm's text.
    """
    return PinSet(tuple(_digest(text) for text in texts))


def _digest(text: str) -> bytes:
    parts = text.split(":")
    if len(parts) != 2:
        raise PinError(f'invalid hash, expected "format:hex-value". {_KNOWN_FORMATS}')
    name, digits = parts
    if name.lower() != FORMAT:
        raise PinError(f"unknown hash format {quote(name)}. {_KNOWN_FORMATS}")
    valid = _HEX.match(digits)
    if valid is None or valid.end() < len(digits):
        char = digits[valid.end() if valid else 0]
        raise PinError(
            f"could not decode SHA-256 from hex: encoding/hex: invalid byte: U+{ord(char):04X} {quote(char)[1:-1]!r}"
        )
    if len(digits) % 2:
        raise PinError("could not decode SHA-256 from hex: encoding/hex: odd length hex string")
    digest = bytes.fromhex(digits)
    if len(digest) != _DIGEST_SIZE:
        raise PinError(f"expected a {_DIGEST_SIZE} byte SHA-256 hash, found {len(digest)} bytes")
    return digest


def verify(pins: PinSet, bundle: Sequence[Certificate]) -> tuple[Certificate, ...]:
    """The certificates of ``bundle`` whose keys are pinned, in order.

    kubeadm goes on to trust the whole bundle when one key of it is pinned, so that who knows a token can slip in a CA
    of his own beside the real one. Trust what this returns and nothing else.

    Raises:
        PinError: no key is pinned. kubeadm prints "cluster CA found in cluster-info ConfigMap is invalid: " before it.
    """
    pinned = tuple(certificate for certificate in bundle if pins.covers(certificate))
    if not pinned:
        found = ":".join(pin_of(certificate) for certificate in bundle)
        raise PinError(f"none of the public keys {quote(found)} are pinned")
    return pinned
