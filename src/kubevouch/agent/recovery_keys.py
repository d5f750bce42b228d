"""``recovery.key``: with what a node comes back after its certificate has ended.

One private key in PEM; while it is being replaced two, the registered one first. Both are on disk before the server
hears of the second, so that whoever is killed holds what the server has registered, whichever that is.
"""

from __future__ import annotations

from pathlib import Path

from kubevouch.agent.interface import CertificateStoreError, CertificateStoreInUseError
from kubevouch.pki import keys
from kubevouch.pki.errors import KeyMaterialError, ParseError
from kubevouch.pki.recovery_proof import RECOVERY_KEY
from kubevouch.pki.x509 import pem
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.records import node_recovery
from kubevouch.util.files import (
    PRIVATE,
    FileInUseError,
    UnsafeFileError,
    locked,
    make_folder,
    read_private,
    write_atomically,
)

FILE_NAME = "recovery.key"
_MAX_BYTES = 1 << 16


class RecoveryKeys:
    """The file. Only the agent writes it, under the lock of the client certificate."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME

    @property
    def present(self) -> bool:
        """Whether there is a key, or what is left of one."""
        return self.path.exists()

    def load(self) -> tuple[PrivateKey, ...]:
        """The registered key, and the next one if one is under way; nothing if there is no file.

        Raises:
            CertificateStoreError: the file does not hold that.
            OSError: it cannot be read.
        """
        if not self.present:
            return ()
        try:
            content = read_private(self.path, _MAX_BYTES)
        except UnsafeFileError as err:
            raise CertificateStoreError(f"{self.path} cannot be used: {err}", err.hint) from err
        try:
            found = tuple(keys.load_pem(pem.encode(block.type, block.contents)) for block in pem.blocks(content))
        except (KeyMaterialError, ParseError) as err:
            raise self._broken(str(err)) from err
        if not 1 <= len(found) <= 2 or any(keys.algorithm_of(key) is not RECOVERY_KEY for key in found):
            raise self._broken(f"expected one or two keys of {RECOVERY_KEY}")
        return found

    def ensure(self) -> tuple[PrivateKey, ...]:
        """:meth:`load`; a first key is made.

        Raises:
            CertificateStoreError: as :meth:`load`, or another program is at it.
            OSError
        """
        make_folder(self.path.parent)
        try:
            with locked(self.path.with_name(f".{FILE_NAME}.lock")):
                return self.load() or self._write(keys.generate(RECOVERY_KEY))
        except FileInUseError as err:
            raise CertificateStoreInUseError(f"another program makes {self.path}", "wait until it is done") from err

    def with_next(self) -> tuple[PrivateKey, PrivateKey]:
        """The registered key and the one to replace it. Raises as :meth:`load` does."""
        found = self.ensure()
        if len(found) == 1:
            found = self._write(found[0], keys.generate(RECOVERY_KEY))
        return found[0], found[1]

    def promote(self) -> None:
        """The next key is the registered one now. Raises as :meth:`load` does."""
        found = self.load()
        if len(found) == 2:
            self._write(found[1])

    def digests(self) -> str:
        """What a request says of the keys; empty without any. Raises as :meth:`load` does."""
        return ",".join(node_recovery.digest(keys.public_key_of(key)) for key in self.load())

    def _write(self, *found: PrivateKey) -> tuple[PrivateKey, ...]:
        write_atomically(self.path, b"".join(map(keys.to_pem, found)), mode=PRIVATE)
        return found

    def _broken(self, why: str) -> CertificateStoreError:
        return CertificateStoreError(
            f"{self.path} holds no recovery key: {why}",
            "move the file away for a new key, and on the cluster: kubevouch recovery forget NODE",
        )
