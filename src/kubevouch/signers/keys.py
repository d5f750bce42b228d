"""Where a CA's key is: in a file, in a file that a passphrase opens, in a PKCS#11 token.

Secrets come from files or from systemd's credentials, never from a command line, which every user of the machine reads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki import authority, keys
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import AuthorityError, KeyMaterialError
from kubevouch.pki.x509.public_key import PublicKey
from kubevouch.signers import pkcs11_uri
from kubevouch.signers.interface import SignerUnavailable
from kubevouch.signers.pkcs11 import TokenKey
from kubevouch.signers.pkcs11_uri import KeyName
from kubevouch.util.clock import Clock
from kubevouch.util.files import Stamp, read_private, stamp, warn_of_exposure
from kubevouch.util.logger import get_logger

PASSPHRASE_CREDENTIAL, PIN_CREDENTIAL = "ca-key-passphrase", "pkcs11-pin"
"""Names of systemd's credentials (LoadCredential=, LoadCredentialEncrypted=)."""

TRY_OUT_SECONDS = 5.0
_MAX_SECRET = 4096

log = get_logger("signers.keys")


class KeyOptions(msgspec.Struct, frozen=True):
    """What opens keys; empty where nothing does, and a credential of systemd stands in.

    Args:
        passphrase_file: of encrypted key files; the passphrase is all of it but the last line end, so that a file of
            random bytes is one, too.
        pkcs11_module: the shared library of tokens whose URI names none.
        pkcs11_pin_file: for tokens whose URI names no file.
    """

    passphrase_file: str = ""
    pkcs11_module: str = ""
    pkcs11_pin_file: str = ""


class KeySource(Protocol):
    """Where a key is looked for again whenever something has changed there."""

    def stamp(self) -> tuple[Stamp | None, ...]:
        """Changes when the key may have."""
        ...

    def authority(self, certificate: bytes, certificate_file: str) -> CertificateAuthority:
        """The authority of the certificate file's contents and the key.

        Raises:
            AuthorityError: with kube-controller-manager's text where it has one.
            OSError: a file cannot be read.
        """
        ...

    def try_out(self) -> None:
        """Ask for the key of the last authority. One that is not there now may come: the log tells.

        Raises:
            AuthorityError: it can never sign.
        """
        ...


def read_key_file(path: str, options: KeyOptions, *, private: bool = False) -> bytes:
    """The unencrypted PEM of a key file.

    Args:
        private: refuse one that others could have put there or read, instead of warning.

    Raises:
        KeyMaterialError: the passphrase does not open it, or there is none.
        OSError: a file cannot be read.
    """
    file = Path(path)
    if private:
        text = read_private(file)
    else:
        warn_of_exposure(file)
        text = file.read_bytes()
    if not keys.is_encrypted(text):
        return text
    source = _secret_file(options.passphrase_file, PASSPHRASE_CREDENTIAL)
    if source is None:
        raise KeyMaterialError(
            f"the key in {quote(path)} is encrypted and no passphrase is known, expected "
            f"--cluster-signing-key-passphrase-file or the systemd credential {PASSPHRASE_CREDENTIAL}"
        )
    try:
        return keys.decrypt_pem(text, _secret(source))
    except KeyMaterialError as err:
        raise KeyMaterialError(f"the key in {quote(path)} cannot be used: {err} (from {source})") from None


def passphrase_stamp(options: KeyOptions) -> Stamp | None:
    """Changes when the passphrase does."""
    source = _secret_file(options.passphrase_file, PASSPHRASE_CREDENTIAL)
    return None if source is None else stamp(source)


def token_key(uri: str, public_key: PublicKey, options: KeyOptions, clock: Clock) -> TokenKey:
    """The key in a token that belongs to ``public_key``; the token is asked nothing yet.

    Raises:
        KeyMaterialError: the URI, the module or the kind of key cannot be used.
    """
    name = key_name(uri, options)

    def pin() -> str:
        source = _secret_file(name.pin_file or options.pkcs11_pin_file, PIN_CREDENTIAL)
        if source is None:
            return ""
        try:
            return _secret(source).decode()
        except UnicodeDecodeError:
            fault = f"the PIN in {source} is not UTF-8"
        except OSError as err:
            # Whoever takes pin-source for the PIN itself must not read it here, nor in what caused this.
            shown = source if Path(source).is_absolute() else "the file that pin-source names"
            fault = f"the PIN in {shown} cannot be read: {(err.strerror or '').lower()}; expected pin-source=file:/PATH"
        # Outside of the handlers: an error that is raised in one keeps the other as its context.
        raise KeyMaterialError(fault)

    return TokenKey(name, public_key, pin, clock)


def key_name(uri: str, options: KeyOptions) -> KeyName:
    """What a URI names, with the module of the options where it names none. Raises :class:`KeyMaterialError`."""
    name = pkcs11_uri.parse(uri)
    module = name.module or options.pkcs11_module
    if not module:
        raise KeyMaterialError("a PKCS#11 URI without module-path needs --pkcs11-module")
    return msgspec.structs.replace(name, module=module)


def _secret_file(path: str, credential: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    if path:
        return Path(path)
    folder = environ.get("CREDENTIALS_DIRECTORY", "")
    handed = Path(folder) / credential
    return handed if folder and handed.exists() else None


def _secret(path: Path) -> bytes:
    """The contents without the last line end. Raises :class:`KeyMaterialError` for an empty one, OSError."""
    if path.parent != Path(os.environ.get("CREDENTIALS_DIRECTORY", "")):
        warn_of_exposure(path)
    with path.open("rb") as file:
        text = file.read(_MAX_SECRET)
    text = text.removesuffix(b"\n").removesuffix(b"\r")
    if not text:
        raise KeyMaterialError(f"{path} is empty, expected a secret")
    return text


class FileSource:
    """A key file beside a certificate file."""

    def __init__(self, path: str, options: KeyOptions, *, bundle: bool) -> None:
        self._path = path
        self._options = options
        self._bundle = bundle

    def stamp(self) -> tuple[Stamp | None, ...]:
        return stamp(self._path), passphrase_stamp(self._options)

    def authority(self, certificate: bytes, certificate_file: str) -> CertificateAuthority:
        """See :class:`KeySource`."""
        if not certificate_file or not self._path:
            key = b""
        else:
            try:
                key = read_key_file(self._path, self._options, private=self._bundle)
            except KeyMaterialError as err:
                raise AuthorityError(f"error reading CA cert file {quote(certificate_file)}: {err}") from err
        if self._bundle:
            certificate = authority.own_certificate(certificate, key)
        return CertificateAuthority.load(certificate, key, certificate_file=certificate_file, key_file=self._path)

    def try_out(self) -> None:
        """It has been read."""


class TokenSource:
    """A key in a token."""

    def __init__(self, uri: str, options: KeyOptions, clock: Clock) -> None:
        self._uri = uri
        self._options = options
        self._clock = clock
        self._key: TokenKey | None = None

    def stamp(self) -> tuple[Stamp | None, ...]:
        """A token is asked for each signature; nothing else of it is kept."""
        return ()

    def authority(self, certificate: bytes, certificate_file: str) -> CertificateAuthority:
        """See :class:`KeySource`."""
        own = authority.load_single(certificate, certificate_file)
        try:
            self._key = token_key(self._uri, own.public_key, self._options, self._clock)
            return CertificateAuthority(own, self._key.signing)
        except KeyMaterialError as err:
            raise AuthorityError(f"error reading CA cert file {quote(certificate_file)}: {err}") from err

    def try_out(self) -> None:
        """See :class:`KeySource`."""
        key = self._key
        assert key is not None  # an authority was asked for
        found: list[Exception] = []

        def verify() -> None:
            try:
                key.verify()
            except (SignerUnavailable, KeyMaterialError) as err:
                found.append(err)

        # A module that hangs must not hold up the start.
        thread = threading.Thread(target=verify, name="ThreadPoolExecutor-key", daemon=True)
        thread.start()
        thread.join(TRY_OUT_SECONDS)
        if thread.is_alive():
            found.append(SignerUnavailable(f"it has not answered within {TRY_OUT_SECONDS:.0f} s"))
        for err in found:
            if isinstance(err, KeyMaterialError):
                raise AuthorityError(f"the CA key cannot be used: {err}") from err
            log.error("the CA key cannot be reached; requests wait until it is there", err=str(err))
