"""A certificate that is renewed by proving again what the machine is: what happens when that does not work at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_world import Managed, Network, managed, pass_time, running
from aio import until
from asynctest import async_test
from kubevouch.agent.certificate_store import StoredPair
from kubevouch.agent.rotation_plan import Reason
from kubevouch.pki import keys
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.x509.x509_certificate import parse_bundle
from kubevouch.testing.cluster import Cluster
from proving_machine import Clerk, attested_cluster, by_null
from throwaway_ca import ThrowawayCA

HOUR = 3600.0


def proving(it: Managed, *settings: str) -> None:
    """Have it prove itself by ``null`` from now on."""
    wanted, found = it.wanted[0], by_null(*settings)
    assert wanted is not None
    it.wanted[0] = replace(wanted, signer_name=found.signer_name, attestation=found, expiration_seconds=None)
    it.manager.look()


@asynccontextmanager
async def world(folder: Path, *settings: str) -> AsyncIterator[tuple[Cluster, Clerk, Managed]]:
    """A manager that proves itself, and a clerk."""
    async with attested_cluster() as cluster, Clerk(cluster).at_work() as clerk:
        # Who may ask is the server's matter, and is looked at with the real controller.
        it = managed(Network(cluster, as_admin=True), folder)
        proving(it, *settings)
        async with running(it):
            yield cluster, clerk, it


def pair_of(it: Managed) -> StoredPair:
    found = it.store.current()
    assert found is not None
    return found


async def renewed(it: Managed, times: int) -> None:
    await until(lambda: len(it.heard.renewals) == times)


@async_test
async def test_each_renewal_is_a_proof_of_its_own(tmp_path: Path) -> None:
    async with world(tmp_path) as (cluster, clerk, it):
        for times in range(1, 4):
            await renewed(it, times)
            cluster.clock.advance(23 * HOUR)
        assert not it.heard.failures
        assert len(clerk.challenges) == len(set(clerk.granted)) == len(clerk.requests) >= 3


@async_test
async def test_a_certificate_that_was_given_for_less_is_replaced(tmp_path: Path) -> None:
    """So is one that was given for the same method with other settings, and none is asked for twice."""
    async with world(tmp_path, "identity=a") as (cluster, clerk, it):
        await renewed(it, 1)
        first = pair_of(it)
        proving(it, "identity=b")
        await renewed(it, 2)
        assert pair_of(it).leaf != first.leaf
        # Without a proof a certificate is as good as before.
        wanted = it.wanted[0]
        assert wanted is not None
        it.wanted[0] = replace(wanted, attestation=None)
        it.manager.look()
        await pass_time(cluster, HOUR)
        assert len(clerk.requests) == 2


@async_test
async def test_banned_and_then_not(tmp_path: Path) -> None:
    """It asks ever more seldom, with one key, and comes back by itself."""
    async with world(tmp_path) as (cluster, clerk, it):
        await renewed(it, 1)
        first = pair_of(it)
        clerk.verdict = lambda *_: "banned"
        proving(it, "identity=b")
        for times in range(1, 6):
            await until(lambda: len(it.heard.failures) == times)  # noqa: B023 - it is awaited here
            # Not sooner: half of what the delay may be.
            await pass_time(cluster, 30 * 2 ** (times - 1) - 10, step=10)
            assert len(it.heard.failures) == times
            cluster.clock.advance(60 * 2**times)
        assert "is denied, reason: AttestationRefused, message: banned: " in it.manager.standing.last_error
        assert "kubevouch node unban" in it.manager.standing.hint and it.manager.standing.refused
        assert pair_of(it).leaf == first.leaf and it.manager.usable
        pending = keys.public_key_of(keys.load_pem(it.store.pending_key_path.read_bytes()))
        clerk.verdict = lambda *_: ""
        cluster.clock.advance(HOUR)
        await renewed(it, 2)
        assert pair_of(it).leaf.public_key == pending
        assert it.manager.standing.last_error == "" and not it.manager.standing.refused


@async_test
async def test_forgotten_and_proven_anew(tmp_path: Path) -> None:
    """The server does not know the certificate any more: what there was to begin with is shown, and a new proof."""
    async with world(tmp_path) as (cluster, clerk, it):
        await renewed(it, 1)
        first, network = pair_of(it), it.access.network
        network.as_admin, network.server_anchors = False, TrustAnchors(parse_bundle(ThrowawayCA().bundle))
        proving(it, "identity=b")
        await until(lambda: bool(it.heard.failures))
        assert "does not accept the credential" in it.manager.standing.last_error
        network.as_admin = True
        cluster.clock.advance(60)
        await renewed(it, 2)
        assert it.access.shown[-1] is None
        assert pair_of(it).leaf != first.leaf and len(clerk.granted) == 2


@async_test
async def test_what_cannot_be_asked_now_is_asked_when_it_says(tmp_path: Path) -> None:
    busy = tmp_path / "busy"
    busy.touch()
    async with world(tmp_path / "pki", f"busy={busy}") as (cluster, clerk, it):
        await until(lambda: it.heard.failures == ["null: busy"])
        await pass_time(cluster, 990, step=30)
        assert it.heard.failures == ["null: busy"]
        busy.unlink()
        cluster.clock.advance(60)
        await renewed(it, 1)
        assert it.manager.usable and clerk.granted


@pytest.mark.parametrize("setting", ["bogus=1", "fails=no"])
@async_test
async def test_what_it_cannot_prove_takes_no_pair(tmp_path: Path, setting: str) -> None:
    async with world(tmp_path) as (_, _clerk, it):
        await renewed(it, 1)
        first = pair_of(it)
        proving(it, setting)
        await until(lambda: bool(it.heard.failures))
        assert it.manager.standing.asking == Reason.OTHER_PROOF
        assert pair_of(it).leaf == first.leaf and it.manager.usable
