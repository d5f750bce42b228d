"""What every signer does, whatever holds its key: the same tests over a file, a token, a process, a webhook, other CAs.

A CA that validates names is held to its own (test_acme.py): it gives no certificates to nodes.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from asynctest import async_test
from kubevouch.ledger.entries import DISCARDED, ISSUED, Query
from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.client_certificate import is_issued_by
from kubevouch.pki.errors import IssuedMismatchError, PolicyError, SignatureError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.signers.interface import OverlongError, SignerUnavailable, SigningStopped, UndecidedError
from kubevouch.signers.remote import AT_ONCE
from kubevouch.testing.clock import FakeClock, settle
from kubevouch.wellknown import LEGACY_UNKNOWN_SIGNER
from signer_worlds import GRANTED, KINDS, TRUE_SIGN, granted, wanted
from softhsm import SoftHSM

every_kind = pytest.mark.parametrize("kind", list(KINDS))


@pytest.fixture(autouse=True)
def honest() -> Iterator[None]:
    yield
    setattr(CertificateAuthority, "sign", TRUE_SIGN)  # noqa: B010 - a method


@every_kind
@async_test
async def test_the_right_certificate(softhsm: SoftHSM, tmp_path: Path, kind: str) -> None:
    async with KINDS[kind](tmp_path, softhsm) as world:
        asked = wanted()
        certificate = await world.sign(asked)
        assert certificate.public_key == asked.request.public_key
        assert certificate.subject.common_name == "system:node:n1"
        assert certificate.subject.organizations == ("system:nodes",)
        assert is_issued_by(certificate, world.authority)
        assert not world.signer.chain_of(certificate)
        # Who asks again after a crash gets the same.
        assert (await world.sign(asked)).serial == certificate.serial


@every_kind
@async_test
async def test_what_is_not_approved_is_not_signed(softhsm: SoftHSM, tmp_path: Path, kind: str) -> None:
    async with KINDS[kind](tmp_path, softhsm) as world:
        with pytest.raises(UndecidedError, match="csr-u is not approved"):
            await world.sign(approved=False)
        with pytest.raises(UndecidedError, match="expected a decision"):
            await world.signer.sign(wanted())  # type: ignore[arg-type]  # what a mistake would hand over


@every_kind
@async_test
async def test_what_the_rules_refuse_is_not_signed(softhsm: SoftHSM, tmp_path: Path, kind: str) -> None:
    async with KINDS[kind](tmp_path, softhsm) as world:
        with pytest.raises(PolicyError, match="usages did not match"):
            await world.sign(msgspec.structs.replace(wanted(), usages=["digital signature", "server auth"]))
        contents = bytearray(wanted().request.contents)
        contents[-1] ^= 1
        forged = msgspec.structs.replace(wanted(), request=x509_request.parse_der(bytes(contents)))
        with pytest.raises(SignatureError, match="unable to verify certificate request signature"):
            await world.sign(forged)


@every_kind
@async_test
async def test_a_certificate_for_another_key_stops_the_signer(softhsm: SoftHSM, tmp_path: Path, kind: str) -> None:
    async with KINDS[kind](tmp_path, softhsm) as world:
        assert await world.sign()
        world.lie()
        with pytest.raises((IssuedMismatchError, SigningStopped), match="another public key"):
            await world.sign(wanted("second"))
        # Also when it tells the truth again: a human has to look.
        world.be_honest()
        with pytest.raises(SigningStopped, match="this signer has stopped"):
            await world.sign(wanted("third"))
        assert not await world.ledger.find(Query(uid="second", kinds=frozenset({ISSUED})))


@every_kind
@async_test
async def test_a_certificate_ends_when_what_was_granted_does(softhsm: SoftHSM, tmp_path: Path, kind: str) -> None:
    async with KINDS[kind](tmp_path, softhsm) as world:
        if not world.obeys:
            # It has lifetimes of its own, of which nobody can tell it less: nothing of it is given out.
            with pytest.raises(OverlongError, match="it is not given out"):
                await world.sign(granted())
            return
        certificate = await world.sign(granted())
        assert certificate.not_after == world.clock.now() + dt.timedelta(seconds=GRANTED)


@every_kind
@async_test
async def test_one_that_ends_later_than_what_was_granted_is_not_given_out(
    softhsm: SoftHSM, tmp_path: Path, kind: str
) -> None:
    async with KINDS[kind](tmp_path, softhsm) as world:
        world.overrun()
        with pytest.raises((OverlongError, IssuedMismatchError, SigningStopped), match=r"not after|until") as caught:
            await world.sign(granted())
        assert not await world.ledger.find(Query(uid="u", kinds=frozenset({ISSUED})))
        discarded = await world.ledger.find(Query(uid="u", kinds=frozenset({DISCARDED})))
        if not isinstance(caught.value, OverlongError):
            assert not discarded
            return
        # It is valid, and somebody else has it: the ledger says what to revoke. Others go on.
        assert [each.entry.certificate for each in discarded] == [caught.value.certificate.contents]
        world.be_honest()
        assert await world.sign(wanted("second"))


@every_kind
@async_test
async def test_a_shorter_lifetime_that_is_asked_for_holds_for_all_that_can_be_told(
    softhsm: SoftHSM, tmp_path: Path, kind: str
) -> None:
    async with KINDS[kind](tmp_path, softhsm) as world:
        world.overrun()
        if world.obeys:
            with pytest.raises((OverlongError, IssuedMismatchError, SigningStopped), match=r"not after|until"):
                await world.sign()
        else:
            assert (await world.sign()).not_after > world.clock.now() + dt.timedelta(hours=20)


@every_kind
@async_test
async def test_no_signer_gives_anybody_a_name_of_kubernetes_own(softhsm: SoftHSM, tmp_path: Path, kind: str) -> None:
    """By whatever holds the key: another program need not know what such a name is worth."""
    subject = Subject(common_name="system:kube-controller-manager")
    request = x509_request.parse_pem(build_request(keys.generate(KeyAlgorithm.ECDSA_P256), subject))
    asked = msgspec.structs.replace(wanted(), request=request, signer_name=LEGACY_UNKNOWN_SIGNER)
    async with KINDS[kind](tmp_path, softhsm) as world:
        with pytest.raises(PolicyError, match="issues no name that begins with system:"):
            await world.sign(asked)


@every_kind
@async_test
async def test_one_that_is_gone_signs_when_it_is_back(softhsm: SoftHSM, tmp_path: Path, kind: str) -> None:
    async with KINDS[kind](tmp_path, softhsm) as world:
        assert await world.sign()
        world.go_away()
        if not world.is_remote:
            # Its key is in memory, and a file that is gone may be in the middle of being written.
            assert await world.sign(wanted("second"))
            return
        try:
            with pytest.raises(SignerUnavailable):
                await world.sign(wanted("second"))
        finally:
            world.come_back()
        assert await world.sign(wanted("second"))


@every_kind
@async_test
async def test_one_that_does_not_answer_is_given_up(softhsm: SoftHSM, tmp_path: Path, kind: str) -> None:
    async with KINDS[kind](tmp_path, softhsm) as world:
        if world.hang is None or not isinstance(world.clock, FakeClock):
            return
        world.hang()
        asked = [asyncio.ensure_future(world.sign(wanted(f"u{number}"))) for number in range(AT_ONCE)]
        await world.clock.until_asleep(AT_ONCE)
        with pytest.raises(SignerUnavailable, match="requests wait for the") as busy:
            await world.sign()
        assert busy.value.retry_after < 1
        await settle()
        world.clock.advance(60)
        for each in asked:
            with pytest.raises(SignerUnavailable, match=r"has not answered|cannot be reached"):
                await each
