"""The signers of a SigningConfiguration (``--signing-config``): whose keys other programs hold."""

from __future__ import annotations

from pathlib import Path

from kubevouch.config import signing_config
from kubevouch.config.config_file import ConfigFileError
from kubevouch.config.signing_config import AuthoritySettings, SigningConfiguration
from kubevouch.pki.errors import AuthorityError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.x509.usages import resolve
from kubevouch.signers import process
from kubevouch.signers.interface import SignerError
from kubevouch.signers.remote import Anchors, Issuer, RemoteSigner
from kubevouch.signers.webhook import CFSSL, HTTPSIssuer, SigningWebhook, Vault
from kubevouch.util.clock import Clock


def load(path: Path) -> SigningConfiguration:
    """What a file says; relative paths in it are relative to it. Raises :class:`SignerError`."""
    try:
        return signing_config.decode(path.read_bytes())
    except OSError as err:
        raise SignerError(f"{path} cannot be read: {(err.strerror or str(err)).lower()}") from err
    except ConfigFileError as err:
        raise SignerError(f"{path}: {err}") from err


def remote_signer(settings: AuthoritySettings, folder: Path, rules: SigningRules, clock: Clock) -> RemoteSigner:
    """The signer that an entry describes.

    Args:
        folder: what relative paths are relative to.

    Raises:
        SignerError: a file, or a library, that it needs is missing.
    """
    try:
        anchors = Anchors(folder / settings.trust_file)
    except AuthorityError as err:
        raise SignerError(f"authority {settings.name}: {err}") from err
    return RemoteSigner(
        _issuer(settings, folder, clock),
        anchors,
        rules,
        clock,
        seconds=settings.timeout_seconds,
        tolerated=frozenset((*resolve(settings.tolerated_usages).extended, *settings.tolerated_extensions)),
    )


def process_signer(socket: Path, trust_file: Path, rules: SigningRules, clock: Clock) -> RemoteSigner:
    """``--signing-socket``. Raises :class:`SignerError`."""
    try:
        anchors = Anchors(trust_file)
    except AuthorityError as err:
        raise SignerError(str(err)) from err
    return RemoteSigner(process.SigningProcess(socket), anchors, rules, clock, seconds=process.SECONDS)


def _issuer(settings: AuthoritySettings, folder: Path, clock: Clock) -> Issuer:
    seconds = float(settings.timeout_seconds)
    if settings.process is not None:
        return process.SigningProcess(folder / settings.process.socket)
    if settings.webhook is not None:
        return HTTPSIssuer(SigningWebhook(), folder / settings.webhook.kubeconfig_file, clock, seconds)
    if settings.cfssl is not None:
        key = folder / settings.cfssl.auth_key_file if settings.cfssl.auth_key_file else None
        dialect = CFSSL(settings.cfssl.profile, key)
        return HTTPSIssuer(dialect, folder / settings.cfssl.kubeconfig_file, clock, seconds)
    if settings.vault is not None:
        return HTTPSIssuer(Vault(), folder / settings.vault.kubeconfig_file, clock, seconds)
    # Half a second of imports that nobody else needs.
    from kubevouch.signers.acme import ACMEIssuer

    assert settings.acme is not None  # the configuration was checked
    return ACMEIssuer(settings.acme, folder, clock, seconds)
