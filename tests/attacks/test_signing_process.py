"""Who may connect to the signing process, or sits where its clients are, gets nothing signed and keeps nobody out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from asynctest import async_test
from kubevouch.ledger import entries
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.signers.process import MAX_QUESTION, frame
from kubevouch.standalone.sign import MAX_CONNECTIONS, QUESTION_SECONDS, listening
from kubevouch.testing.clock import settle
from kubevouch.testing.logs import capture_logs
from sign_world import World
from signer_worlds import wanted

NOBODY = 65534


@asynccontextmanager
async def served(folder: Path, **rules: object) -> AsyncIterator[tuple[World, Path]]:
    world = World(folder, **rules)
    async with listening(world.server, folder / "s"):
        yield world, folder / "s"


async def said(path: Path, octets: bytes) -> bytes:
    """What is answered to these octets, and nothing behind them."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(octets)
        writer.write_eof()
        return await reader.read()
    except (ConnectionResetError, BrokenPipeError):
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\0\0",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff" + b"x" * 10,
        (MAX_QUESTION + 1).to_bytes(4, "big") + b" " * (MAX_QUESTION + 1),
        b"\0\0\0\x02{}",
        b"\0\0\0\x02\xff\xff",
        b"\0\0\x10\0" + b"[" * 4096,
        b'\0\0\0\x1d{"uid":7,"digest":"x","a":[]}',
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
@async_test
async def test_what_is_no_question_is_not_answered_and_costs_nothing(tmp_path: Path, octets: bytes) -> None:
    async with served(tmp_path) as (world, path):
        with capture_logs() as logs:
            assert await said(path, octets) == b""
        assert [line["event"] for line in logs] == ["what came is no question"]
        assert b"CERTIFICATE" in await said(path, frame(await world.allow(wanted())))


@async_test
async def test_a_question_may_not_bring_a_request_along(tmp_path: Path) -> None:
    """Nothing but names is taken from a connection: a request that is sent is not even looked at."""
    async with served(tmp_path) as (world, path):
        question = await world.allow(wanted())
        more = {**msgspec.to_builtins(question), "pkcs10": "AAAA", "usages": ["cert sign"]}
        body = msgspec.json.encode(more)
        assert await said(path, len(body).to_bytes(4, "big") + body) == b""


@async_test
async def test_a_user_that_may_not_ask_is_hung_up_on_before_anything_is_read(tmp_path: Path) -> None:
    async with served(tmp_path, users=frozenset({NOBODY})) as (world, path):
        with capture_logs() as logs:
            assert await said(path, frame(await world.allow(wanted()))) == b""
        assert {"event": "a user that may not ask has connected", "user": os.geteuid(), "log_level": "warning"} in logs


@async_test
async def test_who_connects_and_says_nothing_keeps_nobody_out(tmp_path: Path) -> None:
    async with served(tmp_path) as (world, path):
        silent = [await asyncio.open_unix_connection(str(path)) for _ in range(MAX_CONNECTIONS)]
        await world.clock.until_asleep(MAX_CONNECTIONS)
        question = frame(await world.allow(wanted()))
        # No time passes: the oldest gives way.
        assert b"CERTIFICATE" in await said(path, question)
        assert await silent[0][0].read() == b""
        assert [reader.at_eof() for reader, _ in silent[1:]] == [False] * (MAX_CONNECTIONS - 1)
        # The others have their time, and what they hold meanwhile is bounded.
        world.clock.advance(QUESTION_SECONDS)
        await settle()
        assert [await reader.read() for reader, _ in silent] == [b""] * MAX_CONNECTIONS
        for _, writer in silent:
            writer.close()


@async_test
async def test_who_waits_for_an_answer_gives_way_to_nobody(tmp_path: Path) -> None:
    async with served(tmp_path) as (world, path):
        world.witness.held = asyncio.Event()
        questions = [frame(await world.allow(wanted(f"u{number}"))) for number in range(MAX_CONNECTIONS)]
        asked = [asyncio.ensure_future(said(path, each)) for each in questions]
        await world.witness.asked(MAX_CONNECTIONS)
        assert await said(path, questions[0]) == b""
        world.witness.held.set()
        assert all(b"CERTIFICATE" in each for each in await asyncio.gather(*asked))


@async_test
async def test_who_begins_a_question_and_does_not_end_it_gives_way_too(tmp_path: Path) -> None:
    async with served(tmp_path) as (world, path):
        slow = [await asyncio.open_unix_connection(str(path)) for _ in range(MAX_CONNECTIONS)]
        for _, writer in slow:
            writer.write(b"\x00\x00\x01\x00{")
        await world.clock.until_asleep(MAX_CONNECTIONS)
        with capture_logs() as logs:
            for number in range(MAX_CONNECTIONS):
                assert b"CERTIFICATE" in await said(path, frame(await world.allow(wanted(f"u{number}"))))
        told = [each for each in logs if each["event"] == "a silent connection gives way to a new one"]
        assert {each["user"] for each in told} == {os.geteuid()}
        for _, writer in slow:
            writer.close()


@async_test
async def test_who_hangs_up_takes_along_nobody_who_waits_for_the_same(tmp_path: Path) -> None:
    async with served(tmp_path) as (world, path):
        question = frame(await world.allow(wanted()))
        _, writer = await asyncio.open_unix_connection(str(path))
        writer.write(question)
        writer.close()
        assert b"CERTIFICATE" in await said(path, question)


@async_test
async def test_an_approval_that_the_owner_of_the_ledger_makes_up(tmp_path: Path) -> None:
    """What is not kept from who writes the ledger: it is signed, within the rules of the signer, and told in its log.

    What is kept from them: the key, and what its signers never sign (docs/adr/0025-a-signing-process.md).
    """
    async with served(tmp_path) as (world, path):
        made_up = await world.allow(wanted("made-up", "any-node"), entries.APPROVED)
        with capture_logs() as logs:
            assert b"CERTIFICATE" in await said(path, frame(made_up))
        assert [line["uid"] for line in logs if line["event"] == "certificate signed"] == ["made-up"]
        key = keys.generate(KeyAlgorithm.ECDSA_P256)
        for subject in (
            Subject(common_name="system:node:a", organizations=("system:nodes", "system:masters")),
            Subject(common_name="root", organizations=("system:masters",)),
        ):
            request = x509_request.parse_pem(build_request(key, subject))
            admin = msgspec.structs.replace(wanted("admin"), request=request)
            assert b"CERTIFICATE" not in await said(path, frame(await world.allow(admin)))
