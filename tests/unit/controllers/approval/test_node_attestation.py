"""controllers/approval/node_attestation.py: from a proof to a certificate, and whom nobody gives one."""

from __future__ import annotations

from asynctest import async_test
from attested_world import Machine, attested_world, certificate, events, identity, outcome


@async_test
async def test_a_machine_that_proves_what_it_is_becomes_the_node() -> None:
    async with attested_world() as at:
        joined = await Machine(at, "worker-7", "m-1").join()
        assert outcome(joined) == "issued"
        assert certificate(joined).subject.common_name == "system:node:worker-7"
        found = await identity(at, "worker-7")
        assert found is not None
        assert (found.status.provider, found.status.identity) == ("null", "m-1")
        assert [each.event for each in found.status.history] == ["Claimed"]


@async_test
async def test_a_second_machine_never_gets_the_name_and_the_claim_stays_as_it_was() -> None:
    async with attested_world() as at:
        await Machine(at, "worker-7", "m-1").join()
        before = await identity(at, "worker-7")
        thief = await Machine(at, "worker-7", "m-2", token="aaaaaa").join()
        assert outcome(thief) == "denied: name-taken"
        assert await identity(at, "worker-7") == before
        assert "AttestationRefused" in await events(at)
