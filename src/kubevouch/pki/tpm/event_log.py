"""The firmware's log of what it has measured, and the register values that follow from it.

Source: TCG PC Client Platform Firmware Profile 1.06, 10.2 (the crypto-agile log) and 10.4 (types of events). The log is
the machine's own word; what makes it worth something is that replaying it gives the values of a quote, and that the
digest of an event is that of its data, for those types of events where it has to be.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import algorithms
from kubevouch.pki.tpm.marshalling import Reader
from kubevouch.pki.tpm.pcrs import MAX_PCR

MAX_LOG_BYTES = 48 << 10
"""More than fits behind a request with the rest of the evidence."""
MAX_OWN_LOG_BYTES = 512 << 10
"""Of a log that a node reads of its own firmware."""
_MAX_ALGORITHMS = 8

SECURE_BOOT_PCR = 7

NO_ACTION = 0x00000003
SEPARATOR = 0x00000004
VARIABLE_DRIVER_CONFIG = 0x80000001
# The digest is that of the data: EV_SEPARATOR, EV_ACTION, EV_S_CRTM_VERSION, EV_EFI_VARIABLE_DRIVER_CONFIG,
# EV_EFI_ACTION. Of other types it is that of something which the log need not hold.
_HASHED = frozenset({SEPARATOR, 0x00000005, 0x00000008, VARIABLE_DRIVER_CONFIG, 0x80000007})
_SIGNATURE = b"Spec ID Event03\0"
_LOCALITY = b"StartupLocality\0"
_WORTH_OMITTING = 128
"""Octets: the variable that says whether Secure Boot is on has half of that."""
_LOCALITIES = frozenset({0, 3, 4})


class Event(msgspec.Struct, frozen=True):
    """One measurement; ``digests`` by hash algorithm."""

    pcr: int
    type: int
    digests: dict[int, bytes]
    octets: bytes


class Log(msgspec.Struct, frozen=True):
    """``banks`` are those that the log is for."""

    banks: frozenset[int]
    events: tuple[Event, ...]

    def mentions(self, pcr: int) -> bool:
        """Whether anything was extended into it."""
        return any(each.pcr == pcr and each.type != NO_ACTION for each in self.events)

    def replay(self, bank: int) -> dict[int, bytes]:
        """The value of every register after all events.

        Raises:
            StructureError: the log is not for that bank.
        """
        if bank not in self.banks:
            raise StructureError(f"the event log is not for bank {bank:04x}")
        algorithm = algorithms.hash_of(bank)
        values = dict.fromkeys(range(MAX_PCR + 1), bytes(algorithm.size))
        for event in self.events:
            if event.type == NO_ACTION:
                if event.octets.startswith(_LOCALITY):
                    values[0] = bytes(algorithm.size - 1) + event.octets[-1:]
                continue
            values[event.pcr] = algorithm.digest(values[event.pcr] + event.digests[bank])
        return values

    @property
    def secure_boot(self) -> bool | None:
        """What the firmware has measured of its variable ``SecureBoot``; None when that is not known.

        Only the first thing in PCR 7 counts. The types in the log are the machine's word: behind it an operating system
        could measure a variable of its own, and call the firmware's something else.
        """
        first = next((each for each in self.events if each.pcr == SECURE_BOOT_PCR and each.type != NO_ACTION), None)
        if first is None or first.type != VARIABLE_DRIVER_CONFIG:
            return None
        value = _variable(first.octets, "SecureBoot")
        return None if value is None else value == b"\1"


def parse(octets: bytes, omitted: Collection[int] = ()) -> Log:
    """The log in ``octets``, each event whole, each with a digest for every bank, and each digest that of its data
    where it has to be.

    Args:
        omitted: numbers of events whose data were left out, by :func:`without_data`. Nothing can be read out of them
            but their digests; an event of a type that nothing is known of says as little.

    Raises:
        StructureError
    """
    events: list[Event] = []
    extended: set[int] = set()
    reader = _reader(octets, MAX_LOG_BYTES)
    sizes = _header(reader)
    while reader.left:
        event = _event(reader, sizes)
        number = len(events)
        if number not in omitted:
            _verify_event(event, number, extended)
        elif event.octets or event.type == NO_ACTION:
            raise StructureError(f"event {number}: got data that were said to be left out")
        if event.type != NO_ACTION or event.octets.startswith(_LOCALITY):
            extended.add(event.pcr)
        events.append(event)
    return Log(frozenset(sizes) & algorithms.HASHES.keys(), tuple(events))


def without_data(octets: bytes, most: int) -> tuple[bytes, tuple[int, ...]]:
    """A log of ``most`` bytes, and the numbers of the events whose data were left out for that, the longest first.

    Raises:
        StructureError: it is none, or has too many events.
    """
    reader = _reader(octets, MAX_OWN_LOG_BYTES)
    sizes = _header(reader)
    header = octets[: reader.position]
    written: list[bytes] = []
    lengths: list[int] = []
    while reader.left:
        start = reader.position
        event = _event(reader, sizes)
        written.append(octets[start : reader.position])
        lengths.append(0 if event.type == NO_ACTION else len(event.octets))
    left = len(octets)
    omitted = []
    for number in sorted(range(len(written)), key=lambda each: -lengths[each]):
        if left <= most or lengths[number] < _WORTH_OMITTING:
            break
        written[number] = written[number][: -lengths[number] - 4] + bytes(4)
        left -= lengths[number]
        omitted.append(number)
    if left > most:
        raise reader.refusal(f"got {len(written)} events, which do not fit into {most} bytes")
    return header + b"".join(written), tuple(sorted(omitted))


def _reader(octets: bytes, most: int) -> Reader:
    reader = Reader(octets, "event log", "little")
    if reader.left > most:
        raise reader.refusal(f"got {reader.left} bytes, expected at most {most}")
    return reader


def _header(reader: Reader) -> dict[int, int]:
    """The first event, which tells the sizes of digests. It is of the old form, with one digest of zeros."""
    pcr, kind, zeros = reader.integer(4), reader.integer(4), reader.octets(20)
    inner = Reader(_sized(reader), "event log header", "little")
    if (pcr, kind, zeros) != (0, NO_ACTION, bytes(20)) or inner.octets(16) != _SIGNATURE:
        raise reader.refusal("expected a crypto-agile log, which begins with Spec ID Event03")
    inner.octets(8)  # platform class, version, size of a UINTN
    count = inner.integer(4)
    if not 0 < count <= _MAX_ALGORITHMS:
        raise inner.refusal(f"got {count} hash algorithms, expected 1 to {_MAX_ALGORITHMS}")
    sizes = {inner.integer(2): inner.integer(2) for _ in range(count)}
    inner.octets(inner.integer(1))  # the vendor's own
    inner.end()
    for algorithm, size in sizes.items():
        known = algorithms.HASHES.get(algorithm)
        if (known is not None and known.size != size) or size > 64:
            raise inner.refusal(f"got digests of {size} bytes for algorithm {algorithm:04x}")
    if len(sizes) != count:
        raise inner.refusal("got an algorithm twice")
    return sizes


def _event(reader: Reader, sizes: dict[int, int]) -> Event:
    pcr, kind, count = reader.integer(4), reader.integer(4), reader.integer(4)
    if pcr > MAX_PCR or count != len(sizes):
        raise reader.refusal(f"got an event of PCR {pcr} with {count} digests, expected {len(sizes)}")
    digests = {}
    for _ in range(count):
        algorithm = reader.integer(2)
        if algorithm not in sizes or algorithm in digests:
            raise reader.refusal(f"got a digest of algorithm {algorithm:04x}, expected one of each bank")
        digests[algorithm] = reader.octets(sizes[algorithm])
    return Event(pcr, kind, digests, _sized(reader))


def _sized(reader: Reader) -> bytes:
    size = reader.integer(4)
    if size > MAX_OWN_LOG_BYTES:
        raise reader.refusal(f"got an event of {size} bytes, expected at most {MAX_OWN_LOG_BYTES}")
    return reader.octets(size)


def _verify_event(event: Event, number: int, extended: set[int]) -> None:
    """Digests that are those of their data, and a start value of PCR 0 only where nothing stands in it yet."""
    if event.type == NO_ACTION:
        if event.octets.startswith(_LOCALITY):
            known = len(event.octets) == len(_LOCALITY) + 1 and event.octets[-1] in _LOCALITIES
            # A second one, or one behind an event, would set the register back to a value of the log's choice.
            if event.pcr != 0 or not known or 0 in extended:
                raise StructureError(f"event {number}: a StartupLocality that no firmware writes")
        return
    if event.type in _HASHED:
        for algorithm, digest in event.digests.items():
            known_hash = algorithms.HASHES.get(algorithm)
            if known_hash is not None and digest != known_hash.digest(event.octets):
                raise StructureError(f"event {number}: the {known_hash.name} digest is not that of the data")


def _variable(octets: bytes, name: str) -> bytes | None:
    """The value in a UEFI_VARIABLE_DATA (10.4.2.2), if it is of the variable of that name."""
    reader = Reader(octets, "UEFI_VARIABLE_DATA", "little")
    try:
        reader.octets(16)  # the GUID of its vendor
        characters, size = reader.integer(8), reader.integer(8)
        told, value = reader.octets(characters * 2), reader.octets(size)
        reader.end()
    except StructureError:
        return None
    return value if told == name.encode("utf-16-le") else None
