from __future__ import annotations

import hashlib

import pytest

import evidence_cases
from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import algorithms, event_log, pcrs

_CASE = evidence_cases.named("ev-tpm-quote-003")
_LOG = _CASE.octets("event_log")
_LOCALITY = evidence_cases.named("ev-tpm-quote-013")
_BANKS = ((algorithms.SHA1, 20), (algorithms.SHA256, 32))


def _u16(value: int) -> bytes:
    return value.to_bytes(2, "little")


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _header(
    banks: tuple[tuple[int, int], ...] = _BANKS, text: bytes = b"Spec ID Event03\0", vendor: bytes = b""
) -> bytes:
    body = text + _u32(0) + bytes((0, 2, 0, 2)) + _u32(len(banks))
    body += b"".join(_u16(bank) + _u16(size) for bank, size in banks) + bytes((len(vendor),)) + vendor
    return _u32(0) + _u32(3) + bytes(20) + _u32(len(body)) + body


def _event(
    pcr: int,
    kind: int,
    octets: bytes,
    *,
    of: bytes | None = None,
    banks: tuple[tuple[int, int], ...] = _BANKS,
    size: int | None = None,
) -> bytes:
    """One that measures ``octets``, or ``of`` in their place."""
    digests = b"".join(_u16(bank) + algorithms.HASHES[bank].digest(octets if of is None else of) for bank, _ in banks)
    return _u32(pcr) + _u32(kind) + _u32(len(banks)) + digests + _u32(len(octets) if size is None else size) + octets


def _variable(name: str, value: bytes) -> bytes:
    return (
        bytes(16)
        + len(name).to_bytes(8, "little")
        + len(value).to_bytes(8, "little")
        + name.encode("utf-16-le")
        + value
    )


_ON = _event(7, 0x80000001, _variable("SecureBoot", b"\1"))
_OFF = _event(7, 0x80000001, _variable("SecureBoot", b"\0"))


@pytest.mark.parametrize("case", [_CASE, _LOCALITY], ids=["plain", "StartupLocality"])
def test_logs_of_the_tools_lead_to_what_was_quoted(case: evidence_cases.Case) -> None:
    log = event_log.parse(case.octets("event_log"))
    for bank, registers in pcrs.parse_values(case.given["pcrs"]).items():
        replayed = log.replay(bank)
        assert {pcr: replayed[pcr] for pcr in registers} == registers


def test_a_register_that_no_event_is_about_is_zero() -> None:
    log = event_log.parse(_LOG)
    assert not log.mentions(16)
    assert log.mentions(4)
    assert log.replay(algorithms.SHA256)[16] == bytes(32)


def test_a_bank_that_the_log_is_not_for_has_no_values() -> None:
    with pytest.raises(StructureError, match="not for bank 000c"):
        event_log.parse(_LOG).replay(algorithms.SHA384)


@pytest.mark.parametrize("locality", [0, 3, 4])
def test_what_pcr_0_starts_at(locality: int) -> None:
    start = _event(0, 3, b"StartupLocality\0" + bytes((locality,)), of=b"")
    log = event_log.parse(_header() + start + _event(0, 8, b"version"))
    expected = hashlib.sha256(bytes(31) + bytes((locality,)) + hashlib.sha256(b"version").digest()).digest()
    assert log.replay(algorithms.SHA256)[0] == expected


_START = _event(0, 3, b"StartupLocality\0\3", of=b"")


@pytest.mark.parametrize(
    "events",
    [
        _event(0, 8, b"version") + _START,
        _START + _START,
        _event(1, 3, b"StartupLocality\0\3", of=b""),
        _event(0, 3, b"StartupLocality\0\1", of=b""),
        _event(0, 3, b"StartupLocality\0\3\3", of=b""),
        _event(0, 3, b"StartupLocality\0", of=b""),
    ],
    ids=["late", "twice", "of PCR 1", "of locality 1", "longer", "without one"],
)
def test_a_start_that_no_firmware_writes(events: bytes) -> None:
    with pytest.raises(StructureError, match="StartupLocality"):
        event_log.parse(_header() + events)


def test_an_event_of_no_action_is_extended_into_nothing() -> None:
    log = event_log.parse(_header() + _event(5, 3, b"for your information", of=b"anything"))
    assert log.replay(algorithms.SHA256)[5] == bytes(32)
    assert not log.mentions(5)


@pytest.mark.parametrize("kind", [4, 5, 8, 0x80000001, 0x80000007])
def test_the_digest_is_that_of_the_data_where_it_has_to_be(kind: int) -> None:
    event_log.parse(_header() + _event(4, kind, b"told"))
    with pytest.raises(StructureError, match="event 0: the sha1 digest is not that of the data"):
        event_log.parse(_header() + _event(4, kind, b"told", of=b"measured"))


@pytest.mark.parametrize("kind", [0x0D, 0x80000003, 0x80000008, 0x80000002])
def test_other_types_measure_something_else(kind: int) -> None:
    event_log.parse(_header() + _event(4, kind, b"told", of=b"measured"))


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (b"", "got 0 bytes"),
        (_header(text=b"Spec ID Event02\0"), "crypto-agile"),
        (_header(())[:-1] + b"\0", "got 0 hash algorithms"),
        (_header(tuple((each, 20) for each in range(0x20, 0x29))), "got 9 hash algorithms"),
        (_header(((0x0B, 20),)), "digests of 20 bytes for algorithm 000b"),
        (_header(((0x77, 65),)), "digests of 65 bytes for algorithm 0077"),
        (_header(((0x0B, 32), (0x0B, 32))), "an algorithm twice"),
        (b"\1" + _header()[1:], "crypto-agile"),
        (_header()[:-1] + b"\5", "expected 5"),
        (_header() + _event(24, 4, b"\0\0\0\0"), "PCR 24"),
        (_header() + _event(4, 4, b"x", banks=_BANKS[1:]), "1 digests, expected 2"),
        (_header() + _event(4, 4, b"x", banks=(_BANKS[1], _BANKS[1])), "expected one of each bank"),
        (_header() + _event(4, 4, b"x", size=0xFFFFFFFF), "an event of 4294967295 bytes"),
        (_header() + _event(4, 4, b"x", size=2), "got 1 bytes"),
        (_header() + _event(4, 4, b"x")[:-5], "got 0 bytes"),
        (_header() + bytes(1 << 16), "expected at most 49152"),
    ],
)
def test_logs_that_are_refused(log: bytes, message: str) -> None:
    with pytest.raises(StructureError, match=message):
        event_log.parse(log)


def test_a_bank_that_is_not_known_is_passed_over() -> None:
    banks = ((0x12, 32), (algorithms.SHA256, 32))
    measured = _u32(4) + _u32(4) + _u32(2) + _u16(0x12) + bytes(32) + _u16(0x0B) + hashlib.sha256(b"x").digest()
    log = event_log.parse(_header(banks, vendor=b"ours") + measured + _u32(1) + b"x")
    assert log.banks == {algorithms.SHA256}


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (_ON, True),
        (_OFF, False),
        (_event(7, 0x80000001, _variable("SecureBoot", b"")), False),
        (b"", None),
        (_event(4, 0x80000001, _variable("SecureBoot", b"\1")), None),
        (_event(7, 0x80000001, _variable("SecureBoots", b"\1")), None),
        (_event(7, 0x80000001, _variable("SecureBoot", b"\1") + b"\0"), None),
        (_event(7, 0x80000001, b"short"), None),
        # The firmware's own word under another name, and behind it what an operating system has measured.
        (_event(7, 0x80000008, _variable("SecureBoot", b"\0")) + _event(7, 4, b"\0\0\0\0") + _ON, None),
        (_event(7, 3, _variable("SecureBoot", b"\0"), of=b"") + _ON, True),
        (_OFF + _ON, False),
        (_ON + _OFF, True),
    ],
)
def test_secure_boot_is_the_first_thing_that_firmware_measures(events: bytes, told: bool | None) -> None:
    assert event_log.parse(_header() + events).secure_boot is told


def test_a_log_cut_anywhere_but_between_events_is_none() -> None:
    refused = 0
    for length in range(len(_LOG)):
        try:
            event_log.parse(_LOG[:length])
        except StructureError:
            refused += 1
    assert refused == len(_LOG) - 16
