"""Platform configuration registers: which ones, their values, and the digest over them (TPM 2.0 Library, Part 2, 10.6).

A quote signs which registers it is over and one digest of their values; the values themselves come beside it and are
anybody's word until the digest has been made of them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import algorithms
from kubevouch.pki.tpm.marshalling import Reader, u16, u32

MAX_PCR = 23
"""The last register of a PC client (TCG PC Client Platform TPM Profile 1.05, section 4.6)."""
_BITMAP_BYTES = 3
_MAX_BANKS = 16

Values = Mapping[int, Mapping[int, bytes]]
"""By bank, which is a hash algorithm, and number."""


class Selection(msgspec.Struct, frozen=True):
    """Registers of one bank, ascending."""

    bank: int
    pcrs: tuple[int, ...]


def read_selections(reader: Reader) -> tuple[Selection, ...]:
    """A TPML_PCR_SELECTION. Raises :class:`StructureError`, also for a bank that is there twice."""
    count = reader.integer(4)
    if count > _MAX_BANKS:
        raise reader.refusal(f"got {count} banks, expected at most {_MAX_BANKS}")
    selections = []
    for _ in range(count):
        bank, size = reader.integer(2), reader.integer(1)
        if size > _BITMAP_BYTES + 1:
            raise reader.refusal(f"got a selection of {size} bytes, expected {_BITMAP_BYTES}")
        bitmap = int.from_bytes(reader.octets(size), "little")
        selections.append(Selection(bank, tuple(pcr for pcr in range(size * 8) if bitmap >> pcr & 1)))
    if len({each.bank for each in selections}) != count:
        raise reader.refusal("got a bank twice")
    return tuple(selections)


def encode_selections(selections: Iterable[Selection]) -> bytes:
    """The TPML_PCR_SELECTION that asks for them."""
    chosen = list(selections)
    parts = [u32(len(chosen))]
    for each in chosen:
        bitmap = sum(1 << pcr for pcr in each.pcrs)
        parts += [u16(each.bank), bytes((_BITMAP_BYTES,)), bitmap.to_bytes(_BITMAP_BYTES, "little")]
    return b"".join(parts)


def digest(selections: Iterable[Selection], values: Values, algorithm: int) -> bytes:
    """What a quote over ``selections`` says of ``values``.

    Args:
        algorithm: the hash of the signature's scheme, not that of a bank.

    Raises:
        StructureError: a register without a value.
    """
    joined = []
    for each in selections:
        for pcr in each.pcrs:
            value = values.get(each.bank, {}).get(pcr)
            if value is None:
                raise StructureError(f"PCR {pcr} of bank {each.bank:04x} was quoted and has no value")
            joined.append(value)
    return algorithms.strong_hash_of(algorithm).digest(b"".join(joined))


def parse_values(banks: Mapping[str, Mapping[str, str]]) -> dict[int, dict[int, bytes]]:
    """Values as they stand in evidence and in settings: ``{"sha256": {"7": "d102…"}}``.

    Raises:
        StructureError: no such bank or register, a value of another size, one register written in two ways.
    """
    return {_bank(name): _bank_values(name, registers) for name, registers in banks.items()}


def parse_bank(name: str) -> int:
    """Raises :class:`StructureError` for a bank that is not known."""
    return _bank(name)


def _bank(name: str) -> int:
    found = algorithms.BANKS.get(name)
    if found is None:
        raise StructureError(f"got PCR bank {name[:32]!r}, expected one of {', '.join(algorithms.BANKS)}")
    return found


def _bank_values(name: str, registers: Mapping[str, str]) -> dict[int, bytes]:
    size = algorithms.HASHES[_bank(name)].size
    values = {}
    for number, text in registers.items():
        if not (number.isascii() and number.isdigit()) or str(int(number[:3])) != number or int(number) > MAX_PCR:
            raise StructureError(f"got PCR {number[:32]!r}, expected a number from 0 to {MAX_PCR}")
        try:
            value = bytes.fromhex(text)
        except ValueError as err:
            raise StructureError(f"PCR {number} of {name} is not hexadecimal") from err
        if len(value) != size or len(text) != 2 * size:
            raise StructureError(f"got {len(value)} bytes for PCR {number} of {name}, expected {size}")
        values[int(number)] = value
    return values
