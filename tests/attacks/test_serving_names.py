"""A kubelet that lies about its addresses gets no serving certificate for anybody else's (ADR 22).

The node reports what it asks for, as it may, and asks as itself. Whoever got one of these could be the API server for
every pod, or another node for ``kubectl exec``.
"""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asynctest import async_test
from controller_world import World, world
from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.controllers.csr_approving import NAME as APPROVING
from kubevouch.controllers.csr_signing import NAME as SIGNING
from kubevouch.pki.x509 import x509_request
from kubevouch.policy.facts import facts_of
from kubevouch.policy.kubelet_serving import Known, Rival, ServingRules, Source, decide
from kubevouch.policy.verdict import Outcome
from serving_requests import ADDRESSES, asks, node_with, post, report

RULES = ServingRules(
    api_server=frozenset({"api.example.com", "192.0.2.10", "2001:db8::10"}),
    service_ranges=(ipaddress.ip_network("10.96.0.0/12"),),
    source_is_told=True,
)
VICTIM = (("Hostname", "victim"), ("InternalIP", "10.0.0.2"), ("ExternalDNS", "victim.example.com"))

NAMES = (
    "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
    "KUBERNETES.DEFAULT.SVC", "api.example.com", "API.Example.COM", "victim", "VICTIM", "victim.example.com",
    "victim.elsewhere.example", "cp", "cp.example.com", "localhost", "webhook.team.svc", "*", "*.example.com",
    "n1.example.com.", "victim.", "n1\x00.example.com", "xn--kubernetes-", "10.0.0.2", "127.0.0.1", "0x7f.1", "later",
)  # fmt: skip
ADDRESSES_OF_OTHERS = (
    "192.0.2.10", "2001:db8::10", "10.0.0.2", "10.0.0.3", "10.96.0.1", "10.96.0.10", "127.0.0.1", "::1",
    "169.254.169.254", "fe80::1", "0.0.0.0", "224.0.0.1", "::ffff:192.0.2.10", "::ffff:127.0.0.1", "64:ff9b::c000:20a",
    "64:ff9b::7f00:1",
)  # fmt: skip


async def cluster(at: World) -> None:
    """Another node, with its certificate, and a control plane."""
    await at.run(APPROVING, SIGNING, serving=RULES)
    await report(at, node_with("victim", VICTIM))
    await post(at, asks("of-victim", "victim", ("victim", "victim.example.com"), ("10.0.0.2",)))
    await report(at, node_with("cp", [("InternalIP", "10.0.0.3")], **{wellknown.CONTROL_PLANE_LABEL: ""}))
    await at.settle()
    assert (await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "of-victim")).status.certificate


@async_test
async def test_no_claim_is_approved() -> None:
    async with world() as at:
        await cluster(at)
        claims = [((name,), ()) for name in NAMES] + [((), (address,)) for address in ADDRESSES_OF_OTHERS]
        names = [("ExternalDNS", name) for name in NAMES] + [("InternalIP", address) for address in ADDRESSES_OF_OTHERS]
        await report(at, node_with(addresses=(*ADDRESSES, *names)))
        for number, (dns, ips) in enumerate(claims):
            await post(at, asks(f"claim-{number}", dns=("n1", *dns), ips=("10.0.0.9", *ips)))
            await at.settle()
            csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, f"claim-{number}")
            approved = [each for each in csr.status.conditions if each.type == "Approved"]
            assert not approved and not csr.status.certificate, (dns, ips)
            # A node may have few that nobody has decided.
            await at.client.delete(CERTIFICATE_SIGNING_REQUESTS, f"claim-{number}")
        # What it has is its own for the asking, and so is what the victim has.
        await post(at, asks("own"))
        await at.settle()
        assert (await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "own")).status.certificate
        await post(at, asks("again", "victim", ("victim", "victim.example.com"), ("10.0.0.2",)))
        await at.settle()
        assert (await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "again")).status.certificate


def judged(dns: tuple[str, ...], ips: tuple[str, ...], reported: tuple[tuple[str, str], ...]) -> Outcome:
    csr = asks("a", dns=dns, ips=ips)
    facts = facts_of(csr, x509_request.parse_pem(csr.spec.request or b""))
    return decide(facts, Known(reported=(*ADDRESSES, *reported)), RULES).outcome


@given(st.integers(0, 30), st.integers(0, 30), st.sampled_from((*NAMES[:6], "later")))
def test_one_among_many_names_is_enough(right: int, place: int, wrong: str) -> None:
    own = tuple(f"n1.d{number}.example.com" for number in range(right))
    place = min(place, right)
    reported = tuple(("InternalDNS", name) for name in (*own, wrong))
    asked = (*own[:place], wrong, *own[place:])
    assert judged(asked, ("10.0.0.9",), reported) is not Outcome.APPROVE
    assert judged(("n1", *own), ("10.0.0.9",), reported) is Outcome.APPROVE


@given(st.integers(0, 15), st.integers(0, 15), st.sampled_from(("192.0.2.10", "127.0.0.1", "10.96.0.1")))
def test_one_among_many_addresses_is_enough(right: int, place: int, wrong: str) -> None:
    own = tuple(f"10.1.0.{number}" for number in range(right))
    place = min(place, right)
    reported = tuple(("InternalIP", address) for address in (*own, wrong))
    asked = (*own[:place], wrong, *own[place:])
    assert judged(("n1",), asked, reported) is not Outcome.APPROVE
    assert judged(("n1",), ("10.0.0.9", *own), reported) is Outcome.APPROVE


def test_a_thousand_names_wait_for_a_person() -> None:
    many = tuple(f"n1.d{number}.example.com" for number in range(1000))
    reported = tuple(("InternalDNS", name) for name in many)
    assert judged(many, ("10.0.0.9",), reported) is Outcome.NO_OPINION


@pytest.mark.parametrize("subject", ["victim", "cp", "n11", "N1", "n1."])
def test_no_node_asks_for_another(subject: str) -> None:
    csr = asks("a", subject=subject)
    facts = facts_of(csr, x509_request.parse_pem(csr.spec.request or b""))
    assert decide(facts, Known(reported=ADDRESSES), RULES).outcome is not Outcome.APPROVE


def test_a_victim_cannot_be_kept_out_by_a_claim() -> None:
    """Both report one address, and the one whose it is has come from there: it is not kept from its certificate."""
    csr = asks("a")
    facts = facts_of(csr, x509_request.parse_pem(csr.spec.request or b""))
    contested = Known(reported=ADDRESSES, rivals={"10.0.0.9": Rival("squatter", Source.NODE)}, source="10.0.0.9")
    assert decide(facts, contested, RULES).outcome is Outcome.APPROVE
