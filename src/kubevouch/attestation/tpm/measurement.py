"""Steps 24 to 29: what a quote says of how the machine was booted, and whether that is as it should be. Pure."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence

import msgspec

from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import algorithms, event_log, pcrs
from kubevouch.pki.tpm.attest import Attest, ClockInfo
from kubevouch.pki.tpm.event_log import Log
from kubevouch.pki.tpm.pcrs import Values
from kubevouch.pki.tpm.public_area import Public

FIRMWARE_PCRS = tuple(range(8))
"""What firmware measures itself into (PC Client Platform Firmware Profile 1.06, table 1): its log has to tell all."""


class Policy(msgspec.Struct, frozen=True):
    """How machines may be booted.

    Args:
        banks: in each of which ``pcrs`` have to be quoted.
        values: of some registers those that may be, any of them.
        event_log: the firmware's log has to be shown, too.
        secure_boot: … and has to say that Secure Boot was on.
    """

    banks: tuple[int, ...]
    pcrs: tuple[int, ...]
    values: Mapping[int, Mapping[int, frozenset[bytes]]] = msgspec.field(default_factory=dict)
    event_log: bool = False
    secure_boot: bool = False

    @property
    def demands(self) -> bool:
        """Whether a machine can be booted so that it does not fit."""
        return self.secure_boot or any(self.values.values())


class Measured(msgspec.Struct, frozen=True):
    """Values that the TPM has signed, and what the log that led to them says."""

    values: Values
    log: Log | None


def verify_measurement(
    said: Attest,
    ak: Public,
    values: Mapping[str, Mapping[str, str]],
    log: bytes,
    omitted: Sequence[int] = (),
    stored: ClockInfo | None = None,
) -> Measured:
    """The registers that a verified quote is over.

    Args:
        values: as they came with it.
        log: of the firmware; empty for none. ``omitted``: of which events it has no data.
        stored: of an earlier quote by the same key.

    Raises:
        RefusedEvidenceError: ``clock``, ``selection``, ``pcr-digest``, ``event-log``.
    """
    if stored is not None and said.clock.moment < stored.moment:
        raise RefusedEvidenceError("clock", f"got {said.clock.moment}, which is before {stored.moment}: an older quote")
    try:
        supplied = pcrs.parse_values(values)
    except StructureError as err:
        raise RefusedEvidenceError("pcr-digest", str(err)) from err
    quoted = {each.bank: frozenset(each.pcrs) for each in said.selections}
    for bank, registers in supplied.items():
        strange = registers.keys() - quoted.get(bank, frozenset())
        if strange:
            raise RefusedEvidenceError(
                "selection", f"PCR {min(strange)} of bank {bank:04x} was not quoted: its value is the node's word"
            )
    try:
        digest = pcrs.digest(said.selections, supplied, ak.scheme[1])
    except StructureError as err:
        raise RefusedEvidenceError("pcr-digest", str(err)) from err
    if not hmac.compare_digest(digest, said.pcr_digest):
        raise RefusedEvidenceError("pcr-digest", "the values are not those that were quoted")
    return Measured(supplied, _replayed(supplied, log, frozenset(omitted)) if log else None)


def _replayed(values: Values, octets: bytes, omitted: frozenset[int]) -> Log:
    try:
        log = event_log.parse(octets, omitted)
        banks = [bank for bank in values if bank in log.banks]
        if not banks:
            raise StructureError("the event log is for none of the banks that were quoted")
        for bank in banks:
            replayed = log.replay(bank)
            for pcr, value in values[bank].items():
                # Above the firmware's registers an operating system measures, and writes that down elsewhere.
                if (pcr in FIRMWARE_PCRS or log.mentions(pcr)) and replayed[pcr] != value:
                    raise StructureError(f"PCR {pcr} of bank {bank:04x} does not follow from the event log")
    except StructureError as err:
        raise RefusedEvidenceError("event-log", str(err)) from err
    return log


def verify_policy(measured: Measured, policy: Policy) -> None:
    """The machine is booted as ``policy`` wants.

    Raises:
        RefusedEvidenceError: ``selection``, ``event-log``, ``policy``.
    """
    for bank in policy.banks:
        wanted = {*policy.pcrs, event_log.SECURE_BOOT_PCR} if policy.secure_boot else set(policy.pcrs)
        missing = wanted - measured.values.get(bank, {}).keys()
        if missing:
            raise RefusedEvidenceError("selection", f"PCR {min(missing)} of bank {bank:04x} was not quoted")
    log = measured.log
    if (policy.event_log or policy.secure_boot) and (log is None or not log.banks.issuperset(policy.banks)):
        raise RefusedEvidenceError("event-log", "got no event log for the banks that were quoted")
    if policy.secure_boot and (log is None or log.secure_boot is not True):
        raise RefusedEvidenceError("policy", "the event log does not say that Secure Boot was on")
    for bank, registers in policy.values.items():
        for pcr, allowed in registers.items():
            value = measured.values.get(bank, {}).get(pcr)
            if value is None:
                raise RefusedEvidenceError("selection", f"PCR {pcr} of bank {bank:04x} was not quoted")
            if value not in allowed:
                raise RefusedEvidenceError("policy", f"PCR {pcr} of bank {bank:04x} is {value.hex()}")


def verify_policies(measured: Measured, policies: Mapping[str, Policy]) -> str:
    """The name of the first of ``policies`` that the machine fits; they are tried as they stand there.

    Raises:
        RefusedEvidenceError: it fits none; with the step of the last one.
    """
    refusal = RefusedEvidenceError("policy", "there is no policy")
    for name, policy in policies.items():
        try:
            verify_policy(measured, policy)
        except RefusedEvidenceError as err:
            refusal = RefusedEvidenceError(err.step, f"policy {name}: {str(err).partition(': ')[2]}")
            continue
        return name
    raise refusal


def asked_of(policies: Sequence[Policy]) -> dict[str, list[int]]:
    """Which registers a quote has to be over to be held against all of them, by bank."""
    wanted: dict[int, set[int]] = {}
    for policy in policies:
        for bank in policy.banks:
            wanted.setdefault(bank, set()).update(policy.pcrs)
            if policy.secure_boot:
                wanted[bank].add(event_log.SECURE_BOOT_PCR)
        for bank, registers in policy.values.items():
            wanted.setdefault(bank, set()).update(registers)
    return {algorithms.HASHES[bank].name: sorted(registers) for bank, registers in sorted(wanted.items())}
