"""What the cluster tells of a join: Events, and an annotation while nobody decides."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from asynctest import async_test
from attested_world import NULL, attested_world
from controller_world import NOW, World, world
from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, EVENTS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.api.core_v1 import Event
from kubevouch.controllers import join_status
from kubevouch.controllers.approval.csr_outlook import Outlook
from kubevouch.controllers.csr_cleaner import why_clean
from kubevouch.controllers.event_recorder import BURST
from kubevouch.controllers.join_status import is_join, patience_left, with_stuck
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.machinery.text.times import Time
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject

SIGNER = wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER
USER = "system:bootstrap:abcdef"
PERMITTED = ("system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token")
STRANGER = ("system:bootstrappers", "system:bootstrappers:other")
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
PATIENCE = join_status.PATIENCE.total_seconds()


def request(name: str, node: str = "n1", user: str = "") -> CertificateSigningRequest:
    subject = Subject(common_name=f"system:node:{node}", organizations=("system:nodes",))
    spec = CertificateSigningRequestSpec(
        request=build_request(KEY, subject),
        signer_name=SIGNER,
        usages=["digital signature", "client auth"],
        username=user,
    )
    return CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)


async def ask(at: World, name: str, *groups: str, node: str = "n1") -> None:
    await at.as_user(USER, *groups).create(CERTIFICATE_SIGNING_REQUESTS, request(name, node))


async def stuck(at: World, name: str) -> tuple[str, str]:
    csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)
    # Kubernetes' cleaner would keep it for ever.
    assert all(each.type in ("Approved", "Denied", "Failed") for each in csr.status.conditions)
    reason, _, message = csr.metadata.annotations.get(wellknown.JOIN_STUCK_ANNOTATION, "").partition(": ")
    return reason, message


async def events(at: World) -> list[Event]:
    found = (await at.client.list(EVENTS, "default")).items
    return sorted(found, key=lambda event: event.metadata.name)


async def put_undecided(at: World, name: str, node: str = "n1", age: dt.timedelta = dt.timedelta()) -> None:
    """From somebody who may not have it approved."""
    csr = replace_metadata(
        request(name, node, user=USER), uid=f"uid-{name}", creation_timestamp=Time.of(at.clock.now() - age)
    )
    spec = msgspec.structs.replace(csr.spec, groups=list(STRANGER))
    await at.put(CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(csr, spec=spec))


@async_test
async def test_a_join_that_goes_well_is_one_event_and_no_condition() -> None:
    async with world() as at:
        running = await at.run("*")
        await ask(at, "csr-1", *PERMITTED)
        await running.settle()
        await at.clock.run(600.0)
        await running.settle()
        (event,) = await events(at)
        assert (event.type, event.reason, event.count) == ("Normal", "JoinApproved", 1)
        assert event.message == (
            "n1, with the token abcdef: AutoApproved: Auto approving kubelet client certificate after "
            "SubjectAccessReview."
        )
        assert (event.involved_object.kind, event.involved_object.name) == ("CertificateSigningRequest", "csr-1")
        assert event.related is not None and (event.related.kind, event.related.name) == ("Node", "n1")
        csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "csr-1")
        assert [each.type for each in csr.status.conditions] == ["Approved"]


@async_test
async def test_nobody_decides_and_why() -> None:
    async with world() as at:
        running = await at.run("*")
        await put_undecided(at, "csr-1")
        await running.settle()
        assert await stuck(at, "csr-1") == ("", "")
        await at.clock.run(PATIENCE + 0.1)
        await running.settle()
        reason, message = await stuck(at, "csr-1")
        assert reason == "NotPermitted"
        assert message.startswith("request created, and nobody has decided: recognized as nodeclient, but")
        (event,) = await events(at)
        assert (event.type, event.reason, event.count) == ("Warning", "JoinNotApproved", 1)
        # Looking again says nothing twice.
        await at.clock.run(2 * join_status.REFRESH_SECONDS)
        await running.settle()
        assert (await events(at))[0].count == 1
        # A person decides: the condition has had its time.
        csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "csr-1")
        denied = CertificateSigningRequestCondition(type="Denied", status="True", reason="No", message="not ours")
        status = msgspec.structs.replace(csr.status, conditions=[*csr.status.conditions, denied])
        await at.client.update(
            CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(csr, status=status), subresource="approval"
        )
        await running.settle()
        assert await stuck(at, "csr-1") == ("", "")
        told = {event.reason: event.message for event in await events(at)}
        assert told["JoinDenied"] == "n1, with the token abcdef: No: not ours"


@async_test
async def test_an_approver_that_does_not_run_is_named() -> None:
    async with world() as at:
        running = await at.run("joinstatus")
        await ask(at, "csr-1", *PERMITTED)
        await running.settle()
        await at.clock.run(PATIENCE + 0.1)
        await running.settle()
        reason, message = await stuck(at, "csr-1")
        assert reason == "NotLookedAt"
        assert "the approving controller approves it as nodeclient; is it running?" in message
        # What is stuck is approved all the same, and then no longer is.
        more = await at.run("csrapproving", "csrsigning")
        for each in (more, running):
            await each.settle()
        csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "csr-1")
        assert csr.status.certificate and [each.type for each in csr.status.conditions] == ["Approved"]


@async_test
async def test_a_signer_that_does_not_run_is_named() -> None:
    async with world() as at:
        running = await at.run("joinstatus", "csrapproving")
        await ask(at, "csr-1", *PERMITTED)
        await running.settle()
        assert await stuck(at, "csr-1") == ("", "")
        await at.clock.run(PATIENCE + 0.1)
        await running.settle()
        assert (await stuck(at, "csr-1"))[0] == "NotSigned"
        assert [event.reason for event in await events(at)] == ["JoinNotSigned"]
        signer = await at.run("csrsigning")
        for each in (signer, running):
            await each.settle()
        assert await stuck(at, "csr-1") == ("", "")
        assert sorted(event.reason for event in await events(at)) == ["JoinApproved", "JoinNotSigned"]


@async_test
async def test_many_machines_make_no_flood() -> None:
    async with world() as at:
        running = await at.run("joinstatus")
        for number in range(3 * BURST):
            await put_undecided(at, f"csr-{number:02}", f"n{number}")
        await running.settle()
        await at.clock.run(PATIENCE + 0.1)
        await running.settle()
        assert len(await events(at)) == BURST
        # Each is told in its turn, for it stays stuck.
        await at.clock.run(3.0 * BURST)
        await running.settle()
        assert len(await events(at)) == 3 * BURST


@async_test
async def test_a_restart_tells_nothing_twice() -> None:
    async with world() as at:
        first = await at.run("*")
        await ask(at, "csr-1", *PERMITTED)
        await first.settle()
        await first.close()
        second = await at.run("*")
        assert [(event.reason, event.metadata.name) for event in await events(at)] == [
            ("JoinApproved", (await events(at))[0].metadata.name)
        ]
        await at.clock.run(120.0)
        await second.close()
        await at.run("*")
        assert (await events(at))[0].count <= 2


@async_test
async def test_a_stuck_request_is_cleaned_as_any_other() -> None:
    async with world() as at:
        running = await at.run("joinstatus", "csrcleaner")
        await put_undecided(at, "csr-1")
        await running.settle()
        await at.clock.run(PATIENCE + 0.1)
        await running.settle()
        assert (await stuck(at, "csr-1"))[0] == "NotPermitted"
        csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "csr-1")
        assert csr.status.conditions == [] and why_clean(csr, at.clock.now() + dt.timedelta(hours=25))


@pytest.mark.parametrize(("user", "joins"), [(USER, True), ("jane", True), ("system:node:n1", False)])
def test_a_renewal_is_no_join(user: str, joins: bool) -> None:
    assert is_join(request("csr-1", user=user)) is joins


def test_the_annotation_comes_changes_and_goes_and_leaves_others_alone() -> None:
    csr = replace_metadata(request("csr-1"), annotations={"example.com/seen": "yes"})
    assert with_stuck(csr, None) is csr
    first = with_stuck(csr, Outlook("A", "x"))
    assert with_stuck(first, Outlook("A", "x")) is first
    second = with_stuck(first, Outlook("B", "x"))
    assert second.metadata.annotations == {"example.com/seen": "yes", "kubevouch.io/join-stuck": "B: x"}
    assert with_stuck(second, None).metadata.annotations == csr.metadata.annotations


def _condition(kind: str, at: dt.datetime) -> CertificateSigningRequestCondition:
    return CertificateSigningRequestCondition(type=kind, status="True", last_update_time=Time.of(at))


def test_how_long_a_request_is_given() -> None:
    asked = replace_metadata(request("csr-1"), creation_timestamp=Time.of(NOW))
    assert [patience_left(asked, NOW + dt.timedelta(seconds=passed)) for passed in (0, 2, 5, 9)] == [5.0, 3.0, 0.0, 0.0]
    # From the approval on the signer has as long; whoever is done waits for nobody.
    later = NOW + dt.timedelta(seconds=9)
    for kind, certificate, left in (
        ("Approved", b"", 5.0),
        ("Approved", b"PEM", 0.0),
        ("Denied", b"", 0.0),
        ("Failed", b"", 0.0),
    ):
        status = CertificateSigningRequestStatus(conditions=[_condition(kind, later)], certificate=certificate)
        assert patience_left(msgspec.structs.replace(asked, status=status), later) == left


@async_test
async def test_a_machine_without_a_proof_hears_what_is_missing() -> None:
    async with attested_world(NULL, join_status.NAME) as at:
        await ask(at, "csr-1", *PERMITTED)
        await at.settle()
        await at.clock.run(PATIENCE + 0.1)
        await at.settle()
        reason, message = await stuck(at, "csr-1")
        assert reason == "ProofMissing"
        assert f"a bootstrap token is none: {wellknown.ATTESTED_CLIENT_SIGNER_PREFIX}null" in message
