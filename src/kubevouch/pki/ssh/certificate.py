"""OpenSSH's certificates (PROTOCOL.certkeys, OpenSSH 9.2), those of hosts only.

Of principals only whole names count: OpenSSH lets a host's principal be a pattern, which would name every machine.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import msgspec

from kubevouch.pki.errors import SSHError
from kubevouch.pki.ssh.public_key import PublicKey, parse_blob, read_key, split_line
from kubevouch.pki.ssh.wire import Reader

_SUFFIX = "-cert-v01@openssh.com"
_USER, _HOST = 1, 2
MAX_PRINCIPALS = 256
"""OpenSSH's own bound."""


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate of which nothing has been verified.

    Args:
        kind: 1 for users, 2 for hosts.
        valid_after, valid_before: seconds since 1970; valid at the first and no more at the second.
        signed: what the authority has signed.
    """

    key: PublicKey
    serial: int
    kind: int
    key_id: str
    principals: tuple[str, ...]
    valid_after: int
    valid_before: int
    critical_options: tuple[str, ...]
    authority: PublicKey
    signed: bytes
    signature: bytes


def parse(line: str) -> Certificate:
    """The certificate in a line of a ``-cert.pub`` file.

    Raises:
        SSHError: ``size``, ``structure``, ``key-type``, ``key-size``; ``certificate-type`` for a plain key.
    """
    kind, blob = split_line(line)
    reader = Reader(blob)
    own = reader.text()
    if own != kind:
        raise SSHError("structure", f"the line says {kind[:64]!r} and its contents {own[:64]!r}")
    if not own.endswith(_SUFFIX):
        raise SSHError("certificate-type", f"got {own[:64]!r}, expected the certificate of a host")
    reader.string()  # the authority's nonce, against collisions
    key = read_key(reader, own.removesuffix(_SUFFIX))
    serial, certificate_kind, key_id = reader.u64(), reader.u32(), reader.text()
    principals = _strings(reader.string())
    after, before = reader.u64(), reader.u64()
    options = _options(reader.string())
    _options(reader.string())
    reader.string()  # reserved
    authority = parse_blob(reader.string())
    signed = reader.since(0)
    signature = reader.string()
    reader.end()
    return Certificate(
        key=key,
        serial=serial,
        kind=certificate_kind,
        key_id=key_id,
        principals=principals,
        valid_after=after,
        valid_before=before,
        critical_options=options,
        authority=authority,
        signed=signed,
        signature=signature,
    )


def verify_host(certificate: Certificate, authorities: Iterable[PublicKey], *, host: str, now: dt.datetime) -> None:
    """That one of ``authorities`` vouches for the key of ``host`` now.

    Raises:
        SSHError: in this order ``certificate-type``, ``ca``, ``ca-signature``, ``validity``, ``principal``,
            ``critical-options``.
    """
    if certificate.kind != _HOST:
        got = "user" if certificate.kind == _USER else f"type {certificate.kind}"
        raise SSHError("certificate-type", f"got a {got} certificate, expected one of a host")
    if certificate.authority.blob not in {each.blob for each in authorities}:
        raise SSHError("ca", f"the {certificate.authority.type} key that signed the certificate is none of a CA here")
    try:
        certificate.authority.verify(certificate.signature, certificate.signed)
    except SSHError as err:
        raise SSHError("ca-signature", str(err)) from err
    seconds = int(now.timestamp())
    if not certificate.valid_after <= seconds < certificate.valid_before:
        raise SSHError(
            "validity",
            f"the certificate is valid from {certificate.valid_after} to {certificate.valid_before}, it is {seconds}",
        )
    if host not in certificate.principals:
        raise SSHError(
            "principal", f"the certificate is for {', '.join(certificate.principals)[:200]!r}, not {host[:64]!r}"
        )
    if certificate.critical_options:
        raise SSHError(
            "critical-options", f"got the option {certificate.critical_options[0][:64]!r}, which is none of a host"
        )


def _strings(octets: bytes) -> tuple[str, ...]:
    reader = Reader(octets)
    found = []
    while reader.more():
        found.append(reader.text())
        if len(found) > MAX_PRINCIPALS:
            raise SSHError("structure", f"got more than {MAX_PRINCIPALS} principals")
    return tuple(found)


def _options(octets: bytes) -> tuple[str, ...]:
    """Their names, which are in order and each there once."""
    reader = Reader(octets)
    found: list[str] = []
    while reader.more():
        name = reader.text()
        reader.string()
        if found and found[-1] >= name:
            raise SSHError("structure", f"the option {name[:64]!r} is there twice or out of order")
        found.append(name)
    return tuple(found)
