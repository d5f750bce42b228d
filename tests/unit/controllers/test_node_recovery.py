"""Recovery keys are registered, and used, through CertificateSigningRequests."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from asynctest import async_test
from controller_world import World, world
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.client.interface import Client
from kubevouch.controllers.approval.csr_outlook import outlook
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.records import node_recovery
from kubevouch.records.node_recovery import Record, RecoveryPolicy, Use

POLICY = RecoveryPolicy(uses=1, window=dt.timedelta(days=10))
K1, K2, K3, K4 = (digit * 64 for digit in "1234")
NODE = build_request(
    keys.generate(keys.KeyAlgorithm.ECDSA_P256), Subject(common_name="system:node:a", organizations=("system:nodes",))
)
REQUEST = node_recovery.digest(x509_request.parse_pem(NODE).public_key)
RUNNING = ("csrapproving", "csrsigning", "noderecovery")


def csr(name: str, *listed: str, request: bytes = NODE) -> CertificateSigningRequest:
    annotations = {node_recovery.KEYS_ANNOTATION: ",".join(listed)} if listed else {}
    spec = CertificateSigningRequestSpec(
        request=request,
        signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=["digital signature", "client auth"],
    )
    return CertificateSigningRequest(metadata=ObjectMeta(name=name, annotations=annotations), spec=spec)


def joining(at: World) -> Client:
    return at.as_user("system:bootstrap:abcdef", "system:bootstrappers:kubeadm:default-node-token")


def node(at: World) -> Client:
    return at.as_user("system:node:a", "system:nodes")


def recovering(at: World, key: str, next_key: str, request: str = REQUEST) -> Client:
    extra = node_recovery.user_extra(Use(key, next_key, request))
    return at.as_user("kubevouch:recovery:a", "kubevouch:recoverers", extra=extra)


async def record(at: World) -> Record:
    name = node_recovery.record_name("a")
    return node_recovery.record_of(await at.client.get(catalog.CONFIG_MAPS, name, node_recovery.NAMESPACE))


async def decided(at: World, name: str) -> str:
    found = await at.client.get(catalog.CERTIFICATE_SIGNING_REQUESTS, name)
    return " ".join(f"{each.type}:{each.reason}" for each in found.status.conditions)


async def events(at: World) -> list[tuple[str, str]]:
    found = (await at.client.list(catalog.EVENTS, "default")).items
    return sorted((each.type, each.reason) for each in found if each.involved_object.kind == "Node")


async def _no_secret(_token_id: str) -> None:
    return None


async def post(at: World, who: Client, request: CertificateSigningRequest) -> str:
    """What becomes of it, a second after the last one."""
    at.clock.advance(1)
    await who.create(catalog.CERTIFICATE_SIGNING_REQUESTS, request)
    await at.run(*RUNNING)
    return await decided(at, request.metadata.name)


@async_test
async def test_a_join_registers_a_key_and_a_recovery_replaces_it() -> None:
    async with world(recovery=POLICY) as at:
        await post(at, joining(at), csr("join", K1))
        assert (await record(at)).key == K1
        assert await post(at, recovering(at, K1, K2), csr("back")) == "Approved:AutoApproved"
        found = await record(at)
        assert (found.key, found.former, found.uses, found.request) == (K2, (K1,), (at.clock.now(),), REQUEST)
        # The join is looked at again by whoever starts anew, and is no news.
        await at.run(*RUNNING)
        assert await record(at) == found
        assert await events(at) == [("Normal", "NodeRecovered"), ("Normal", "RecoveryKeyRegistered")]


@async_test
async def test_killed_between_the_record_and_the_approval() -> None:
    async with world(recovery=POLICY) as at:
        await post(at, joining(at), csr("join", K1))
        stored = await at.client.get(catalog.CONFIG_MAPS, "node-recovery.a", node_recovery.NAMESPACE)
        charged = node_recovery.use(await record(at), Use(K1, K2, REQUEST), POLICY, now=at.clock.now())
        await at.client.update(catalog.CONFIG_MAPS, node_recovery.config_map(charged, stored))
        assert await post(at, recovering(at, K1, K2), csr("back")) == "Approved:AutoApproved"
        assert await record(at) == charged


@async_test
async def test_two_machines_at_once_and_one_wins() -> None:
    async with world(recovery=POLICY) as at:
        await post(at, joining(at), csr("join", K1))
        for name, next_key in (("one", K2), ("two", K3)):
            await recovering(at, K1, next_key).create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr(name))
        await at.run(*RUNNING)
        assert sorted([await decided(at, "one"), await decided(at, "two")]) == [
            "Approved:AutoApproved", "Denied:RecoveryRefused",
        ]  # fmt: skip
        assert (await record(at)).locked and ("Warning", "RecoveryKeyReused") in await events(at)


@async_test
async def test_an_empty_budget_makes_a_request_wait() -> None:
    async with world(recovery=POLICY) as at:
        await post(at, joining(at), csr("join", K1))
        await post(at, recovering(at, K1, K2), csr("back"))
        assert await post(at, recovering(at, K2, K3), csr("again")) == ""
        waiting = await at.client.get(catalog.CERTIFICATE_SIGNING_REQUESTS, "again")
        assert (await outlook(at.client, waiting, _no_secret)).reason == "RecoveryWaits"
        at.clock.advance(dt.timedelta(days=10).total_seconds())
        await at.run("csrapproving")
        assert await decided(at, "again") == "Approved:AutoApproved"


@async_test
async def test_a_node_with_a_key_that_was_replaced() -> None:
    async with world(recovery=POLICY) as at:
        await post(at, joining(at), csr("join", K1))
        await post(at, recovering(at, K1, K2), csr("back"))
        assert "Approved" in await post(at, node(at), csr("renewal", K2))
        assert not (await record(at)).locked
        assert "Approved" in await post(at, node(at), csr("copy", K1)), "the certificate counts for itself"
        assert "was replaced" in (await record(at)).locked
        # The first reason stays, and is told once.
        await post(at, node(at), csr("third", K4))
        assert "was replaced" in (await record(at)).locked
        assert [each for each in await events(at) if each[0] == "Warning"] == [("Warning", "RecoveryKeyReused")]


@async_test
async def test_off_means_that_nobody_is_approved() -> None:
    async with world(recovery=POLICY) as at:
        await post(at, joining(at), csr("join", K1))
        await at.close()
        await recovering(at, K1, K2).create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr("back"))
        # The roles stay in the store when the cluster is started without it.
        at.server.recovery = None
        await at.run(*RUNNING)
        assert await decided(at, "back") == "" and (await record(at)).key == K1


@async_test
async def test_a_recovering_user_may_do_nothing_else() -> None:
    async with world(recovery=POLICY) as at:
        user = recovering(at, K1, K2)
        other = build_request(keys.generate(keys.KeyAlgorithm.ECDSA_P256), Subject(common_name="system:node:a"))
        serving = msgspec.structs.replace(csr("x").spec, signer_name=wellknown.KUBELET_SERVING_SIGNER)
        for wrong in (csr("x", request=other), msgspec.structs.replace(csr("x"), spec=serving)):
            with pytest.raises(APIStatusError, match="and no other") as caught:
                await user.create(catalog.CERTIFICATE_SIGNING_REQUESTS, wrong)
            assert caught.value.code == 403
        for refused in (
            user.list(catalog.NODES),
            user.list(catalog.SECRETS, "kube-system"),
            user.get(catalog.CONFIG_MAPS, "node-recovery.a", node_recovery.NAMESPACE),
            user.delete(catalog.CERTIFICATE_SIGNING_REQUESTS, "x"),
        ):
            with pytest.raises(APIStatusError) as caught:
                await refused
            assert caught.value.code == 403


@async_test
async def test_a_record_that_cannot_be_read_gives_no_certificate() -> None:
    async with world(recovery=POLICY) as at:
        await post(at, joining(at), csr("join", K1))
        stored = await at.client.get(catalog.CONFIG_MAPS, "node-recovery.a", node_recovery.NAMESPACE)
        await at.client.update(catalog.CONFIG_MAPS, msgspec.structs.replace(stored, data={}))
        assert await post(at, recovering(at, K1, K2), csr("back")) == ""
