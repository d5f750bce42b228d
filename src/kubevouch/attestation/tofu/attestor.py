"""The node's side of tofu: a key of the machine's own, which is made once and stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from kubevouch.attestation import settings
from kubevouch.attestation.interface import Asked, Binding, SettingsError
from kubevouch.attestation.showing import Showing
from kubevouch.attestation.tofu.evidence import NAME, VERSIONS, Proof, signed_message
from kubevouch.pki import keys
from kubevouch.pki.errors import KeyMaterialError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util import files
from kubevouch.util.clock import Clock

_KEY = "/var/lib/kubevouch/machine.key"
_MAX_BYTES = 64 << 10


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """``key``: the file with the machine's key; it is made where there is none. A disk that is cloned clones it."""

    key: str = _KEY


async def make_attestor(settings_: Mapping[str, str], clock: Clock) -> TofuAttestor:
    """Raises :class:`SettingsError`."""
    attestor = TofuAttestor(Path(settings.read(settings_, Settings, NAME).key))
    attestor.load()
    return attestor


class TofuAttestor(Showing):
    """An :class:`~kubevouch.attestation.interface.Attestor`."""

    name = NAME
    versions: Sequence[str] = VERSIONS
    needs_challenge = True

    def __init__(self, path: Path) -> None:
        self._path = path

    async def attest(self, version: str, key: PrivateKey, binding: Binding, asked: Asked | None) -> bytes:
        machine = self.load()
        signature = machine.sign(signed_message(binding.digest), ec.ECDSA(hashes.SHA256()))
        return msgspec.json.encode(Proof(key=keys.public_key_of(machine).canonical_info, signature=signature))

    def load(self) -> ec.EllipticCurvePrivateKey:
        """The machine's key; made where there is none, and never in the place of one that cannot be read.

        Raises:
            SettingsError
        """
        try:
            try:
                text = files.read_private(self._path, _MAX_BYTES)
            except FileNotFoundError:
                files.make_folder(self._path.parent, files.PRIVATE_FOLDER)
                text = keys.to_pem(keys.generate(KeyAlgorithm.ECDSA_P256))
                files.write_atomically(self._path, text)
            key = keys.load_pem(text)
        except OSError as err:
            raise SettingsError(
                f"settings of {NAME}: key {self._path}: {err.strerror or err}", hint=getattr(err, "hint", "")
            ) from err
        except KeyMaterialError as err:
            raise SettingsError(
                f"settings of {NAME}: key {self._path}: {err}",
                hint="the name of this node belongs to the key that was there: restore it, or have the node forgotten",
            ) from err
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.key_size != 256:
            raise SettingsError(f"settings of {NAME}: key {self._path}: expected a P-256 key")
        return key
