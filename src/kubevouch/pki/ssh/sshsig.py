"""OpenSSH's signatures over files (PROTOCOL.sshsig, OpenSSH 9.2): signed for a purpose, so that none serves another."""

from __future__ import annotations

import base64
import hashlib

import msgspec

from kubevouch.pki.errors import SSHError
from kubevouch.pki.ssh.wire import Reader, base64_octets, string

_MAGIC = b"SSHSIG"
_VERSION = 1
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_MAX_ARMOUR = 16 << 10
_HASHES = {"sha256": hashlib.sha256, "sha512": hashlib.sha512}


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """``public_key`` is the key's or certificate's blob, as whoever signed wrote it: nobody has vouched for it."""

    public_key: bytes
    namespace: str
    reserved: bytes
    hash_name: str
    signature: bytes


def parse(armour: str) -> Signature:
    """The signature that ``ssh-keygen -Y sign`` has written. Raises :class:`SSHError`: ``size``, ``structure``."""
    if len(armour) > _MAX_ARMOUR:
        raise SSHError("size", f"got a signature of {len(armour)} characters, expected at most {_MAX_ARMOUR}")
    first, *body = armour.strip().splitlines() or [""]
    if first != _BEGIN or not body or body[-1] != _END:
        raise SSHError("structure", "expected an SSH SIGNATURE in armour")
    reader = Reader(base64_octets("".join(body[:-1])))
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise SSHError("structure", "got no SSHSIG")
    version = reader.u32()
    if version != _VERSION:
        raise SSHError("structure", f"got SSHSIG version {version}, expected {_VERSION}")
    read = Signature(
        public_key=reader.string(),
        namespace=reader.text(),
        reserved=reader.string(),
        hash_name=reader.text(),
        signature=reader.string(),
    )
    reader.end()
    return read


def signed_octets(signature: Signature, message: bytes, namespace: str) -> bytes:
    """What has to be signed if ``message`` was, for the purpose ``namespace``.

    Raises:
        SSHError: ``namespace``; ``signature-form`` for another hash than SHA-256 and SHA-512.
    """
    if signature.namespace != namespace:
        raise SSHError("namespace", f"got a signature for {signature.namespace[:64]!r}, expected {namespace!r}")
    digest = _HASHES.get(signature.hash_name)
    if digest is None:
        raise SSHError("signature-form", f"got the hash {signature.hash_name[:64]!r}, expected {' or '.join(_HASHES)}")
    return encode(namespace, signature.reserved, signature.hash_name, digest(message).digest())


def encode(namespace: str, reserved: bytes, hash_name: str, digest: bytes) -> bytes:
    """The octets under the signature: what is reserved is not looked at, and signed all the same."""
    parts = (namespace.encode(), reserved, hash_name.encode(), digest)
    return _MAGIC + b"".join(map(string, parts))


def armour(signature: Signature) -> str:
    """As ``ssh-keygen -Y sign`` writes it."""
    parts = (
        signature.public_key, signature.namespace.encode(), signature.reserved, signature.hash_name.encode(),
        signature.signature,
    )  # fmt: skip
    text = base64.b64encode(_MAGIC + _VERSION.to_bytes(4) + b"".join(map(string, parts))).decode()
    lines = [text[at : at + 70] for at in range(0, len(text), 70)]
    return "\n".join((_BEGIN, *lines, _END, ""))
