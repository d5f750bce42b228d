"""Certificates of SSH hosts, made by ``cryptography``, and signatures of their keys."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    SSHCertificateBuilder,
    SSHCertificateType,
    SSHCertPrivateKeyTypes,
)

from device_certificates import NOW
from kubevouch.attestation.sshpop.evidence import NAMESPACE, Proof, SignatureForm, signed_message
from kubevouch.pki.ssh import sshsig
from kubevouch.pki.ssh.public_key import PublicKey, parse_line
from kubevouch.pki.ssh.wire import string

SECONDS = int(NOW.timestamp())


@dataclass(frozen=True)
class SSHKey:
    key: ed25519.Ed25519PrivateKey

    @property
    def line(self) -> str:
        return self.key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

    @property
    def public(self) -> PublicKey:
        return parse_line(self.line)

    def sign(self, octets: bytes) -> bytes:
        return string(b"ssh-ed25519") + string(self.key.sign(octets))

    def write(self, path: Path) -> None:
        path.touch(mode=0o600)
        path.write_bytes(self.key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))


def make_key() -> SSHKey:
    return SSHKey(ed25519.Ed25519PrivateKey.generate())


def certify(
    host: SSHKey,
    by: SSHKey | SSHCertPrivateKeyTypes,
    *,
    principals: tuple[str, ...] = ("node-1.example",),
    kind: SSHCertificateType = SSHCertificateType.HOST,
    after: int = SECONDS - 60,
    before: int = SECONDS + 60,
    options: tuple[str, ...] = (),
    serial: int = 7,
) -> str:
    """The line of a ``-cert.pub``."""
    builder = (
        SSHCertificateBuilder()
        .public_key(host.key.public_key())
        .serial(serial)
        .type(kind)
        .key_id(b"host-id")
        .valid_after(after)
        .valid_before(before)
    )
    builder = (
        builder.valid_principals([each.encode() for each in principals])
        if principals
        else builder.valid_for_all_principals()  # type: ignore[no-untyped-call]
    )
    for each in options:
        builder = builder.add_critical_option(each.encode(), b"")
    return builder.sign(by.key if isinstance(by, SSHKey) else by).public_bytes().decode()


def prove(
    certificate: str,
    key: SSHKey,
    nonce: bytes,
    *,
    host: str = "node-1.example",
    namespace: str = NAMESPACE,
    hash_name: str = "sha512",
    reserved: bytes = b"",
    shown: SSHKey | None = None,
    client_nonce: bytes = b"c" * 32,
) -> Proof:
    """A proof whose SSHSIG is signed as it says, whatever it says."""
    digest = hashlib.new(hash_name, signed_message(nonce, client_nonce)).digest()
    signature = sshsig.Signature(
        public_key=(shown or key).public.blob,
        namespace=namespace,
        reserved=reserved,
        hash_name=hash_name,
        signature=key.sign(sshsig.encode(namespace, reserved, hash_name, digest)),
    )
    return Proof(
        certificate=certificate,
        host=host,
        client_nonce=client_nonce,
        signature=sshsig.armour(signature),
        signature_form=SignatureForm.SSHSIG,
    )
