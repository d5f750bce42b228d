"""OpenSSH's key revocation lists (PROTOCOL.krl, OpenSSH 9.2).

Sections that this does not know are refused, whether or not they are critical: a list that is half understood lets
pass what somebody has revoked.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator

import msgspec

from kubevouch.pki.errors import SSHError
from kubevouch.pki.ssh.certificate import Certificate
from kubevouch.pki.ssh.public_key import PublicKey
from kubevouch.pki.ssh.wire import Reader

_MAGIC = b"SSHKRL\n\0"
_FORMAT = 1
MAX_BYTES = 1 << 20
"""Of a list: some 100,000 serial numbers one by one, eight million as bits."""

_CERTIFICATES, _KEYS, _SHA1, _SIGNATURE, _SHA256 = 1, 2, 3, 4, 5
_SERIALS, _RANGE, _BITMAP, _KEY_IDS = 0x20, 0x21, 0x22, 0x23


class _Issued(msgspec.Struct, kw_only=True):
    """Certificates of one authority that are revoked; of any authority if ``authority`` is empty."""

    authority: bytes
    serials: set[int] = msgspec.field(default_factory=set)
    ranges: list[tuple[int, int]] = msgspec.field(default_factory=list)
    bitmaps: list[tuple[int, int]] = msgspec.field(default_factory=list)
    key_ids: set[str] = msgspec.field(default_factory=set)

    def has(self, certificate: Certificate) -> bool:
        if self.authority not in (b"", certificate.authority.blob):
            return False
        if certificate.key_id in self.key_ids:
            return True
        serial = certificate.serial
        # A CA that numbers nothing gives every certificate the serial 0, so that it names none (OpenSSH does the same).
        return bool(serial) and (
            serial in self.serials
            or any(low <= serial <= high for low, high in self.ranges)
            or any(serial >= offset and bits >> (serial - offset) & 1 for offset, bits in self.bitmaps)
        )


class RevocationList:
    """What is revoked. Made by :func:`parse`."""

    def __init__(self) -> None:
        self._issued: list[_Issued] = []
        self._keys: set[bytes] = set()
        self._digests: set[bytes] = set()

    def verify(self, certificate: Certificate) -> None:
        """Raises :class:`SSHError`: ``revoked``, the certificate, its key or its authority's key."""
        if any(each.has(certificate) for each in self._issued):
            raise SSHError("revoked", f"the certificate {certificate.serial} {certificate.key_id[:64]!r} is revoked")
        for key, what in ((certificate.key, "the key of the host"), (certificate.authority, "the key of its CA")):
            if self._has_key(key):
                raise SSHError("revoked", f"{what} is revoked")

    def _has_key(self, key: PublicKey) -> bool:
        digests = {hashlib.sha1(key.blob, usedforsecurity=False).digest(), hashlib.sha256(key.blob).digest()}
        return key.blob in self._keys or bool(digests & self._digests)

    def add(self, kind: int, body: bytes) -> None:
        """A section. Raises :class:`SSHError`: ``structure``."""
        if kind == _CERTIFICATES:
            self._issued.append(_certificates(body))
        elif kind == _KEYS:
            self._keys.update(_strings(body))
        elif kind in (_SHA1, _SHA256):
            digests = set(_strings(body))
            if any(len(each) != (20 if kind == _SHA1 else 32) for each in digests):
                raise SSHError("structure", "the revocation list has a digest of another length")
            self._digests |= digests
        else:
            raise SSHError("structure", f"the revocation list has a section of type {kind}, which is not known here")


def parse(octets: bytes) -> RevocationList:
    """The list that ``ssh-keygen -k`` has written. Who wrote it is not looked at: it is the operator's own file.

    Raises:
        SSHError: ``size``, ``structure``.
    """
    if len(octets) > MAX_BYTES:
        raise SSHError("size", f"got a revocation list of {len(octets)} bytes, expected at most {MAX_BYTES}")
    reader = Reader(octets, MAX_BYTES)
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise SSHError("structure", "got no revocation list, expected one of ssh-keygen -k")
    form = reader.u32()
    if form != _FORMAT:
        raise SSHError("structure", f"got a revocation list of format {form}, expected {_FORMAT}")
    reader.take(8 + 8 + 8)  # its number, when it was made, flags
    reader.string()  # reserved
    reader.string()  # comment
    found = RevocationList()
    while reader.more():
        kind, body = reader.u8(), reader.string()
        if kind == _SIGNATURE:
            # The key came; signatures end the list, and OpenSSH itself has given them up (9.4).
            reader.string()
        else:
            found.add(kind, body)
    return found


def _certificates(body: bytes) -> _Issued:
    reader = Reader(body, MAX_BYTES)
    issued = _Issued(authority=reader.string())
    reader.string()  # reserved
    while reader.more():
        kind, part = reader.u8(), Reader(reader.string(), MAX_BYTES)
        if kind == _SERIALS:
            issued.serials.update(_numbers(part))
        elif kind == _RANGE:
            issued.ranges.append((part.u64(), part.u64()))
        elif kind == _BITMAP:
            issued.bitmaps.append((part.u64(), part.unsigned()))
        elif kind == _KEY_IDS:
            issued.key_ids.update(_texts(part))
        else:
            raise SSHError("structure", f"the revocation list has a subsection of type {kind}, which is not known here")
        part.end()
    return issued


def _numbers(reader: Reader) -> Iterator[int]:
    octets = reader.rest()
    if len(octets) % 8:
        raise SSHError("structure", "got serial numbers that break off")
    return (number for (number,) in struct.iter_unpack(">Q", octets))


def _texts(reader: Reader) -> Iterator[str]:
    while reader.more():
        yield reader.text()


def _strings(body: bytes) -> Iterator[bytes]:
    reader = Reader(body, MAX_BYTES)
    while reader.more():
        yield reader.string()
