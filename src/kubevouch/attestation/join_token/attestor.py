"""The node's side of join-token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from kubevouch.attestation import settings
from kubevouch.attestation.interface import Asked, Binding, SettingsError
from kubevouch.attestation.join_token.evidence import NAME, VERSIONS, Proof
from kubevouch.attestation.showing import Showing
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.records import join_tokens
from kubevouch.records.join_tokens import JoinToken, JoinTokenError
from kubevouch.util import files
from kubevouch.util.clock import Clock

_MAX_BYTES = 1024


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """``token_file``: the file with the token, that only its owner may read. A command line is for all to see."""

    token_file: str


async def make_attestor(settings_: Mapping[str, str], clock: Clock) -> JoinTokenAttestor:
    """Raises :class:`SettingsError`."""
    attestor = JoinTokenAttestor(Path(settings.read(settings_, Settings, NAME).token_file))
    attestor.load()
    return attestor


class JoinTokenAttestor(Showing):
    """An :class:`~kubevouch.attestation.interface.Attestor`."""

    name = NAME
    versions: Sequence[str] = VERSIONS
    needs_challenge = False

    def __init__(self, path: Path) -> None:
        self._path = path

    async def attest(self, version: str, key: PrivateKey, binding: Binding, asked: Asked | None) -> bytes:
        token = self.load()
        signature = token.sign(binding.cluster_id, binding.digest)
        return msgspec.json.encode(Proof(token_id=token.token_id, signature=signature))

    def load(self) -> JoinToken:
        """Raises :class:`SettingsError`."""
        try:
            text = files.read_private(self._path, _MAX_BYTES)
        except OSError as err:
            raise SettingsError(
                f"settings of {NAME}: tokenFile {self._path}: {err.strerror or err}", hint=getattr(err, "hint", "")
            ) from err
        try:
            return join_tokens.parse(text.decode("ascii", "replace").strip())
        except JoinTokenError as err:
            raise SettingsError(
                f"settings of {NAME}: tokenFile {self._path}: {err}",
                hint="make one with kubevouch token create --one-time --machine NAME",
            ) from err
