"""Service account tokens by kube-apiserver's flags: who signs them, whose are accepted, and for how long.

Source: pkg/kubeapiserver/options/authentication.go, pkg/controlplane/apiserver/options/options.go (Kubernetes 1.36);
k8s.io/client-go/util/keyutil.
"""

from __future__ import annotations

import datetime as dt
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_der_public_key

from kubevouch.authentication.service_account import Issuer, SigningKeys, UnusableKeyError, VerifyingKey
from kubevouch.pki import keys
from kubevouch.pki.errors import PKIError
from kubevouch.pki.x509 import pem
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.standalone.service_account_options import ServiceAccountOptions
from kubevouch.util.files import warn_of_exposure

MIN_EXPIRATION = dt.timedelta(hours=1)
MAX_EXPIRATION = dt.timedelta(seconds=1 << 32)


class ServiceAccountError(ValueError):
    """A flag or a key file cannot be meant."""


def check(options: ServiceAccountOptions) -> None:
    """Raises :class:`ServiceAccountError` with Kubernetes' words for what needs no look at a file."""
    if not options.issuers or not all(options.issuers):
        raise ServiceAccountError("service-account-issuer is a required flag")
    for issuer in options.issuers:
        if options.issuers.count(issuer) > 1:
            raise ServiceAccountError(f'service-account-issuer "{issuer}" is already specified')
        if ":" in issuer:
            try:
                urllib.parse.urlsplit(issuer)
            except ValueError as err:
                raise ServiceAccountError(
                    f"service-account-issuer \"{issuer}\" contained a ':' but was not a valid URL: {err}"
                ) from err
    if options.jwks_uri and not options.jwks_uri.startswith("https://"):
        raise ServiceAccountError(f"service-account-jwks-uri requires https scheme, parsed as: {options.jwks_uri}")
    limit = options.max_expiration
    if limit and not MIN_EXPIRATION <= limit <= MAX_EXPIRATION:
        raise ServiceAccountError("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds")


def issuer_of(options: ServiceAccountOptions, signing_key: PrivateKey) -> Issuer:
    """Who signs with ``signing_key``. Raises :class:`ServiceAccountError`."""
    check(options)
    own = SigningKeys(signing_key)
    others = {key.key_id: key for path in options.key_files for key in _keys_in(path)}
    others.pop(own.key_id, None)
    return Issuer(
        options.issuers[0],
        own,
        accepted_urls=options.issuers[1:],
        accepted_keys=tuple(others.values()),
        api_audiences=options.api_audiences,
        keys_url=options.jwks_uri,
        max_life=options.max_expiration,
    )


def _keys_in(path: Path) -> list[VerifyingKey]:
    try:
        text = path.read_bytes()
        found = list(_public_keys(text))
    except (OSError, ValueError, PKIError, UnusableKeyError) as err:
        why = err.strerror or str(err) if isinstance(err, OSError) else str(err)
        raise ServiceAccountError(f"failed to parse service-account-key-file {path}: {why}") from err
    if not found:
        raise ServiceAccountError(
            f"failed to parse service-account-key-file {path}: data does not contain any valid RSA or ECDSA public keys"
        )
    # Whoever can write it makes tokens of whatever account; its public keys may be read by everybody.
    warn_of_exposure(path, public=b"PRIVATE KEY" not in text)
    return found


def _public_keys(text: bytes) -> Iterator[VerifyingKey]:
    for block in pem.blocks(text):
        if block.type == "PUBLIC KEY":
            yield VerifyingKey(load_der_public_key(block.contents))
        elif block.type == pem.CERTIFICATE:
            yield VerifyingKey(x509.load_der_x509_certificate(block.contents).public_key())
        elif block.type.endswith("PRIVATE KEY"):
            yield VerifyingKey(keys.load_der(block.contents).public_key())
