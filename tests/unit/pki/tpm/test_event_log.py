from __future__ import annotations

import hashlib

import pytest

import evidence_cases
from event_logs import BANKS, OFF, ON, event, header, u16, u32, variable
from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import algorithms, event_log, pcrs

_CASE = evidence_cases.named("ev-tpm-quote-003")
_LOG = _CASE.octets("event_log")
_LOCALITY = evidence_cases.named("ev-tpm-quote-013")


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
    start = event(0, 3, b"StartupLocality\0" + bytes((locality,)), of=b"")
    log = event_log.parse(header() + start + event(0, 8, b"version"))
    expected = hashlib.sha256(bytes(31) + bytes((locality,)) + hashlib.sha256(b"version").digest()).digest()
    assert log.replay(algorithms.SHA256)[0] == expected


_START = event(0, 3, b"StartupLocality\0\3", of=b"")


@pytest.mark.parametrize(
    "events",
    [
        event(0, 8, b"version") + _START,
        _START + _START,
        event(1, 3, b"StartupLocality\0\3", of=b""),
        event(0, 3, b"StartupLocality\0\1", of=b""),
        event(0, 3, b"StartupLocality\0\3\3", of=b""),
        event(0, 3, b"StartupLocality\0", of=b""),
    ],
    ids=["late", "twice", "of PCR 1", "of locality 1", "longer", "without one"],
)
def test_a_start_that_no_firmware_writes(events: bytes) -> None:
    with pytest.raises(StructureError, match="StartupLocality"):
        event_log.parse(header() + events)


def test_an_event_of_no_action_is_extended_into_nothing() -> None:
    log = event_log.parse(header() + event(5, 3, b"for your information", of=b"anything"))
    assert log.replay(algorithms.SHA256)[5] == bytes(32)
    assert not log.mentions(5)


@pytest.mark.parametrize("kind", [4, 5, 8, 0x80000001, 0x80000007])
def test_the_digest_is_that_of_the_data_where_it_has_to_be(kind: int) -> None:
    event_log.parse(header() + event(4, kind, b"told"))
    with pytest.raises(StructureError, match="event 0: the sha1 digest is not that of the data"):
        event_log.parse(header() + event(4, kind, b"told", of=b"measured"))


@pytest.mark.parametrize("kind", [0x0D, 0x80000003, 0x80000008, 0x80000002])
def test_other_types_measure_something_else(kind: int) -> None:
    event_log.parse(header() + event(4, kind, b"told", of=b"measured"))


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (b"", "got 0 bytes"),
        (header(text=b"Spec ID Event02\0"), "crypto-agile"),
        (header(())[:-1] + b"\0", "got 0 hash algorithms"),
        (header(tuple((each, 20) for each in range(0x20, 0x29))), "got 9 hash algorithms"),
        (header(((0x0B, 20),)), "digests of 20 bytes for algorithm 000b"),
        (header(((0x77, 65),)), "digests of 65 bytes for algorithm 0077"),
        (header(((0x0B, 32), (0x0B, 32))), "an algorithm twice"),
        (b"\1" + header()[1:], "crypto-agile"),
        (header()[:-1] + b"\5", "expected 5"),
        (header() + event(24, 4, b"\0\0\0\0"), "PCR 24"),
        (header() + event(4, 4, b"x", banks=BANKS[1:]), "1 digests, expected 2"),
        (header() + event(4, 4, b"x", banks=(BANKS[1], BANKS[1])), "expected one of each bank"),
        (header() + event(4, 4, b"x", size=0xFFFFFFFF), "an event of 4294967295 bytes"),
        (header() + event(4, 4, b"x", size=2), "got 1 bytes"),
        (header() + event(4, 4, b"x")[:-5], "got 0 bytes"),
        (header() + bytes(1 << 16), "expected at most 49152"),
    ],
)
def test_logs_that_are_refused(log: bytes, message: str) -> None:
    with pytest.raises(StructureError, match=message):
        event_log.parse(log)


def test_a_bank_that_is_not_known_is_passed_over() -> None:
    banks = ((0x12, 32), (algorithms.SHA256, 32))
    measured = u32(4) + u32(4) + u32(2) + u16(0x12) + bytes(32) + u16(0x0B) + hashlib.sha256(b"x").digest()
    log = event_log.parse(header(banks, vendor=b"ours") + measured + u32(1) + b"x")
    assert log.banks == {algorithms.SHA256}


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (ON, True),
        (OFF, False),
        (event(7, 0x80000001, variable("SecureBoot", b"")), False),
        (b"", None),
        (event(4, 0x80000001, variable("SecureBoot", b"\1")), None),
        (event(7, 0x80000001, variable("SecureBoots", b"\1")), None),
        (event(7, 0x80000001, variable("SecureBoot", b"\1") + b"\0"), None),
        (event(7, 0x80000001, b"short"), None),
        # The firmware's own word under another name, and behind it what an operating system has measured.
        (event(7, 0x80000008, variable("SecureBoot", b"\0")) + event(7, 4, b"\0\0\0\0") + ON, None),
        (event(7, 3, variable("SecureBoot", b"\0"), of=b"") + ON, True),
        (OFF + ON, False),
        (ON + OFF, True),
    ],
)
def test_secure_boot_is_the_first_thing_that_firmware_measures(events: bytes, told: bool | None) -> None:
    assert event_log.parse(header() + events).secure_boot is told


def test_a_log_cut_anywhere_but_between_events_is_none() -> None:
    refused = 0
    for length in range(len(_LOG)):
        try:
            event_log.parse(_LOG[:length])
        except StructureError:
            refused += 1
    assert refused == len(_LOG) - 16


_LONG = (
    header()
    + event(0, 3, b"StartupLocality\0\3", of=b"")
    + ON
    + event(7, 0x80000001, variable("dbx", bytes(range(256)) * 120))
    + event(4, 0x80000003, bytes(5000), of=b"the boot loader")
    + event(5, 3, bytes(3000), of=b"")
)


def test_data_that_no_request_has_room_for_stay_with_the_node() -> None:
    shorter, omitted = event_log.without_data(_LONG, 28 << 10)
    assert omitted == (2,)
    assert len(shorter) == len(_LONG) - len(variable("dbx", bytes(256 * 120)))
    log = event_log.parse(shorter, omitted)
    assert log.replay(algorithms.SHA256) == event_log.parse(_LONG).replay(algorithms.SHA256)
    assert log.secure_boot is True
    assert event_log.without_data(shorter, 4200) == (event_log.without_data(_LONG, 4200)[0], (3,))
    assert event_log.without_data(_LONG, len(_LONG)) == (_LONG, ())


def test_a_log_that_does_not_fit_in_whichever_way_is_none() -> None:
    # What is of no action cannot be left out: it can say where PCR 0 begins.
    with pytest.raises(StructureError, match="got 5 events, which do not fit into 3000 bytes"):
        event_log.without_data(_LONG, 3000)
    with pytest.raises(StructureError, match="at most 524288"):
        event_log.without_data(header() + bytes(600 << 10), 28 << 10)
    with pytest.raises(StructureError):
        event_log.without_data(_LONG[:-1], 28 << 10)


@pytest.mark.parametrize("omitted", [(), (1,), (0, 2), (2, 3)])
def test_only_what_was_left_out_is_taken_without_its_data(omitted: tuple[int, ...]) -> None:
    shorter, _ = event_log.without_data(_LONG, 28 << 10)
    with pytest.raises(StructureError):
        event_log.parse(shorter, omitted)


def test_what_was_left_out_says_nothing() -> None:
    """Whoever leaves out the variable could as well call it something else: nothing is known of Secure Boot."""
    at = header() + ON
    blank = at[: -len(variable("SecureBoot", b"\1")) - 4] + bytes(4)
    assert event_log.parse(at).secure_boot is True
    assert event_log.parse(blank, (0,)).secure_boot is None
    late = header() + event(0, 8, b"", of=b"version") + event(0, 3, b"StartupLocality\0\3", of=b"")
    with pytest.raises(StructureError, match="StartupLocality"):
        event_log.parse(late, (0,))
