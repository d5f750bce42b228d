"""The CAs of signers of one's own: in Secrets of one namespace, or in files of one directory.

An object that describes a signer says which, and no more: it names neither files nor other Secrets, so that whoever may
write such objects cannot have somebody else's key used, or a file read.

    AuthorityMissingError    there is nothing of that name
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubevouch.api.core_v1 import Secret
from kubevouch.machinery.text.gotext import quote
from kubevouch.pki import authority as authority_module
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.client_certificate import is_issued_by, is_self_signed
from kubevouch.pki.errors import AuthorityError, KeyMaterialError, ParseError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.signature import Signing
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers import pkcs11_uri
from kubevouch.signers.interface import SignerError
from kubevouch.signers.keys import KeyOptions, TokenSource, read_key_file
from kubevouch.signers.remote import RemoteSigner
from kubevouch.util.clock import Clock
from kubevouch.wellknown import TLS_CERTIFICATE_KEY, TLS_PRIVATE_KEY_KEY, TLS_SECRET

FORMER_CERTIFICATE_KEY, FORMER_PRIVATE_KEY_KEY = "former.crt", "former.key"
NAMED_FOLDER = "signers"
"""Of a folder of certificates, the one with the CAs that objects may name."""

MAX_CERTIFICATES = 16
MAX_BYTES = 256 << 10

_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?", re.ASCII)


class AuthorityMissingError(AuthorityError):
    """There is nothing of that name: whoever took it away wants no more certificates of it."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is to be had of a signer's CA.

    Args:
        authority: the one that is to sign.
        former: the one before it, which signs until the next one is known to everybody; None if its key is not there.
        pool: every certificate that was found, for chains and anchors.
        in_token: the key is asked for each signature, and may be away.
        remote: who signs in place of ``authority``, of which only the certificate is here.
    """

    authority: CertificateAuthority
    former: CertificateAuthority | None = None
    pool: Sequence[Certificate] = ()
    in_token: bool = False
    remote: Callable[[SigningRules], RemoteSigner] | None = None

    def anchors_of(self, certificate: Certificate) -> tuple[Certificate, ...]:
        """What has to be trusted so that what ``certificate`` issues is: the roots above it that were found, or it."""
        if is_self_signed(certificate):
            return (certificate,)
        above, seen = [certificate], {certificate.contents}
        roots: list[Certificate] = []
        while above:
            child = above.pop()
            for each in self.pool:
                if each.contents in seen or not is_issued_by(child, each):
                    continue
                seen.add(each.contents)
                (roots if is_self_signed(each) else above).append(each)
        return tuple(roots) or (certificate,)


def of_secret(secret: Secret) -> Source:
    """The CA in a Secret.

    Raises:
        AuthorityError: there is none in it.
    """
    if secret.type != TLS_SECRET:
        raise AuthorityError(
            f"secret {quote(secret.metadata.name)} is of type {quote(secret.type)}, expected {TLS_SECRET}"
        )
    current, pool = _pair(secret, TLS_CERTIFICATE_KEY, TLS_PRIVATE_KEY_KEY)
    former = None
    if FORMER_CERTIFICATE_KEY in secret.data and FORMER_PRIVATE_KEY_KEY in secret.data:
        former, older = _pair(secret, FORMER_CERTIFICATE_KEY, FORMER_PRIVATE_KEY_KEY)
        pool = [*pool, *older]
    return Source(current, former, tuple(pool))


def _pair(secret: Secret, certificate_key: str, private_key: str) -> tuple[CertificateAuthority, list[Certificate]]:
    where = f"secret {quote(secret.metadata.name)}"
    text, key = secret.data.get(certificate_key, b""), secret.data.get(private_key, b"")
    for name, value in ((certificate_key, text), (private_key, key)):
        if not value:
            raise AuthorityError(f"{where} has no {name}")
    try:
        return _loaded(text, key)
    except AuthorityError as err:
        raise AuthorityError(f"{where}, {certificate_key}: {err}") from err


def _loaded(text: bytes, key: bytes) -> tuple[CertificateAuthority, list[Certificate]]:
    pool = _certificates(text)
    certificate, private_key = authority_module.load_key_pair(authority_module.own_certificate(text, key), key)
    return CertificateAuthority(certificate, private_key), pool


def _certificates(text: bytes) -> list[Certificate]:
    if len(text) > MAX_BYTES:
        raise AuthorityError(f"{len(text)} bytes of certificates, expected {MAX_BYTES} at most")
    try:
        pool = x509_certificate.parse_bundle(text)
    except ParseError as err:
        raise AuthorityError(str(err)) from err
    if len(pool) > MAX_CERTIFICATES:
        raise AuthorityError(f"{len(pool)} certificates, expected {MAX_CERTIFICATES} at most")
    return pool


class NamedAuthorities:
    """CAs in the files of a directory that the operator has chosen: ``NAME.crt`` with ``NAME.key`` or ``NAME.uri``.

    With ``NAME.yaml``, a SigningConfiguration of one authority, another program signs, and ``NAME.crt`` is its CA.

    Args:
        folder: None where there is none.
        keys: what opens encrypted files and tokens.
    """

    def __init__(self, folder: Path | None, keys: KeyOptions, clock: Clock) -> None:
        self._folder = folder
        self._keys = keys
        self._clock = clock

    def find(self, name: str) -> Source:
        """The CA of this name, read now.

        Raises:
            AuthorityError: there is none, or it cannot be used.
        """
        if self._folder is None:
            raise AuthorityMissingError(f"there is no CA {quote(name)}: no directory of CAs was given")
        if not _NAME.fullmatch(name):
            raise AuthorityError(f"{quote(name)} is no name of a CA")
        certificate, key, uri, outside = (self._folder / f"{name}.{end}" for end in ("crt", "key", "uri", "yaml"))
        try:
            text = _read(certificate)
            if outside.exists():
                return self._of_another(text, outside)
            if uri.exists():
                return self._of_token(text, _read(uri), str(certificate))
            authority, pool = _loaded(text, read_key_file(str(key), self._keys, private=True))
        except FileNotFoundError as err:
            raise AuthorityMissingError(f"there is no CA {quote(name)}: {err.filename} is missing") from err
        except (OSError, KeyMaterialError, SignerError) as err:
            raise AuthorityError(f"the CA {quote(name)} cannot be read: {err}") from err
        except AuthorityError as err:
            raise AuthorityError(f"the CA {quote(name)} cannot be used: {err}") from err
        return Source(authority, None, tuple(pool))

    def _of_another(self, text: bytes, path: Path) -> Source:
        # Parsers of YAML and of kubeconfigs, which few signers need.
        from kubevouch.signers import outside

        pool, authorities = _certificates(text), outside.load(path).authorities
        if len(authorities) != 1:
            raise AuthorityError(f"{path} has {len(authorities)} authorities, expected one")

        def refuse(_: bytes) -> bytes:
            raise AuthorityError("another program signs for this authority")

        def remote(rules: SigningRules) -> RemoteSigner:
            return outside.remote_signer(authorities[0], path.parent, rules, self._clock)

        return Source(CertificateAuthority(pool[0], Signing(b"", refuse)), None, tuple(pool), remote=remote)

    def _of_token(self, text: bytes, uri: bytes, certificate_file: str) -> Source:
        pool = _certificates(text)
        name = uri.decode("ascii", "replace").strip()
        if not pkcs11_uri.is_uri(name):
            raise AuthorityError("expected a pkcs11: URI")
        # The first is the CA's own: which key a token has is not known before it signs.
        authority = TokenSource(name, self._keys, self._clock).authority(pool[0].pem(), certificate_file)
        return Source(authority, None, tuple(pool), in_token=True)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)
