"""The node's side of x509pop: the device's certificate and key are files, read anew for each proof."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from kubevouch.attestation import settings
from kubevouch.attestation.interface import Asked, Binding, SettingsError
from kubevouch.attestation.showing import Showing
from kubevouch.attestation.x509pop.evidence import NAME, NONCE_BYTES, VERSIONS, Proof, SignatureForm, signed_message
from kubevouch.pki import keys
from kubevouch.pki.errors import KeyMaterialError, ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util import files
from kubevouch.util.clock import Clock

_MAX_KEY_BYTES = 64 << 10


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    certificate: a file with the device's certificate and those above it, in PEM.
    key: the file with its key, in PEM, that only its owner may read.
    """

    certificate: str
    key: str


async def make_attestor(settings_: Mapping[str, str], clock: Clock) -> X509PopAttestor:
    """Raises :class:`SettingsError`."""
    read = settings.read(settings_, Settings, NAME)
    attestor = X509PopAttestor(Path(read.certificate), Path(read.key))
    attestor.load()
    return attestor


class X509PopAttestor(Showing):
    """An :class:`~kubevouch.attestation.interface.Attestor`, also of other methods that show a certificate."""

    versions: Sequence[str] = VERSIONS
    needs_challenge = True

    def __init__(self, certificate: Path, key: Path, name: str = NAME) -> None:
        self.name = name
        self._certificate = certificate
        self._key = key

    async def attest(self, version: str, key: PrivateKey, binding: Binding, asked: Asked | None) -> bytes:
        chain, device_key = self.load()
        client_nonce = secrets.token_bytes(NONCE_BYTES)
        form, signature = _sign(device_key, signed_message(binding.digest, client_nonce))
        return msgspec.json.encode(
            Proof(certificates=chain, client_nonce=client_nonce, signature=signature, signature_form=form)
        )

    def load(self) -> tuple[tuple[bytes, ...], rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey]:
        """The chain in DER, the device's own first, and its key.

        Raises:
            SettingsError: there is no such pair.
        """
        text = settings.read_file(str(self._certificate), self.name, "certificate")
        try:
            chain = x509_certificate.parse_bundle(text)
            key = keys.load_pem(files.read_private(self._key, _MAX_KEY_BYTES))
        except ParseError as err:
            raise SettingsError(f"settings of {self.name}: certificate {self._certificate}: {err}") from err
        except KeyMaterialError as err:
            raise SettingsError(f"settings of {self.name}: key {self._key}: {err}") from err
        except OSError as err:
            raise SettingsError(
                f"settings of {self.name}: key {self._key}: {err.strerror or err}", hint=getattr(err, "hint", "")
            ) from err
        if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
            got = type(key).__name__
            raise SettingsError(f"settings of {self.name}: key {self._key}: got a {got}, expected RSA or ECDSA")
        if keys.public_key_of(key).canonical_info != chain[0].public_key.canonical_info:
            raise SettingsError(
                f"settings of {self.name}: {self._key} is not the key of the first certificate in {self._certificate}",
                hint="the device's own certificate comes first, those above it behind it",
            )
        return tuple(each.contents for each in chain), key


def _sign(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, message: bytes) -> tuple[SignatureForm, bytes]:
    digest = hashes.SHA256()
    if isinstance(key, rsa.RSAPrivateKey):
        scheme = padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH)
        return SignatureForm.RSA_PSS, key.sign(message, scheme, digest)
    return SignatureForm.ECDSA, key.sign(message, ec.ECDSA(digest))
