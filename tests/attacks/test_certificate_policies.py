"""Policies that others write, and requests made to pass them: nothing widens what is granted, and nobody is held up."""

from __future__ import annotations

import ipaddress
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from asynctest import async_test
from certificate_requests import HOST, SIGNER, ask, policy, rights
from controller_world import World, world
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_APPROVALS, CERTIFICATE_REQUEST_POLICIES
from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval, CertificateApprovalSpec
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    APPROVE,
    REQUIRE,
    AllowedHosts,
    PeopleBound,
    PolicySelector,
    PolicyValidation,
)
from kubevouch.controllers import csr_approving
from kubevouch.ledger.entries import Entry
from kubevouch.ledger.interface import LedgerUnavailable
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames


async def conditions(at: World, name: str) -> list[str]:
    csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)
    return [each.type for each in csr.status.conditions]


async def outcomes(at: World, *names: str) -> list[list[str]]:
    running = await at.run(csr_approving.NAME)
    await running.settle()
    return [await conditions(at, name) for name in names]


async def made(at: World, name: str, pem: bytes, **more: Any) -> None:
    spec = CertificateSigningRequestSpec(
        request=pem, signer_name=SIGNER, usages=["server auth"], expiration_seconds=3600
    )
    csr = CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=msgspec.structs.replace(spec, **more))
    await at.as_user("alice").create(CERTIFICATE_SIGNING_REQUESTS, csr)


NAMES: list[dict[str, Any]] = [
    {"dns_names": (HOST, "evil.com")},
    {"dns_names": (*(f"h{number}.k8s.example.com" for number in range(999)), "evil.com")},
    {"dns_names": ("*.k8s.example.com",)},
    {"dns_names": (f"{HOST}\0.evil.com",)},
    {"dns_names": (f"{HOST}.",)},
    {"dns_names": ("a.k8s.example.com.evil.com",)},
    {"dns_names": ("evilk8s.example.com",)},
    {"dns_names": (HOST,), "ip_addresses": (ipaddress.ip_address("169.254.169.254"),)},
    {"dns_names": (HOST,), "email_addresses": ("root@example.com",)},
    {"dns_names": (HOST,), "uris": ("spiffe://example.com/admin",)},
]


@pytest.mark.parametrize("names", NAMES)
@async_test
async def test_one_name_of_many_is_enough_against_it(names: dict[str, Any]) -> None:
    async with world() as at:
        await rights(at, "alice")
        await policy(at)
        key = ec.derive_private_key(9, ec.SECP256R1())
        await made(at, "x", build_request(key, Subject(common_name=HOST), SubjectAltNames(**names)))
        ((found,)) = await outcomes(at, "x")
        assert "Approved" not in found


@pytest.mark.parametrize(
    "subject",
    [
        Subject(common_name=HOST, organizations=("system:masters",)),
        Subject(common_name="system:admin"),
        Subject(common_name="\u0430.k8s.example.com"),
        Subject(common_name=HOST, organizational_units=("x",)),
        Subject(common_name=HOST, serial_number="1"),
    ],
)
@async_test
async def test_a_subject_that_the_policy_does_not_know(subject: Subject) -> None:
    async with world() as at:
        await rights(at, "alice")
        await policy(at)
        key = ec.derive_private_key(9, ec.SECP256R1())
        await made(at, "x", build_request(key, subject, SubjectAltNames(dns_names=(HOST,))))
        ((found,)) = await outcomes(at, "x")
        assert "Approved" not in found


@async_test
async def test_usages_that_nobody_thought_of() -> None:
    async with world() as at:
        await rights(at, "alice")
        await policy(at)
        key = ec.derive_private_key(9, ec.SECP256R1())
        pem = build_request(key, Subject(common_name=HOST), SubjectAltNames(dns_names=(HOST,)))
        await made(at, "x", pem, usages=["server auth", "cert sign"])
        assert await outcomes(at, "x") == [["Denied"]]


@pytest.mark.parametrize("spec", [
    {"validations": [PolicyValidation(expression="requester.extra['none'] == []")]},
    {"validations": [PolicyValidation(expression="nothing")]},
    {"validations": [PolicyValidation(expression="x509.dnsNames.all(name, 1 / 0 == name.size())")]},
    {"selector": PolicySelector(signer_names=["exa*"])},
    {"dns_names": AllowedHosts(patterns=["*k8s.example.com"])},
])  # fmt: skip
@async_test
async def test_a_requirement_that_fails_is_not_one_that_is_met(spec: dict[str, Any]) -> None:
    async with world() as at:
        await rights(at, "alice")
        await policy(at)
        await policy(at, "strict", **{"effect": REQUIRE, "usages": [], **spec})
        await ask(at, "x")
        assert await outcomes(at, "x") == [[]]


@async_test
async def test_a_requirement_is_not_switched_off_by_breaking_or_editing_it_while_a_request_comes() -> None:
    async with world() as at:
        await rights(at, "alice")
        await policy(at)
        strict = await policy(
            at, "strict", effect=REQUIRE, usages=[], validations=[PolicyValidation(expression="false")]
        )
        running = await at.run(csr_approving.NAME)
        for number in range(5):
            broken = msgspec.structs.replace(
                strict.spec, validations=[PolicyValidation(expression=f"false || nothing{number}")]
            )
            strict = await at.client.update(CERTIFICATE_REQUEST_POLICIES, msgspec.structs.replace(strict, spec=broken))
            await ask(at, f"x-{number}", key=20 + number)
        await running.settle()
        assert [await conditions(at, f"x-{number}") for number in range(5)].count(["Approved"]) == 0


@async_test
async def test_a_thousand_names_and_many_patterns_hold_up_nobody() -> None:
    """What is held against patterns is compared beside the loop: the stall watcher of the tests fails a long step."""
    async with world() as at:
        await rights(at, "alice")
        patterns = [f"*.zone{number}.example.com" for number in range(255)]
        for name in ("p1", "p2", "p3"):
            await policy(at, name, dns_names=AllowedHosts(patterns=[*patterns, "*.k8s.example.com"]))
        await ask(at, "x", names=tuple(f"h{number}.k8s.example.com" for number in range(1000)))
        assert await outcomes(at, "x") == [[]]


@async_test
async def test_many_at_once_are_given_one_key_only_once() -> None:
    async with world() as at:
        await rights(at, "alice", "bob")
        await policy(at, fresh_key=True)
        for number in range(8):
            await ask(at, f"x-{number}", names=(f"h{number}.k8s.example.com",), user="alice" if number % 2 else "bob")
        found = await outcomes(at, *(f"x-{number}" for number in range(8)))
        assert found.count(["Approved"]) == 1


class Broken:
    """A ledger that cannot be read."""

    async def find(self, *_: object) -> list[Any]:
        raise LedgerUnavailable("the disk is away")

    async def append(self, *entries: Entry) -> int:
        return len(entries)


@async_test
async def test_a_ledger_that_cannot_be_read_lets_no_used_key_through() -> None:
    async with world() as at:
        broken: Any = Broken()
        at.ledger = broken
        await rights(at, "alice")
        await policy(at, fresh_key=True)
        await ask(at, "x")
        assert await outcomes(at, "x") == [[]]


@async_test
async def test_a_policy_author_and_a_requester_do_not_count_among_the_people() -> None:
    async with world() as at:
        await rights(at, "alice")
        await policy(at, people=PeopleBound(approvals=2))
        csr = await ask(at, "x")
        running = await at.run(csr_approving.NAME)

        async def says(user: str, decision: str = "Approve") -> None:
            spec = CertificateApprovalSpec(
                request_name="x", request_uid=csr.metadata.uid, approver=user, groups=[], decision=decision
            )
            approval = CertificateApproval(metadata=ObjectMeta(name=f"{user}-{decision}".lower()), spec=spec)
            await at.as_user(user, "system:masters").create(CERTIFICATE_APPROVALS, approval)
            await running.settle()

        await says("alice")
        await says("carol")
        assert await conditions(at, "x") == []
        # Nobody speaks for another.
        other = CertificateApprovalSpec(
            request_name="x", request_uid=csr.metadata.uid, approver="dave", groups=[], decision="Approve"
        )
        forged = CertificateApproval(metadata=ObjectMeta(name="forged"), spec=other)
        with pytest.raises(APIStatusError):
            await at.as_user("carol", "system:masters").create(CERTIFICATE_APPROVALS, forged)
        await says("dave")
        assert await conditions(at, "x") == ["Approved"]


@async_test
async def test_an_approving_policy_does_not_give_a_machines_name_away() -> None:
    """Names, tokens and recovery hold whoever approves."""
    async with world() as at:
        kubelets = "kubernetes.io/kube-apiserver-client-kubelet"
        await policy(
            at, effect=APPROVE, selector=PolicySelector(signer_names=[kubelets]), subject=None, dns_names=None,
            expiration_seconds=None, usages=["digital signature", "client auth"],
            validations=[PolicyValidation(expression="true")],
        )  # fmt: skip
        running = await at.run(csr_approving.NAME)
        for number, token in enumerate(("abcdef", "ghijkl")):
            request = build_request(
                ec.derive_private_key(50 + number, ec.SECP256R1()),
                Subject(common_name="system:node:n1", organizations=("system:nodes",)),
            )
            spec = CertificateSigningRequestSpec(
                request=request, signer_name=kubelets, usages=["digital signature", "client auth"]
            )
            groups = ("system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token")
            machine = at.as_user(f"system:bootstrap:{token}", *groups)
            csr = CertificateSigningRequest(metadata=ObjectMeta(name=f"n-{number}"), spec=spec)
            await machine.create(CERTIFICATE_SIGNING_REQUESTS, csr)
            await running.settle()
        assert [await conditions(at, f"n-{number}") for number in range(2)] == [["Approved"], []]
