"""reviews/policy_rehearsal.py: what policies would change, and files that hold none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

import peers
from asynctest import async_test
from certificate_requests import ask, policy, rights
from controller_world import NOW, World, world
from kubevouch.controllers import csr_approving
from kubevouch.ledger.interface import Ledger
from kubevouch.policy.replay import Replayed
from kubevouch.reviews.policy_rehearsal import PolicyFileError, Rehearsal, read_policies

EXAMPLE = (peers.ROOT / "examples" / "30-day-hosts.yaml").read_text()
HOSTS = EXAMPLE.replace("k8s-hosts", "hosts")


async def all_of(found: AsyncIterator[Replayed]) -> dict[str, str]:
    return {each.name: each.change.value async for each in found}


async def decided(at: World) -> Ledger:
    """By a policy with the name of the one in :data:`HOSTS`: good is approved, long and evil are denied, eve waits."""
    await rights(at, "alice", "eve")
    await policy(at)
    ledger = at.ledger
    running = await at.run(csr_approving.NAME)
    await ask(at, "good")
    await ask(at, "long", key=8, seconds=2592001)
    await ask(at, "evil", key=9, names=("evil.com",))
    await ask(at, "eves", key=10, user="eve")
    await running.settle()
    return ledger


@async_test
async def test_the_same_policy_changes_nothing() -> None:
    async with world() as at:
        rehearsal = Rehearsal(read_policies(HOSTS.encode()), await decided(at))
        assert await all_of(rehearsal.of_the_ledger(NOW)) == dict.fromkeys(("good", "long", "evil"), "unchanged")


@async_test
async def test_a_wider_and_a_narrower_one() -> None:
    async with world() as at:
        ledger = await decided(at)
        wider = HOSTS.replace("2592000", "9999999")
        found = await all_of(Rehearsal(read_policies(wider.encode()), ledger).of_the_ledger(NOW))
        assert found == {"good": "unchanged", "long": "newly approved", "evil": "unchanged"}
        narrower = HOSTS.replace("2592000", "600")
        found = await all_of(Rehearsal(read_policies(narrower.encode()), ledger).of_the_ledger(NOW))
        assert found == {"good": "newly denied", "long": "unchanged", "evil": "unchanged"}
        # Beside the one that has decided, it approves nothing that was denied.
        beside = EXAMPLE.replace("2592000", "9999999")
        found = await all_of(Rehearsal(read_policies(beside.encode()), ledger).of_the_ledger(NOW))
        assert set(found.values()) == {"unchanged"}


@async_test
async def test_what_was_before_is_not_looked_at_and_what_came_later_does_not_count() -> None:
    async with world() as at:
        ledger = await decided(at)
        policies = read_policies(HOSTS.encode())
        at.clock.advance(60)
        assert await all_of(Rehearsal(policies, ledger).of_the_ledger(at.clock.now())) == {}


@async_test
async def test_what_nobody_has_decided() -> None:
    async with world() as at:
        rehearsal = Rehearsal(read_policies(HOSTS.encode()), await decided(at))
        assert await all_of(rehearsal.of_the_cluster(at.client, at.clock.now())) == {"eves": "newly approved"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "got no object"),
        ("x: [", "no YAML"),
        ("kind: Pod\napiversion: v1\n", "object 1: got Pod, expected kubevouch.io/v1alpha1 CertificateRequestPolicy"),
        (EXAMPLE.replace("freshKey", "freshkey"), 'object 1: unknown field "spec.freshkey"'),
        (EXAMPLE.replace("ApproveOrDeny", "Allow"), "object 1: spec.effect: Unsupported value"),
        (EXAMPLE.replace("2592000", "-1"), "object 1: spec.expirationSeconds.maximum: Invalid value"),
        (f"{EXAMPLE}---\n{EXAMPLE}", "object 2: got metadata.name 'k8s-hosts', expected a name that no other has"),
        (EXAMPLE.replace("*.k8s", "*k8s"), "k8s-hosts: subject.commonName: '*k8s.example.com': behind"),
        (f"{EXAMPLE}  validations: [{{expression: nothing}}]\n", "k8s-hosts: spec.validations[0].expression: compil"),
    ],
)  # fmt: skip
def test_files_without_a_policy_that_can_be_evaluated(text: str, fault: str) -> None:
    with pytest.raises(PolicyFileError) as raised:
        read_policies(text.encode())
    assert str(raised.value).startswith(fault)
    assert "\n" not in str(raised.value)


def test_several_policies_in_one_file() -> None:
    found: Sequence[object] = read_policies(f"{EXAMPLE}---\n{HOSTS}".encode())
    assert len(found) == 2
