"""phases/policy_apply.py: the record of who writes a policy, as a client has to send it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from asynctest import async_test
from controller_world import world
from kubevouch.admission.writer_rights import WriterRights
from kubevouch.api.authentication_v1 import UserInfo
from kubevouch.api.catalog import MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REQUEST_POLICIES
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    CertificateRequestPolicy,
    CertificateRequestPolicySpec,
    PolicySelector,
)
from kubevouch.api.kubevouch_v1alpha1.guard_versions import GuardVersion, guards_for
from kubevouch.api.kubevouch_v1alpha1.guards import AUTHORS_ANNOTATION, authors_of
from kubevouch.api.kubevouch_v1alpha1.writer_guards import WRITER_ANNOTATION, Writer, writer_of
from kubevouch.client import stored
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases import policy_apply
from kubevouch.phases.policy_apply import recorded

ALICE = UserInfo(username="alice", groups=["team-a", "system:authenticated"])
BOB = UserInfo(username="bob")


def policy(signer: str = "example.com/a", **annotations: str) -> CertificateRequestPolicy:
    spec = CertificateRequestPolicySpec(selector=PolicySelector(signer_names=[signer]))
    return CertificateRequestPolicy(metadata=ObjectMeta(name="p", annotations=annotations), spec=spec)


def test_who_makes_one_is_its_writer_and_its_author() -> None:
    made = recorded(policy(note="n"), None, ALICE)
    assert writer_of(made) == Writer("alice", ("team-a", "system:authenticated"))
    assert (authors_of(made), made.metadata.annotations["note"]) == (frozenset({"alice"}), "n")


def test_who_changes_one_is_another_author_and_the_writer() -> None:
    made = recorded(policy(note="n"), None, ALICE)
    changed = recorded(policy("example.com/b"), made, BOB)
    assert writer_of(changed) == Writer("bob")
    assert changed.metadata.annotations[AUTHORS_ANNOTATION] == "alice\nbob"
    assert changed.metadata.annotations["note"] == "n"
    again = recorded(policy("example.com/c"), changed, ALICE)
    assert again.metadata.annotations[AUTHORS_ANNOTATION] == "alice\nbob"


def test_who_applies_one_as_it_is_takes_it_over_and_is_no_author() -> None:
    made = recorded(policy(), None, ALICE)
    taken = recorded(policy(), made, BOB)
    assert (writer_of(taken), authors_of(taken)) == (Writer("bob"), frozenset({"alice"}))


def test_what_the_file_says_of_the_writer_does_not_count() -> None:
    forged = policy(**{WRITER_ANNOTATION: "root\nsystem:masters", AUTHORS_ANNOTATION: "root"})
    for found in (None, recorded(policy(), None, ALICE)):
        assert writer_of(recorded(forged, found, BOB)) == Writer("bob")
        assert "root" not in authors_of(recorded(forged, found, BOB))


@async_test
async def test_a_server_that_fills_in_nothing_takes_it_and_refuses_other_records() -> None:
    async with world(disabled_admission=(WriterRights.name,)) as at:
        for resource, obj in guards_for(GuardVersion.MUTATING):
            if resource in (MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS):
                await at.client.delete(resource, obj.metadata.name)
        for resource, obj in guards_for(GuardVersion.VALIDATING):
            if await stored.find(at.client, resource, obj.metadata.name) is None:
                await at.client.create(resource, obj)
        alice, bob = (at.as_user(name, "system:masters") for name in ("alice", "bob"))
        with pytest.raises(APIStatusError, match="use kubevouch policy apply; or set the annotation"):
            await alice.create(CERTIFICATE_REQUEST_POLICIES, policy())
        assert await policy_apply.apply(alice, policy()) == "alice"
        await policy_apply.apply(bob, policy("example.com/b"))
        found = await at.client.get(CERTIFICATE_REQUEST_POLICIES, "p")
        assert authors_of(found) == {"alice", "bob"}
        forged = replace(found, spec=policy("example.com/c").spec)
        with pytest.raises(APIStatusError, match=r"the annotation kubevouch\.io/writer to .*: alice"):
            await alice.update(CERTIFICATE_REQUEST_POLICIES, forged)
