"""Logs of firmware, event by event (TCG PC Client Platform Firmware Profile 1.06, 10.2)."""

from __future__ import annotations

from kubevouch.pki.tpm import algorithms

BANKS = ((algorithms.SHA1, 20), (algorithms.SHA256, 32))


def u16(value: int) -> bytes:
    return value.to_bytes(2, "little")


def u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def header(
    banks: tuple[tuple[int, int], ...] = BANKS, text: bytes = b"Spec ID Event03\0", vendor: bytes = b""
) -> bytes:
    body = text + u32(0) + bytes((0, 2, 0, 2)) + u32(len(banks))
    body += b"".join(u16(bank) + u16(size) for bank, size in banks) + bytes((len(vendor),)) + vendor
    return u32(0) + u32(3) + bytes(20) + u32(len(body)) + body


def event(
    pcr: int,
    kind: int,
    octets: bytes,
    *,
    of: bytes | None = None,
    banks: tuple[tuple[int, int], ...] = BANKS,
    size: int | None = None,
) -> bytes:
    """One that measures ``octets``, or ``of`` in their place."""
    digests = b"".join(u16(bank) + algorithms.HASHES[bank].digest(octets if of is None else of) for bank, _ in banks)
    return u32(pcr) + u32(kind) + u32(len(banks)) + digests + u32(len(octets) if size is None else size) + octets


def variable(name: str, value: bytes) -> bytes:
    return (
        bytes(16)
        + len(name).to_bytes(8, "little")
        + len(value).to_bytes(8, "little")
        + name.encode("utf-16-le")
        + value
    )


ON = event(7, 0x80000001, variable("SecureBoot", b"\1"))
OFF = event(7, 0x80000001, variable("SecureBoot", b"\0"))
