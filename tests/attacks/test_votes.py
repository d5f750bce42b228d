"""A vote counts for as long as its voter may cast it, and a person is one, whatever else can speak for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from asynctest import async_test
from certificate_requests import ask, policy, rights
from controller_world import World, world
from kubevouch.api.authorization_v1 import SubjectAccessReview
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from kubevouch.api.kubevouch_v1alpha1.catalog import (
    CERTIFICATE_APPROVALS,
    CERTIFICATE_REQUEST_POLICIES,
    CERTIFICATE_REVOCATIONS,
)
from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval, CertificateApprovalSpec
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import PeopleBound
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import (
    CertificateRevocation,
    CertificateRevocationSpec,
    RevocationTargets,
)
from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authorization.policy import cluster_role, cluster_role_binding, group, user
from kubevouch.controllers import csr_approving
from kubevouch.controllers.approval import voters
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.reviews.csr_explanation import explain
from kubevouch.standalone.controllers import RunningControllers
from kubevouch.wellknown import CREDENTIAL_ID_EXTRA

BOB = "ab" * 32
"""The fingerprint of the certificate that Bob has."""
EXTRA = {CREDENTIAL_ID_EXTRA: (f"X509SHA256={BOB}",)}


class Ballot:
    """A request of alice's that two people of ``security`` have to agree on."""

    def __init__(self, at: World, running: RunningControllers, uid: str) -> None:
        self.at = at
        self.running = running
        self.uid = uid
        self._count = 0

    async def vote(self, user: str, *groups: str, decision: str = "Approve", **more: Any) -> CertificateApproval:
        self._count += 1
        # What a voter writes of groups and credentials is not what counts.
        spec = CertificateApprovalSpec(
            request_name="x", request_uid=self.uid, approver=user, decision=decision, credential="of my own choice"
        )
        made = await self.at.as_user(user, *groups, **more).create(
            CERTIFICATE_APPROVALS, CertificateApproval(metadata=ObjectMeta(name=f"v{self._count}"), spec=spec)
        )
        await self.running.settle()
        return made

    async def revoke(self, **targets: Any) -> None:
        spec = CertificateRevocationSpec(revoked=RevocationTargets(**targets), reason="keyCompromise")
        made = CertificateRevocation(metadata=ObjectMeta(name="stolen"), spec=spec)
        await self.at.client.create(CERTIFICATE_REVOCATIONS, made)
        await self.running.settle()

    async def outcome(self) -> list[str]:
        await self.running.settle()
        csr = await self.at.client.get(CERTIFICATE_SIGNING_REQUESTS, "x")
        return [each.type for each in csr.status.conditions]

    async def got(self) -> str:
        """What the rule about people says to whoever asks."""
        found = await explain(self.at.client, "x", self.at.ledger, self.at.clock)
        return found.verdict.missing


def _binding(name: str) -> str:
    return f"vote-{name.replace(':', '-')}"


@asynccontextmanager
async def ballot(*groups: str) -> AsyncIterator[Ballot]:
    async with world() as at:
        await rights(at, "alice")
        writes = PolicyRule(verbs=["create"], api_groups=["kubevouch.io"], resources=["certificateapprovals"])
        await at.client.create(CLUSTER_ROLES, cluster_role("vote", writes))
        for name in ("security", "system:serviceaccounts", "system:nodes", "system:bootstrappers"):
            await at.client.create(
                CLUSTER_ROLE_BINDINGS, cluster_role_binding(_binding(name), group(name), role="vote")
            )
        await policy(at, people=PeopleBound(approvals=2, groups=list(groups)))
        csr = await ask(at, "x")
        running = await at.run(csr_approving.NAME)
        yield Ballot(at, running, csr.metadata.uid)


@async_test
async def test_two_people_are_enough() -> None:
    async with ballot("security") as found:
        first = await found.vote("bob", "security", "developers", extra=EXTRA)
        assert first.spec.groups == ["security", "developers", "system:authenticated"]
        assert first.spec.credential == f"X509SHA256={BOB}"
        assert await found.outcome() == []
        second = await found.vote("carol", "security")
        assert second.spec.credential == ""
        assert await found.outcome() == ["Approved"]


async def lose_the_right(found: Ballot) -> None:
    await found.at.client.delete(CLUSTER_ROLE_BINDINGS, _binding("security"))
    await found.at.client.create(
        CLUSTER_ROLE_BINDINGS, cluster_role_binding("vote-still", *map(user, ("carol", "dave")), role="vote")
    )


async def lose_the_certificate(found: Ballot) -> None:
    await found.revoke(certificates=[BOB])


async def lose_the_name(found: Ballot) -> None:
    await found.revoke(users=["bob"])


async def lose_what_was_asked_for(found: Ballot) -> None:
    await found.revoke(requesters=["bob"])


LOSSES = [
    (lose_the_right, "may no longer create certificateapprovals"),
    (lose_the_certificate, "has voted with a certificate that is revoked"),
    (lose_the_name, "is revoked"),
    (lose_what_was_asked_for, "is revoked"),
]


@pytest.mark.parametrize(("loss", "why"), LOSSES, ids=[loss.__name__ for loss, _ in LOSSES])
@async_test
async def test_a_vote_does_not_outlive_its_voter(loss: Callable[[Ballot], Awaitable[None]], why: str) -> None:
    async with ballot("security") as found:
        await found.vote("bob", "security", extra=EXTRA)
        await loss(found)
        assert f"bob {why}" in await found.got()
        await found.vote("carol", "security")
        assert await found.outcome() == []
        await found.vote("dave", "security")
        assert await found.outcome() == ["Approved"]


@pytest.mark.parametrize("loss", [loss for loss, _ in LOSSES])
@async_test
async def test_nor_does_a_denial(loss: Callable[[Ballot], Awaitable[None]]) -> None:
    """What is stolen could otherwise hold up what two people agree on, or have it denied."""
    async with ballot("security") as found:
        await found.at.client.delete(CERTIFICATE_REQUEST_POLICIES, "hosts")
        await found.vote("bob", "security", decision="Deny", extra=EXTRA)
        await loss(found)
        await policy(found.at, people=PeopleBound(approvals=2, groups=["security"]))
        await found.vote("carol", "security")
        assert await found.outcome() == []
        await found.vote("dave", "security")
        assert await found.outcome() == ["Approved"]


@async_test
async def test_who_has_another_credential_by_then_speaks_anew() -> None:
    async with ballot("security") as found:
        await found.vote("bob", "security", extra=EXTRA)
        await found.revoke(users=["bob"], certificates=[BOB])
        found.at.clock.advance(60)
        await found.vote("carol", "security")
        assert await found.outcome() == []
        await found.vote("bob", "security", extra={CREDENTIAL_ID_EXTRA: (f"X509SHA256={'cd' * 32}",)})
        assert await found.outcome() == ["Approved"]


MACHINES = [
    ("system:serviceaccount:ci:bobs-bot", ("system:serviceaccounts", "system:serviceaccounts:ci"), "a service account"),
    ("system:node:bobs-machine", ("system:nodes",), "a node"),
    ("system:bootstrap:abcdef", ("system:bootstrappers", "system:bootstrappers:bobs"), "a bootstrap token"),
]


@pytest.mark.parametrize(("machine", "groups", "kind"), MACHINES)
@pytest.mark.parametrize("bound", [(), ("security", "system:authenticated")])
@async_test
async def test_a_person_and_what_speaks_for_them_are_one(
    machine: str, groups: tuple[str, ...], kind: str, bound: tuple[str, ...]
) -> None:
    async with ballot(*bound) as found:
        await found.vote("bob", "security")
        await found.vote(machine, *groups)
        assert await found.outcome() == []
        assert f"{machine} is {kind}, and people.groups names none of its groups" in await found.got()
        await found.vote("carol", "security")
        assert await found.outcome() == ["Approved"]


@pytest.mark.parametrize(("machine", "groups", "kind"), MACHINES)
@async_test
async def test_machines_count_where_the_policy_names_them(machine: str, groups: tuple[str, ...], kind: str) -> None:
    async with ballot("security", groups[-1]) as found:
        await found.vote("bob", "security")
        await found.vote(machine, *groups)
        assert await found.outcome() == ["Approved"], kind


@async_test
async def test_a_node_that_is_revoked_votes_no_more() -> None:
    async with ballot("security", "system:nodes") as found:
        await found.vote("system:node:n1", "system:nodes")
        await found.revoke(nodes=["n1"])
        await found.vote("bob", "security")
        assert await found.outcome() == []
        assert "system:node:n1 is revoked" in await found.got()


@async_test
async def test_any_number_of_votes_costs_few_questions_and_pushes_nobody_out() -> None:
    """Each voter and each set of groups is a question to the API server; one user can write any number of votes."""
    async with ballot("security") as found:
        for number in range(100):
            await found.vote("bob", "security", f"g{number}")
        before = questions(found)
        await found.vote("carol", "security")
        assert questions(found) - before <= 2 * (voters.MOST_OF_ONE + 1)
        assert await found.outcome() == ["Approved"]


def questions(found: Ballot) -> int:
    """How often it was asked whether somebody may vote."""
    asked = (each.spec.resource_attributes for each in found.at.writes("POST") if isinstance(each, SubjectAccessReview))
    return sum(each is not None and each.resource == CERTIFICATE_APPROVALS.plural for each in asked)
