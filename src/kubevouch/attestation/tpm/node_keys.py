"""The key of the node's certificate: made in the TPM, stored as a file that opens in that TPM only."""

from __future__ import annotations

from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.attestation.tpm.device import Connection, Device, TPMCommandError
from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import algorithms, commands, public_area, resident_key, templates
from kubevouch.pki.tpm.commands import ResponseCode
from kubevouch.pki.tpm.public_area import Attributes
from kubevouch.pki.tpm.resident_key import ResidentKey

STORAGE_ROOT_KEY = 0x81000001
"""Where the owner keeps one, by the TCG's provisioning guidance."""


class TPMKeyLostError(RefusedEvidenceError):
    """A key that this TPM does not know any more, or never did: a new one has to be made."""

    def __init__(self, message: str) -> None:
        super().__init__("key-lost", message)


def make(device: Device) -> ResidentKey:
    """A new key. Raises :class:`AttestationError`."""
    with device.opened() as tpm:
        parent, handle = _parent(tpm)
        private, public = commands.created(tpm.run(commands.create(handle, templates.NODE_KEY)))
    return ResidentKey(parent, public_area.parse_area(public), private, lambda *what: sign(device, *what))


def use_own_tpm() -> None:
    """Let keys of files sign with this machine's TPM, unless somebody has said with which already."""
    if resident_key.default_signer is None:
        use(Device())


def use(device: Device) -> None:
    """Let keys of files sign with this TPM."""
    resident_key.use(lambda *what: sign(device, *what))


def verify_usable(key: ResidentKey) -> None:
    """That its TPM signs with ``key``.

    Raises:
        TPMKeyLostError: the TPM does not know it any more.
        AttestationError: the TPM does not answer.
        KeyMaterialError: nobody has said in which TPM it is.
    """
    key.sign_digest(bytes(32), algorithms.SHA256)


def load(tpm: Connection, key: ResidentKey) -> int:
    """The handle of ``key``, loaded.

    Raises:
        TPMKeyLostError: it is not from this TPM, or the TPM was cleared since.
        AttestationError: as :meth:`Connection.run`.
    """
    parent = key.parent if key.parent >= commands.FIRST_PERSISTENT else _primary(tpm, key.parent)
    try:
        loaded = tpm.run(commands.load(parent, key.private, key.public.encode_area())).handle
    except TPMCommandError as err:
        if err.code in {ResponseCode.INTEGRITY, ResponseCode.HANDLE, ResponseCode.FAILURE}:
            raise TPMKeyLostError(
                f"the TPM does not know the node's key: it was cleared since, or is another one ({err})"
            ) from err
        raise
    if parent != key.parent:
        tpm.flush(parent)
    return loaded


def sign(device: Device, key: ResidentKey, digest: bytes, algorithm: int) -> tuple[int, int]:
    """r and s. Raises :class:`AttestationError`."""
    with device.opened() as tpm:
        return commands.ecdsa_signature(tpm.run(commands.sign(load(tpm, key), digest, algorithm)))


def _parent(tpm: Connection) -> tuple[int, int]:
    """What new keys are stored below, as a file names it, and its handle.

    One that the owner keeps is there also when the owner has set a password.
    """
    if STORAGE_ROOT_KEY in tpm.handles(STORAGE_ROOT_KEY, 1):
        try:
            kept = public_area.parse_area(commands.first_sized(tpm.run(commands.read_public(STORAGE_ROOT_KEY))))
        except StructureError:
            kept = None
        if kept is not None and kept.has(Attributes.RESTRICTED | Attributes.DECRYPT | Attributes.USER_WITH_AUTH):
            return STORAGE_ROOT_KEY, STORAGE_ROOT_KEY
    return commands.OWNER, _primary(tpm, commands.OWNER)


def _primary(tpm: Connection, hierarchy: int) -> int:
    return tpm.run(commands.create_primary(hierarchy, templates.STORAGE_ROOT_KEY)).handle
