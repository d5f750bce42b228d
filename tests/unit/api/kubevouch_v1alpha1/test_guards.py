"""What guards our own kinds: nobody speaks for another, and who has written a policy is known."""

from __future__ import annotations

import msgspec
import pytest

from asynctest import async_test
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import (
    AttestationChallenge,
    AttestationChallengeSpec,
    AttestationChallengeStatus,
)
from kubevouch.api.kubevouch_v1alpha1.catalog import (
    ATTESTATION_CHALLENGES,
    CERTIFICATE_APPROVALS,
    CERTIFICATE_REQUEST_POLICIES,
)
from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval, CertificateApprovalSpec
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    CertificateRequestPolicy,
    CertificateRequestPolicySpec,
    PolicySelector,
)
from kubevouch.api.kubevouch_v1alpha1.guards import AUTHORS_ANNOTATION, authors_of
from kubevouch.client.interface import Client
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.server.bootstrap import own_kinds
from kubevouch.testing import Cluster

ADMINS = ("system:masters", "team-a")


def approval(approver: str, *groups: str) -> CertificateApproval:
    spec = CertificateApprovalSpec(
        request_name="r", request_uid="u", approver=approver, decision="Approve", groups=list(groups)
    )
    return CertificateApproval(metadata=ObjectMeta(name="a"), spec=spec)


def policy(signer: str) -> CertificateRequestPolicy:
    spec = CertificateRequestPolicySpec(selector=PolicySelector(signer_names=[signer]))
    return CertificateRequestPolicy(metadata=ObjectMeta(name="p"), spec=spec)


@async_test
async def test_nobody_approves_in_the_name_of_another_or_of_a_group_that_is_not_his() -> None:
    async with Cluster() as cluster:
        await own_kinds.ensure(cluster.client())
        bob = cluster.client("bob", ADMINS)
        with pytest.raises(APIStatusError, match=r"spec\.approver must be who creates it: bob"):
            await bob.create(CERTIFICATE_APPROVALS, approval("alice"))
        with pytest.raises(APIStatusError, match=r"spec\.groups must be groups of who creates it"):
            await bob.create(CERTIFICATE_APPROVALS, approval("bob", "team-b"))
        made = await bob.create(CERTIFICATE_APPROVALS, approval("bob", "team-a"))
        changed = msgspec.structs.replace(made, spec=approval("alice").spec)
        with pytest.raises(APIStatusError, match="cannot be changed"):
            await bob.update(CERTIFICATE_APPROVALS, changed)


@async_test
async def test_nobody_writes_policies_under_a_name_of_two_lines() -> None:
    """He would be none of its authors, and count among the people whom the policy asks for."""
    async with Cluster() as cluster:
        await own_kinds.ensure(cluster.client())
        evasive, alice = cluster.client("dave\nx", ADMINS), cluster.client("alice", ADMINS)
        with pytest.raises(APIStatusError, match="name has a line feed"):
            await evasive.create(CERTIFICATE_REQUEST_POLICIES, policy("example.com/a"))
        made = await alice.create(CERTIFICATE_REQUEST_POLICIES, policy("example.com/a"))
        changed = msgspec.structs.replace(made, spec=policy("example.com/b").spec)
        with pytest.raises(APIStatusError, match="name has a line feed"):
            await evasive.update(CERTIFICATE_REQUEST_POLICIES, changed)


@async_test
async def test_the_authors_of_a_policy_are_those_who_have_changed_its_spec() -> None:
    async with Cluster() as cluster:
        await own_kinds.ensure(cluster.client())

        def user(name: str) -> Client:
            return cluster.client(name, ADMINS)

        forged = replace_metadata(policy("example.com/a"), annotations={AUTHORS_ANNOTATION: "eve"})
        made = await user("alice").create(CERTIFICATE_REQUEST_POLICIES, forged)
        assert authors_of(made) == {"alice"}
        spec = policy("example.com/b").spec
        made = await user("bob").update(CERTIFICATE_REQUEST_POLICIES, msgspec.structs.replace(made, spec=spec))
        assert authors_of(made) == {"alice", "bob"}
        # Neither who changes something else, nor who would rather not have been one.
        bare = replace_metadata(made, annotations={"a": "b"})
        made = await user("carol").update(CERTIFICATE_REQUEST_POLICIES, bare)
        assert authors_of(made) == {"alice", "bob"}


@async_test
async def test_who_has_made_a_challenge_is_stamped_and_no_answer_comes_with_the_question() -> None:
    async with Cluster() as cluster:
        await own_kinds.ensure(cluster.client())
        spec = AttestationChallengeSpec(provider="tpm", version="v1", key_fingerprint="0" * 64, requester="alice")
        asked = AttestationChallenge(
            metadata=ObjectMeta(generate_name="attest-"), spec=spec, status=AttestationChallengeStatus(nonce=b"0" * 32)
        )
        made = await cluster.client("bob", ADMINS).create(ATTESTATION_CHALLENGES, asked)
        assert (made.spec.requester, made.status.nonce) == ("bob", b"")
        changed = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, key_fingerprint="1" * 64))
        with pytest.raises(APIStatusError, match="cannot be changed"):
            await cluster.client().update(ATTESTATION_CHALLENGES, changed)
