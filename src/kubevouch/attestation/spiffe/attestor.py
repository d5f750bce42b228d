"""The node's side of spiffe: the SVID is a pair of files, as spiffe-helper keeps them, read anew for each proof."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from kubevouch.attestation import settings
from kubevouch.attestation.spiffe.evidence import NAME
from kubevouch.attestation.x509pop.attestor import X509PopAttestor
from kubevouch.util.clock import Clock


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    svid: a file with the SVID and the certificates above it, in PEM.
    key: the file with its key.
    """

    svid: str
    key: str


async def make_attestor(settings_: Mapping[str, str], clock: Clock) -> X509PopAttestor:
    """Raises :class:`SettingsError`."""
    read = settings.read(settings_, Settings, NAME)
    attestor = X509PopAttestor(Path(read.svid), Path(read.key), NAME)
    attestor.load()
    return attestor
