"""What a machine's TPM could prove, and what is in its way: asked without a cluster, and nothing is changed.

No password is shown to the TPM, so that asking often never locks it.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

import msgspec

from kubevouch.attestation.interface import AttestationError, SettingsError, UnavailableError
from kubevouch.attestation.tpm import node_keys, own_endorsement
from kubevouch.attestation.tpm.device import (
    Connection,
    Device,
    TPMAbsentError,
    TPMBusyError,
    TPMLockedOutError,
    TPMPermissionError,
)
from kubevouch.attestation.tpm.node_keys import TPMKeyLostError
from kubevouch.attestation.tpm.own_endorsement import Endorsement
from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import algorithms, commands
from kubevouch.pki.tpm.commands import Property
from kubevouch.pki.tpm.public_area import Attributes
from kubevouch.pki.tpm.resident_key import ResidentKey

_PROPERTIES = 64
# TPMA_PERMANENT (part 2, 8.6).
_ENDORSEMENT_PASSWORD, _LOCKED_OUT = 1 << 1, 1 << 9


class State(StrEnum):
    """Whether the TPM can be asked for a proof."""

    READY = "ready"
    ABSENT = "absent"
    NO_PERMISSION = "no-permission"
    BUSY = "busy"
    LOCKED_OUT = "locked-out"
    FAILED = "failed"


_STATES: dict[type[AttestationError], State] = {
    TPMAbsentError: State.ABSENT,
    TPMPermissionError: State.NO_PERMISSION,
    TPMBusyError: State.BUSY,
    TPMLockedOutError: State.LOCKED_OUT,
}


class Report(msgspec.Struct, frozen=True):
    """What was found; empty is what could not be asked.

    Args:
        message, hint: why the TPM is not ready, and what to do.
        manufacturer: four letters.
        kind: of the endorsement key; ``ek_hash`` is its name for an allow list, hexadecimal SHA-256.
        has_certificate: of the endorsement key.
        chain: how many certificates lie beside it.
        banks: of PCRs.
        node_key: ``usable``, ``lost`` or, without one in the TPM, empty.
        problems: what works in spite of it, in sentences.
    """

    device: str
    state: State
    message: str = ""
    hint: str = ""
    manufacturer: str = ""
    kind: str = ""
    ek_hash: str = ""
    has_certificate: bool = False
    chain: int = 0
    banks: tuple[str, ...] = ()
    node_key: str = ""
    problems: tuple[str, ...] = ()


def probe(device: Device, key: ResidentKey | None) -> Report:
    """What ``device`` says. ``key``: the node's, when it is in a TPM."""
    try:
        with device.opened() as tpm:
            return _asked(device, tpm, key)
    except StructureError as err:
        return Report(device.where, State.FAILED, f"{device.where} does not answer as a TPM: {err}")
    except AttestationError as err:
        hint = err.hint if isinstance(err, SettingsError) else ""
        if isinstance(err, UnavailableError):
            hint = "try again later"
        return Report(device.where, _STATES.get(type(err), State.FAILED), str(err), hint)


def _asked(device: Device, tpm: Connection, key: ResidentKey | None) -> Report:
    fixed = tpm.properties(Property.MANUFACTURER, 1)
    permanent = tpm.properties(Property.PERMANENT, _PROPERTIES)
    banks = commands.capability_banks(tpm.run(commands.get_capability(commands.CAPABILITY_PCRS, 0, 1)))
    found = own_endorsement.find(tpm)
    tpm.release()
    state, message, hint = _readiness(found, permanent)
    return Report(
        device=device.where,
        state=state,
        message=message,
        hint=hint,
        manufacturer=_letters(fixed.get(Property.MANUFACTURER, 0)),
        kind=found.public.kind,
        ek_hash=hashlib.sha256(found.public.encode_area()).hexdigest(),
        has_certificate=bool(found.certificate),
        chain=len(found.chain),
        banks=tuple(algorithms.HASHES[each].name for each, pcrs in banks.items() if pcrs and each in algorithms.HASHES),
        node_key="" if key is None else _node_key(tpm, key),
        problems=(*found.problems, *_problems(device, found, permanent)),
    )


def _readiness(found: Endorsement, permanent: dict[int, int]) -> tuple[State, str, str]:
    # Only keys that take a password care: those of the low range take a policy, and the others here count no failures.
    if permanent.get(Property.PERMANENT, 0) & _LOCKED_OUT and found.public.has(Attributes.USER_WITH_AUTH):
        seconds = permanent.get(Property.LOCKOUT_INTERVAL, 0)
        return (
            State.LOCKED_OUT,
            f"the TPM is locked out after {permanent.get(Property.LOCKOUT_COUNTER, 0)} wrong passwords",
            f"it forgives one every {seconds} seconds; tpm2_dictionarylockout --clear-lockout ends it for its owner",
        )
    return State.READY, "", ""


def _problems(device: Device, found: Endorsement, permanent: dict[int, int]) -> list[str]:
    problems = []
    if not found.certificate:
        problems.append("nobody vouches for the endorsement key: clusters have to have its hash on their list")
    if permanent.get(Property.PERMANENT, 0) & _LOCKED_OUT and not found.public.has(Attributes.USER_WITH_AUTH):
        problems.append("the TPM is locked out for others' keys, which take passwords")
    if permanent.get(Property.PERMANENT, 0) & _ENDORSEMENT_PASSWORD:
        problems.append("the endorsement hierarchy has a password, expected none")
    if device.where.endswith("/dev/tpm0"):
        problems.append("/dev/tpm0 is for one program at a time; /dev/tpmrm0 is for many")
    return problems


def _node_key(tpm: Connection, key: ResidentKey) -> str:
    try:
        node_keys.load(tpm, key)
    except TPMKeyLostError:
        return "lost"
    return "usable"


def _letters(number: int) -> str:
    return "".join(chr(each) if 0x20 < each < 0x7F else "" for each in number.to_bytes(4, "big"))
