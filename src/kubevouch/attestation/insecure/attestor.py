"""The node's side of insecure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kubevouch.attestation import settings
from kubevouch.attestation.insecure.evidence import NAME, PROVES, VERSIONS, WARNING, Proof
from kubevouch.attestation.interface import Asked, Binding
from kubevouch.attestation.showing import Showing
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("attestation.insecure")


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """There are none."""


async def make_attestor(settings_: Mapping[str, str], clock: Clock) -> InsecureAttestor:
    """Raises :class:`SettingsError`."""
    settings.read(settings_, Settings, NAME)
    return InsecureAttestor()


class InsecureAttestor(Showing):
    """An :class:`~kubevouch.attestation.interface.Attestor`."""

    name = NAME
    versions: Sequence[str] = VERSIONS
    needs_challenge = True

    async def attest(self, version: str, key: PrivateKey, binding: Binding, asked: Asked | None) -> bytes:
        log.warning(WARNING)
        return msgspec.json.encode(Proof(proves=PROVES))
