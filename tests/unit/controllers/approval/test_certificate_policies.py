"""controllers/approval/certificate_policies.py over a server: who is approved, what waits, and what wakes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from asynctest import async_test
from certificate_requests import HOST, SIGNER, ask, policy, rights
from controller_world import World, world
from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, EVENTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REQUEST_POLICIES
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    REQUIRE,
    AllowedHosts,
    AllowedSubject,
    AllowedTexts,
    PolicySelector,
    PolicyValidation,
    RateBound,
)
from kubevouch.controllers import certificate_policy_status, csr_approving
from kubevouch.controllers.interface import IgnorableError
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.policy.facts import facts_of
from kubevouch.policy.verdict import Outcome
from kubevouch.reviews.csr_explanation import Listed, gathered


async def run(at: World, *more: str) -> Any:
    return await at.run(csr_approving.NAME, *more)


async def conditions(at: World, name: str) -> list[tuple[str, str]]:
    csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)
    return [(each.type, each.reason) for each in csr.status.conditions]


YES, NO = [("Approved", "ApprovedByPolicy")], [("Denied", "DeniedByPolicy")]


@async_test
async def test_the_example_of_the_first_design() -> None:
    async with world() as at:
        await rights(at, "alice", "eve")
        await policy(at, fresh_key=True)
        running = await run(at)
        await ask(at, "good")
        await running.settle()
        await ask(at, "same-key", names=(HOST, "b.k8s.example.com"))
        await ask(at, "long", key=8, seconds=2592001)
        await ask(at, "evil", key=9, names=(HOST, "evil.com"))
        await ask(at, "no-right", key=10, user="eve")
        await running.settle()
        found = {name: await conditions(at, name) for name in ("good", "same-key", "long", "evil", "no-right")}
        # Whoever was approved for the key may still fail to get a certificate.
        assert found == {"good": YES, "same-key": [], "long": NO, "evil": NO, "no-right": []}


@pytest.mark.parametrize(("user", "then"), [("alice", NO), ("mallory", [])])
@async_test
async def test_a_key_that_had_a_certificate_is_denied_unless_another_had_it(
    user: str, then: list[tuple[str, str]]
) -> None:
    """Whoever reads a request can have it signed for himself, which must not burn the key of its owner."""
    async with world() as at:
        await rights(at, "alice", "mallory")
        await policy(at, fresh_key=True)
        running = await run(at)
        await ask(at, "first", user=user)
        await running.settle()
        csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "first")
        issued = msgspec.structs.replace(csr.status, certificate=at.server.pki.ca_certificate)
        await at.client.update(
            CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(csr, status=issued), subresource="status"
        )
        await ask(at, "again", names=("b.k8s.example.com",), common_name="")
        await running.settle()
        assert await conditions(at, "again") == then


@async_test
async def test_nothing_is_decided_by_a_policy_that_comes_later_than_the_approver() -> None:
    """A requirement that is read with the first request is kept, and a policy that comes wakes what waits."""
    async with world() as at:
        await rights(at, "alice")
        running = await run(at)
        await ask(at, "early")
        await running.settle()
        assert await conditions(at, "early") == []
        await policy(at)
        await running.settle()
        assert await conditions(at, "early") == YES


@async_test
async def test_a_broken_requirement_holds_back_what_others_approve_and_a_repair_lets_it_go() -> None:
    async with world() as at:
        await rights(at, "alice")
        await policy(at)
        broken = await policy(
            at, "strict", effect=REQUIRE, usages=[], validations=[PolicyValidation(expression="nothing == 1")]
        )
        running = await run(at, certificate_policy_status.NAME)
        await ask(at, "held")
        await running.settle()
        assert await conditions(at, "held") == []
        stored = await at.client.get(CERTIFICATE_REQUEST_POLICIES, "strict")
        (ready,) = stored.status.conditions
        assert (ready.type, ready.status, ready.reason) == ("Ready", "False", "Invalid")
        assert ready.message.startswith("spec.validations[0].expression: compilation failed")
        assert broken.metadata.generation == stored.status.observed_generation
        repaired = msgspec.structs.replace(
            stored.spec, validations=[PolicyValidation(expression="x509.keyBits == 256")]
        )
        await at.client.update(CERTIFICATE_REQUEST_POLICIES, msgspec.structs.replace(stored, spec=repaired))
        await running.settle()
        assert await conditions(at, "held") == YES
        stored = await at.client.get(CERTIFICATE_REQUEST_POLICIES, "strict")
        assert [each.status for each in stored.status.conditions] == ["True"]


@async_test
async def test_a_requirement_is_above_kubernetes_own_approval() -> None:
    async with world() as at:
        selector = PolicySelector(signer_names=[wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER])
        small = [PolicyValidation(expression="x509.keyBits >= 384", message="a curve of 384 bits", reason="WeakKey")]
        await policy(
            at, effect=REQUIRE, selector=selector, subject=None, dns_names=None, usages=[], expiration_seconds=None,
            validations=small,
        )  # fmt: skip
        running = await run(at)
        spec = CertificateSigningRequestSpec(
            request=build_request(
                ec.derive_private_key(7, ec.SECP256R1()),
                Subject(common_name="system:node:n1", organizations=("system:nodes",)),
            ),
            signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
            usages=["digital signature", "client auth"],
        )
        machine = at.as_user("system:bootstrap:abcdef", "system:bootstrappers", wellknown.DEFAULT_NODE_TOKEN_GROUP)
        made = CertificateSigningRequest(metadata=ObjectMeta(name="n1"), spec=spec)
        await machine.create(CERTIFICATE_SIGNING_REQUESTS, made)
        await running.settle()
        assert await conditions(at, "n1") == [("Denied", "WeakKey")]


@async_test
async def test_of_many_at_once_only_so_many_are_approved() -> None:
    async with world() as at:
        await rights(at, "alice", "bob")
        await policy(at, rate=RateBound(requests=3, period_seconds=60))
        for number in range(10):
            await ask(at, f"csr-{number}", key=20 + number)
        await ask(at, "bobs", user="bob", key=50)
        running = await run(at)

        async def approved() -> int:
            return [await conditions(at, f"csr-{number}") for number in range(10)].count(YES)

        assert await approved() == 3
        assert await conditions(at, "bobs") == YES
        # What waits comes again by itself.
        await at.clock.run(110)
        await running.settle()
        assert await approved() == 6


@async_test
async def test_a_wildcard_over_names_of_others_waits() -> None:
    async with world() as at:
        await rights(at, "alice", "bob")
        await policy(at, unique_names=True, dns_names=AllowedHosts(patterns=["*.k8s.example.com"], wildcards=True))
        running = await run(at)
        await ask(at, "alices", names=("x.k8s.example.com",))
        await running.settle()
        await ask(at, "bobs", user="bob", key=8, names=("*.k8s.example.com",), common_name="")
        await running.settle()
        assert await conditions(at, "alices") == YES
        assert await conditions(at, "bobs") == []


@pytest.mark.parametrize("names", [("x.k8s.example.com",), ("X.K8S.example.com",)])
@async_test
async def test_a_name_that_another_is_about_to_have(names: Sequence[str]) -> None:
    async with world() as at:
        await rights(at, "alice", "bob")
        await policy(at, unique_names=True)
        running = await run(at)
        await ask(at, "alices", names=("x.k8s.example.com",))
        await running.settle()
        await ask(at, "bobs", user="bob", key=8, names=tuple(names), common_name="")
        await ask(at, "alices-2", key=9, names=tuple(names))
        await running.settle()
        assert await conditions(at, "bobs") == []
        assert await conditions(at, "alices-2") == YES


@async_test
async def test_events_tell_what_was_decided_and_what_is_missing() -> None:
    async with world() as at:
        await rights(at, "alice", "eve")
        await policy(at)
        running = await run(at)
        await ask(at, "good")
        await ask(at, "evil", key=8, names=("evil.com",))
        await ask(at, "no-right", key=9, user="eve")
        await running.settle()
        events = (await at.client.list(EVENTS, "default")).items
        told = {each.involved_object.name: (each.type, each.reason, each.message) for each in events}
        assert told["good"] == ("Normal", "CertificateRequestApproved", "policy hosts: all rules are met")
        assert told["evil"][:2] == ("Warning", "CertificateRequestDenied")
        assert told["no-right"][:2] == ("Warning", "CertificateRequestWaits")
        assert "the right to use certificaterequestpolicies/hosts" in told["no-right"][2]


@async_test
async def test_metrics() -> None:
    async with world() as at:
        await rights(at, "alice", "eve")
        await policy(at)
        running = await run(at)
        await ask(at, "good")
        await ask(at, "no-right", key=9, user="eve")
        await running.settle()
        await policy(at, "failing", validations=[PolicyValidation(expression="requester.extra['none'] == []")])
        await ask(at, "waits", key=10)
        await running.settle()
        value = at.server.api.metrics.registry.get_sample_value
        assert value("kubevouch_csr_decisions_total", {"approver": "policy/hosts", "outcome": "approve"}) == 1
        assert value("kubevouch_csr_pending", {"signer": SIGNER, "reason": "PolicyError"}) == 2
        assert value("kubevouch_csr_decision_seconds_count", {"signer": SIGNER}) == 1
        assert (value("kubevouch_policy_errors_total", {"policy": "failing"}) or 0) >= 2
        await at.client.delete(CERTIFICATE_SIGNING_REQUESTS, "no-right")
        await running.settle()
        assert value("kubevouch_csr_pending", {"signer": SIGNER, "reason": "PolicyError"}) == 1


SLOW = "x509.dnsNames.all(a, x509.dnsNames.all(b, x509.dnsNames.all(c, (a + b + c).size() > 0)))"


@async_test
async def test_a_slow_policy_holds_up_nobody() -> None:
    async with world() as at:
        await rights(at, "alice")
        await policy(at, "aslow", effect="Approve", validations=[PolicyValidation(expression=SLOW)])
        await policy(at)
        running = await run(at)
        names = tuple(f"h{number}.k8s.example.com" for number in range(200))
        await ask(at, "many", names=names)
        await running.settle()
        assert await conditions(at, "many") == YES


@pytest.mark.parametrize(
    ("spec", "first", "second"),
    [
        ({"fresh_key": True}, {"key": 7}, {"key": 7}),
        ({"rate": RateBound(requests=1, period_seconds=60)}, {"key": 7}, {"key": 8}),
        ({"unique_names": True}, {"key": 7}, {"key": 8, "user": "bob", "names": ("A.k8s.example.com",)}),
        (
            {
                "certificates_per_node": 1,
                "subject": AllowedSubject(common_name=AllowedTexts(patterns=["system:node:*"])),
            },
            {"key": 7, "common_name": "system:node:n1"},
            {"key": 8, "common_name": "system:node:n1", "user": "bob"},
        ),
    ],
)
@async_test
async def test_of_two_that_are_judged_at_once_one_is_let_through(
    spec: dict[str, Any], first: dict[str, Any], second: dict[str, Any]
) -> None:
    """The second was judged before the first was granted, and has to know of it."""
    async with world() as at:
        await rights(at, "alice", "bob")
        made = await policy(at, **spec)
        approver = await gathered(at.client, Listed([made]), MemoryLedger(), at.clock)
        one, other = await ask(at, "one", **first), await ask(at, "other", **second)
        requests = [x509_request.parse_pem(each.spec.request or b"") for each in (one, other)]
        for csr, request in zip((one, other), requests, strict=True):
            (verdict,) = await approver.judge(csr, facts_of(csr, request), request)
            assert verdict.outcome is Outcome.APPROVE
        await approver.admit(one, requests[0])
        with pytest.raises(IgnorableError):
            await approver.admit(other, requests[1])
        # Its own grant does not stand in its way, and what nothing was judged of is granted.
        await approver.admit(one, requests[0])
