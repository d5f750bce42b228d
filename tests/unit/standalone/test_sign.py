"""standalone/sign.py: what the process with the key signs, and what it does not whoever asks."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from asynctest import async_test
from kubevouch.ledger import entries
from kubevouch.ledger.interface import LedgerDamaged, LedgerUnavailable
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.pki.x509 import x509_certificate
from kubevouch.signers.catalog import PairFiles
from kubevouch.signers.process import Answer, Question, frame, read_frame
from kubevouch.standalone.options import ClusterSigning
from kubevouch.standalone.sign import (
    KEPT_ANSWERS,
    LONGEST,
    SignOptions,
    SignProcessError,
    listening,
    running,
)
from kubevouch.testing.clock import FakeClock
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER
from sign_world import World, entry_of
from signer_worlds import NOW, wanted


@async_test
async def test_what_the_ledger_allows_is_signed_as_the_ledger_says_it(tmp_path: Path) -> None:
    world, asked = World(tmp_path), wanted()
    answer = await world.ask(await world.allow(asked))
    certificate = x509_certificate.parse_pem(answer.certificate.encode())
    assert certificate.public_key == asked.request.public_key
    assert certificate.not_after <= NOW + dt.timedelta(seconds=7200)


@async_test
async def test_what_the_ledger_does_not_allow_is_not_signed(tmp_path: Path) -> None:
    world = World(tmp_path)
    question = await world.allow(wanted())
    other = wanted("u", "another")
    for refused in (
        Question("", question.digest),
        Question("nobody", question.digest),
        # The approval was for another request of the same name.
        Question("u", entry_of(entries.APPROVED, other, NOW).digest),
        Question("u", ""),
    ):
        assert (await world.ask(refused)).problem == "undecided"


@async_test
async def test_a_denial_after_the_approval_counts(tmp_path: Path) -> None:
    world = World(tmp_path)
    asked = wanted()
    question = await world.allow(asked)
    await world.allow(asked, entries.DENIED)
    assert (await world.ask(question)).problem == "undecided"


@async_test
async def test_an_entry_that_is_not_about_what_it_says(tmp_path: Path) -> None:
    """Who writes the ledger puts the digest of an approved request to another one."""
    world, other = World(tmp_path), wanted("u", "another")
    question = await world.allow(wanted(), pkcs10=other.request.contents)
    answer = await world.ask(question)
    assert (answer.problem, answer.certificate) == ("undecided", "")
    assert "contradicts itself" in answer.message


@async_test
async def test_the_signers_rules_are_looked_at_here_too(tmp_path: Path) -> None:
    """An approval in the ledger that no approver gives: a node signer that is to make an administrator."""
    world = World(tmp_path)
    bad = msgspec.structs.replace(wanted(), usages=["digital signature", "server auth"])
    assert (await world.ask(await world.allow(bad))).problem == "refused"
    unknown = msgspec.structs.replace(wanted("v"), signer_name="kubernetes.io/kube-apiserver-client")
    answer = await world.ask(await world.allow(unknown))
    assert answer.message == "nothing is signed here for kubernetes.io/kube-apiserver-client"


@async_test
async def test_what_was_allowed_too_long_ago(tmp_path: Path) -> None:
    world = World(tmp_path)
    question = await world.allow(wanted())
    world.clock.advance(LONGEST.total_seconds() + 1)
    assert "too long ago" in (await world.ask(question)).message
    later = await world.allow(wanted("later"), at=world.clock.now() + dt.timedelta(hours=1))
    assert (await world.ask(later)).problem == "undecided"


@async_test
async def test_only_approvers_count_when_that_is_wanted(tmp_path: Path) -> None:
    world = World(tmp_path, kinds=frozenset({entries.APPROVED}))
    assert (await world.ask(await world.allow(wanted("people"), entries.INTENDED))).problem == "undecided"
    assert (await world.ask(await world.allow(wanted("approver")))).certificate


@async_test
async def test_who_asks_again_gets_the_same_and_the_key_is_used_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    question = await world.allow(wanted())
    first, *others = await asyncio.gather(*(world.ask(question) for _ in range(20)))
    assert {each.certificate for each in others} == {first.certificate}
    for number in range(KEPT_ANSWERS):
        await world.ask(Question(f"nobody-{number}", "x"))
    assert (await world.ask(question)).certificate == first.certificate


@async_test
async def test_a_ledger_that_was_rewritten_ends_all_signing(tmp_path: Path) -> None:
    world = World(tmp_path)
    question = await world.allow(wanted())
    world.witness.says = LedgerDamaged("it is shorter")
    assert (await world.ask(question)).problem == "stopped"
    world.witness.says = None
    assert (await world.ask(question)).problem == "stopped"


@async_test
async def test_a_ledger_that_cannot_be_read_now_is_asked_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    question = await world.allow(wanted())
    world.witness.says = LedgerUnavailable("locked")
    assert (await world.ask(question)).problem == "unavailable"
    world.witness.says = None
    assert (await world.ask(question)).certificate


@asynccontextmanager
async def served(world: World, path: Path) -> AsyncIterator[None]:
    async with listening(world.server, path):
        yield


@async_test
async def test_one_socket_is_for_one_process(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with served(world, tmp_path / "s"):
        with pytest.raises(SignProcessError, match="another signing process listens on"):
            async with served(world, tmp_path / "s"):
                pass
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        writer.write(frame(await world.allow(wanted())))
        assert b"BEGIN CERTIFICATE" in await read_frame(reader, 1 << 18)
        writer.close()
    # And one that was killed leaves a socket that the next one takes over.
    async with served(world, tmp_path / "s"):
        assert (tmp_path / "s").is_socket()
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("signing", "why"),
    [
        (ClusterSigning(), "got no key"),
        (ClusterSigning(PairFiles("none.crt", "none.key")), "failed to init"),
        (ClusterSigning(socket=Path("s")), "got --signing-socket, expected the key"),
    ],
)
@async_test
async def test_settings_that_cannot_be_meant(tmp_path: Path, signing: ClusterSigning, why: str) -> None:
    with pytest.raises(SignProcessError, match=why):
        async with running(SignOptions(tmp_path / "s", tmp_path / "ledger.db", signing), FakeClock(NOW)):
            pass


@async_test
async def test_each_signer_has_its_own_lifetime(tmp_path: Path) -> None:
    world = World(tmp_path)
    signing = ClusterSigning(
        PairFiles(str(tmp_path / "ca.crt"), str(tmp_path / "ca.key")),
        durations={KUBE_APISERVER_CLIENT_KUBELET_SIGNER: dt.timedelta(hours=1)},
    )
    asked = msgspec.structs.replace(wanted(), expiration_seconds=None)
    path = tmp_path / "ledger.db"
    ledger = await SQLiteLedger.open(path, world.clock)
    entry = entry_of(entries.APPROVED, asked, NOW)
    await ledger.append(entry)
    async with running(SignOptions(tmp_path / "s", path, signing), world.clock) as names:
        assert KUBE_APISERVER_CLIENT_KUBELET_SIGNER in names
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        writer.write(frame(Question("u", entry.digest)))
        answer = msgspec.json.decode(await read_frame(reader, 1 << 18), type=Answer)
        writer.close()
    await ledger.close()
    certificate = x509_certificate.parse_pem(answer.certificate.encode())
    assert certificate.not_after <= NOW + dt.timedelta(hours=1)
