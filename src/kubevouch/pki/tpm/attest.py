"""What a TPM says and signs: TPMS_ATTEST, and TPMS_CREATION_DATA (TPM 2.0 Library, Part 2, 10.12 and 15.1)."""

from __future__ import annotations

import msgspec

from kubevouch.pki.tpm.marshalling import Reader, unsized
from kubevouch.pki.tpm.pcrs import Selection, read_selections

GENERATED = 0xFF544347
"""The magic of what a TPM has made; a restricted key signs nothing foreign that begins so."""
CERTIFY = 0x8017
QUOTE = 0x8018
CREATION = 0x801A
TYPES = {CERTIFY: "certify", QUOTE: "quote", CREATION: "creation"}

MAX_ATTEST_BYTES = 2048
_MAX_NAME = 66
_MAX_EXTRA = 66
_MAX_DIGEST = 64
_MAX_CREATION_DATA = 1024


class ClockInfo(msgspec.Struct, frozen=True):
    """TPMS_CLOCK_INFO. After a kill the clock may be lower than before: it counts within one reset and restart only.

    Args:
        clock: milliseconds while the TPM had power.
        safe: no higher value was ever told.
    """

    reset_count: int
    restart_count: int
    clock: int
    safe: bool

    @property
    def moment(self) -> tuple[int, int, int]:
        """What only grows."""
        return self.reset_count, self.restart_count, self.clock


class Attest(msgspec.Struct, frozen=True, kw_only=True):
    """What was said, of which **nothing has been verified**, not even that a TPM said it.

    Args:
        extra_data: what the caller asked to have signed with it.
        name: of the object that was certified or created.
        creation_hash: of its creation data.
        selections: which PCRs were quoted, bank by bank in the order of the quote; ``pcr_digest`` is of their values.
        has_body: whether what belongs to the type was read: it is for the type that was expected only.
    """

    magic: int
    type: int
    qualified_signer: bytes
    extra_data: bytes
    clock: ClockInfo
    firmware_version: int
    has_body: bool = False
    name: bytes = b""
    qualified_name: bytes = b""
    creation_hash: bytes = b""
    selections: tuple[Selection, ...] = ()
    pcr_digest: bytes = b""


def parse(octets: bytes, expected: int, what: str = "TPMS_ATTEST") -> Attest:
    """The structure in ``octets``, to its end if it is of the ``expected`` type; of another one what all types have.

    Whoever expects a type has to look at ``type`` and ``magic`` by himself, behind the signature.

    Raises:
        StructureError
    """
    reader = Reader(octets, what)
    if reader.left > MAX_ATTEST_BYTES:
        raise reader.refusal(f"got {reader.left} bytes, expected at most {MAX_ATTEST_BYTES}")
    magic, kind = reader.integer(4), reader.integer(2)
    signer, extra = reader.sized(_MAX_NAME), reader.sized(_MAX_EXTRA)
    clock, resets, restarts, safe = reader.integer(8), reader.integer(4), reader.integer(4), reader.integer(1)
    said = Attest(
        magic=magic,
        type=kind,
        qualified_signer=signer,
        extra_data=extra,
        clock=ClockInfo(resets, restarts, clock, bool(safe)),
        firmware_version=reader.integer(8),
    )
    if kind != expected:
        return said
    if kind == CERTIFY:
        said = msgspec.structs.replace(said, name=reader.sized(_MAX_NAME), qualified_name=reader.sized(_MAX_NAME))
    elif kind == CREATION:
        said = msgspec.structs.replace(said, name=reader.sized(_MAX_NAME), creation_hash=reader.sized(_MAX_DIGEST))
    else:
        said = msgspec.structs.replace(said, selections=read_selections(reader), pcr_digest=reader.sized(_MAX_DIGEST))
    reader.end()
    return msgspec.structs.replace(said, has_body=True)


def creation_data(octets: bytes) -> bytes:
    """The contents of a TPM2B_CREATION_DATA, which is what the creation hash is of.

    Raises:
        StructureError
    """
    contents = unsized(octets, "TPM2B_CREATION_DATA", _MAX_CREATION_DATA)
    reader = Reader(contents, "TPMS_CREATION_DATA")
    read_selections(reader)
    reader.sized(_MAX_DIGEST)  # of the PCRs
    reader.integer(1)  # locality
    reader.integer(2)  # the parent's name algorithm
    reader.sized(_MAX_NAME)  # the parent's name
    reader.sized(_MAX_NAME)  # … and qualified name
    reader.sized(_MAX_NAME)  # what the creator wanted to have in it
    reader.end()
    return contents
