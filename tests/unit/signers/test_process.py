"""signers/process.py: what a client makes of whatever answers on the socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from asynctest import async_test
from kubevouch.ledger.entries import INTENDED, Query
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.pki import keys
from kubevouch.pki.authority import create_authority
from kubevouch.pki.errors import IssuedMismatchError, PolicyError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.signers.interface import SignerError, SignerUnavailable, SigningStopped, UndecidedError
from kubevouch.signers.outside import process_signer
from kubevouch.signers.process import Answer, Question, frame
from kubevouch.testing.clock import FakeClock
from signer_worlds import NOW, RULES, World, signed_by, wanted

STRANGER = create_authority("stranger", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)


@asynccontextmanager
async def answered(folder: Path, octets: bytes) -> AsyncIterator[tuple[World, list[bytes]]]:
    """A signer whose process answers with these octets, and what it was asked."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(4096))
        writer.write(octets)
        writer.close()

    authority = create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    (folder / "ca.crt").write_bytes(authority.certificate.pem())
    clock = FakeClock(NOW)
    async with await asyncio.start_unix_server(answer, str(folder / "s")):
        signer = process_signer(folder / "s", folder / "ca.crt", RULES, clock)
        yield World(signer, authority.certificate, clock, MemoryLedger()), asked


@pytest.mark.parametrize(
    ("octets", "error", "why"),
    [
        (b"", SignerUnavailable, "ended within a message"),
        (b"\0\0\0\0", SignerUnavailable, "got a message of 0 octets"),
        (b"\xff\xff\xff\xff", SignerUnavailable, "got a message of 4294967295 octets, expected at most"),
        (b"\0\0\0\x05ab", SignerUnavailable, "ended within a message"),
        (b"\0\0\0\x02{]", SignerUnavailable, "answered with no message"),
        (b'\0\0\0\x0b{"other": 1}'[:15], SignerUnavailable, "answered with no message"),
        (frame(Answer(problem="undecided", message="no")), UndecidedError, "^no$"),
        (frame(Answer(problem="refused", message="weak")), PolicyError, "^weak$"),
        (frame(Answer(problem="stopped", message="look")), SigningStopped, "^look$"),
        (frame(Answer(problem="failed", message="odd")), SignerError, "^odd$"),
        (frame(Answer(problem="unavailable", message="wait", retry_after=1e9)), SignerUnavailable, "^wait$"),
        (frame(Answer()), IssuedMismatchError, "does not parse"),
        (frame(Answer(certificate=signed_by(STRANGER, wanted(), NOW).decode())), IssuedMismatchError, "trusted CA"),
    ],
)
@async_test
async def test_answers(tmp_path: Path, octets: bytes, error: type[Exception], why: str) -> None:
    async with answered(tmp_path, octets) as (world, asked):
        with pytest.raises(error, match=why) as refusal:
            await world.sign()
        if isinstance(refusal.value, SignerUnavailable):
            assert refusal.value.retry_after <= 60
    question = msgspec.json.decode(asked[0][4:], type=Question)
    (intended,) = await world.ledger.find(Query(kinds=frozenset({INTENDED})))
    assert (question.uid, question.digest) == (intended.entry.uid, intended.entry.digest)


@async_test
async def test_nobody_listens(tmp_path: Path) -> None:
    async with answered(tmp_path, b"") as (world, _):
        (tmp_path / "s").unlink()
        with pytest.raises(SignerUnavailable, match=r"no signing process answers on .*: no such file or directory"):
            await world.sign()
