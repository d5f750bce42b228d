"""By which methods machines prove what they are, as a file says it.

AttestationOptionsError    the file, or what it says of a method, cannot be used; ``hint`` says what to do
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from kubevouch.attestation import catalog
from kubevouch.attestation.interface import SettingsError, Verifier
from kubevouch.client.interface import Client
from kubevouch.config import attestation_config
from kubevouch.config.attestation_config import AttestationConfiguration
from kubevouch.config.config_file import ConfigFileError
from kubevouch.controllers.approval.interface import UNCOUNTED, ApprovalMetrics
from kubevouch.controllers.attestation import Attestation
from kubevouch.util.clock import Clock


class AttestationOptionsError(Exception):
    """The file, or what it says of a method, cannot be used."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class AttestationFile(msgspec.Struct, frozen=True):
    """What a file says, before any method was made. Args: ``digest``: hexadecimal SHA-256 of its octets."""

    path: Path
    config: AttestationConfiguration
    digest: str


class _Sources(msgspec.Struct, frozen=True):
    """A ``kubevouch.attestation.interface.CountingSources``."""

    clock: Clock
    client: Client | None
    asked: Callable[[str, str], None]


def read(path: Path | None) -> AttestationFile | None:
    """None for no file. Raises :class:`AttestationOptionsError`."""
    if path is None:
        return None
    try:
        text = path.read_bytes()
        return AttestationFile(path, attestation_config.decode(text), hashlib.sha256(text).hexdigest())
    except OSError as err:
        raise AttestationOptionsError(f"the attestation configuration {path} cannot be read: {err.strerror}") from err
    except ConfigFileError as err:
        raise AttestationOptionsError(f"the attestation configuration {path} cannot be used: {err}") from err


def attestation(
    file: AttestationFile, client: Client | None, clock: Clock, metrics: ApprovalMetrics = UNCOUNTED
) -> Attestation:
    """The methods, made. Only what the file names is imported.

    Raises:
        AttestationOptionsError: there is no such method, or it cannot work with its settings.
    """
    verifiers: Mapping[str, Verifier] = {
        each.provider: _verifier(file, each, _Sources(clock, client, metrics.cloud_asked))
        for each in file.config.attestors
    }
    return Attestation(file.config, verifiers, file.digest)


def _verifier(file: AttestationFile, attestor: attestation_config.AttestorSettings, sources: _Sources) -> Verifier:
    try:
        return catalog.verifier(attestor.provider)(attestation_config.settings_of(attestor), sources)
    except SettingsError as err:
        raise AttestationOptionsError(
            f"the attestation configuration {file.path} cannot be used: {attestor.provider}: {err}", err.hint
        ) from err
