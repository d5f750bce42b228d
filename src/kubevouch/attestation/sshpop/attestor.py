"""The node's side of sshpop: the host key of the SSH server and its certificate, read anew for each proof."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

from kubevouch.attestation import settings
from kubevouch.attestation.interface import Asked, Binding, SettingsError
from kubevouch.attestation.sshpop.evidence import (
    NAME,
    NAMESPACE,
    NONCE_BYTES,
    VERSIONS,
    Proof,
    SignatureForm,
    signed_message,
)
from kubevouch.pki.errors import SSHError
from kubevouch.pki.ssh import certificate, public_key, sshsig, wire
from kubevouch.pki.ssh.public_key import PublicKey
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util import files
from kubevouch.util.clock import Clock

_KEY = "/etc/ssh/ssh_host_ed25519_key"
_MAX_KEY_BYTES = 64 << 10
_HASH = "sha512"
_CURVE_HASHES: dict[int, hashes.HashAlgorithm] = {256: hashes.SHA256(), 384: hashes.SHA384(), 521: hashes.SHA512()}


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    host_key: the host key of the SSH server.
    certificate: its certificate; by default beside the key, as sshd's ``HostCertificate`` has it.
    host: the principal to be; by default the certificate's first.
    """

    host_key: str = _KEY
    certificate: str = ""
    host: str = ""


async def make_attestor(settings_: Mapping[str, str], clock: Clock) -> SSHPopAttestor:
    """Raises :class:`SettingsError`."""
    attestor = SSHPopAttestor(settings.read(settings_, Settings, NAME))
    attestor.load()
    return attestor


class SSHPopAttestor:
    """An :class:`~kubevouch.attestation.interface.Attestor`."""

    name = NAME
    versions: Sequence[str] = VERSIONS
    needs_challenge = True

    def __init__(self, settings_: Settings) -> None:
        self._key = Path(settings_.host_key)
        self._certificate = settings_.certificate or f"{settings_.host_key}-cert.pub"
        self._host = settings_.host

    async def opening(self, version: str) -> bytes:
        return b""

    async def make_key(self) -> PrivateKey | None:
        return None

    async def attest(self, version: str, key: PrivateKey, binding: Binding, asked: Asked | None) -> bytes:
        line, host, own, host_key = self.load()
        client_nonce = secrets.token_bytes(NONCE_BYTES)
        digest = hashlib.sha512(signed_message(binding.digest, client_nonce)).digest()
        signature = sshsig.Signature(
            public_key=own.blob,
            namespace=NAMESPACE,
            reserved=b"",
            hash_name=_HASH,
            signature=_sign(host_key, own, sshsig.encode(NAMESPACE, b"", _HASH, digest)),
        )
        return msgspec.json.encode(
            Proof(
                certificate=line,
                host=host,
                client_nonce=client_nonce,
                signature=sshsig.armour(signature),
                signature_form=SignatureForm.SSHSIG,
            )
        )

    async def provider_id(self) -> str:
        return ""

    async def close(self) -> None:
        return None

    def load(self) -> tuple[str, str, PublicKey, Any]:
        """The certificate's line, the host's name, its key and the private half.

        Raises:
            SettingsError: there is no such pair.
        """
        line = settings.read_file(self._certificate, NAME, "certificate").decode("utf-8", "replace").strip()
        try:
            read = certificate.parse(line)
        except SSHError as err:
            raise SettingsError(
                f"settings of {NAME}: certificate {self._certificate}: {err}",
                hint="have the CA certify the host key: ssh-keygen -s CA -h -I ID -n HOST KEY.pub",
            ) from err
        host = self._host or next(iter(read.principals), "")
        if not host:
            raise SettingsError(
                f"settings of {NAME}: {self._certificate} names no host", hint="certify it with -n HOST"
            )
        try:
            key = load_ssh_private_key(files.read_private(self._key, _MAX_KEY_BYTES), None)
        except OSError as err:
            raise SettingsError(
                f"settings of {NAME}: hostKey {self._key}: {err.strerror or err}", hint=getattr(err, "hint", "")
            ) from err
        except (ValueError, TypeError, UnsupportedAlgorithm) as err:
            raise SettingsError(
                f"settings of {NAME}: hostKey {self._key}: got no SSH private key without a passphrase"
            ) from err
        if _blob(key) != read.key.blob:
            raise SettingsError(f"settings of {NAME}: {self._key} is not the key of {self._certificate}")
        return " ".join(line.split()[:2]), host, read.key, key


def _blob(key: Any) -> bytes:
    line: bytes = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return public_key.split_line(line.decode())[1]


def _sign(key: Any, own: PublicKey, octets: bytes) -> bytes:
    """An SSH signature, with its algorithm in front."""
    if isinstance(key, rsa.RSAPrivateKey):
        return _named("rsa-sha2-512", key.sign(octets, padding.PKCS1v15(), hashes.SHA512()))
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return _named(own.type, key.sign(octets))
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    both = utils.decode_dss_signature(key.sign(octets, ec.ECDSA(_CURVE_HASHES[key.curve.key_size])))
    return _named(own.type, b"".join(wire.string(wire.unsigned(each)) for each in both))


def _named(algorithm: str, signature: bytes) -> bytes:
    return wire.string(algorithm.encode()) + wire.string(signature)
