"""A certificate for evidence ends when its grant does, whoever holds the CA's key and whatever was asked for."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from attested_world import CONTROLLERS, NULL, Machine, certificate, configured, identity, outcome
from controller_world import World, world
from kubevouch.ledger.entries import DISCARDED, ISSUED, Query
from kubevouch.pki.issuance import SigningRules
from kubevouch.signers.catalog import SigningOptions
from kubevouch.wellknown import ATTESTED_CLIENT_SIGNER_PREFIX
from signer_worlds import PLAIN, WebhookPeer, https_peer

GRANT = 3600
LIFETIMES = f"{NULL}lifetimes: [{{strength: tpm, seconds: {GRANT}}}]\n"
SIGNER = f"{ATTESTED_CLIENT_SIGNER_PREFIX}null"
YEAR = 363 * 86_400
# What is asked for, and what it may be.
ASKED = [(None, GRANT), (600, 600), (GRANT, GRANT), (86_400, GRANT), (YEAR, GRANT)]


@asynccontextmanager
async def attested_by(peer: WebhookPeer, folder: Path) -> AsyncIterator[World]:
    """A cluster whose certificates for proofs another program signs, which ``https_peer`` has written down."""
    async with world() as at:
        peer.clock = at.clock
        peer.rules = SigningRules(signing_duration=dt.timedelta(days=364))
        options = SigningOptions(outside=folder / "signing.yaml", clock=at.clock)
        at.start(*CONTROLLERS, attesting=configured(LIFETIMES), signing=options)
        await at.settle()
        yield at


def outside() -> dict[str, Any]:
    return {"webhook": {"kubeconfigFile": "webhook.conf"}, "signerNames": [SIGNER]}


async def ask(at: World, seconds: int | None) -> Any:
    machine = Machine(at, "worker-7", "m-1")
    proof = await machine.evidence(await machine.challenge())
    return await machine.file(machine.request(proof), expiration_seconds=seconds)


@pytest.mark.parametrize(("asked", "most"), ASKED)
@async_test
async def test_nobody_gets_more_seconds_than_the_grant(asked: int | None, most: int) -> None:
    async with world() as at:
        at.start(*CONTROLLERS, attesting=configured(LIFETIMES))
        await at.settle()
        leaf = certificate(await ask(at, asked))
        assert leaf.not_after == at.clock.now() + dt.timedelta(seconds=most)


@pytest.mark.parametrize(("asked", "most"), ASKED)
@async_test
async def test_a_program_that_signs_is_told_the_grant(tmp_path: Path, asked: int | None, most: int) -> None:
    async with https_peer(tmp_path, *PLAIN, **outside()) as (_, peer), attested_by(peer, tmp_path) as at:
        leaf = certificate(await ask(at, asked))
        assert leaf.not_after == at.clock.now() + dt.timedelta(seconds=most)
        (question,) = peer.server.seen
        assert msgspec.json.decode(question.body)["request"]["expirationSeconds"] == most


@async_test
async def test_a_program_that_signs_for_longer_signs_for_nobody(tmp_path: Path) -> None:
    """A grant of an hour was good for 363 days."""
    async with https_peer(tmp_path, *PLAIN, **outside()) as (_, peer), attested_by(peer, tmp_path) as at:
        peer.overrun()
        filed = await ask(at, None)
        assert outcome(filed).startswith("failed: the webhook issued a certificate until 2027-11-")
        assert not filed.status.certificate
        assert not await at.ledger.find(Query(kinds=frozenset({ISSUED})))
        (found,) = await at.ledger.find(Query(kinds=frozenset({DISCARDED})))
        assert found.entry.not_after is not None and found.entry.not_after > at.clock.now() + dt.timedelta(days=360)
        named = await identity(at, "worker-7")
        assert named is not None and [each.seconds for each in named.status.granted] == [GRANT]
        # Whoever asks for a short one stops no signer for the others.
        peer.sign()
        other = Machine(at, "worker-8", "m-2")
        assert outcome(await other.join()) == "issued"
