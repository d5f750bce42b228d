"""Bindings stay away over restarts and kubeadm's upgrades, and come back only if they were taken away here."""

from __future__ import annotations

import pytest
from msgspec import structs

from asynctest import async_test
from cluster_api_world import CLUSTER, HERE, Objects, calm, serve
from controller_world import World, world
from kubevouch import wellknown
from kubevouch.api.catalog import CLUSTER_ROLE_BINDINGS, CONFIG_MAPS
from kubevouch.api.rbac_v1 import ClusterRoleBinding
from kubevouch.authorization.kubeadm_policy import kubeadm_policy
from kubevouch.client.cache.informer import InformerFactory
from kubevouch.client.interface import Client
from kubevouch.config.attestation_config import BOOTSTRAP, AttestationConfiguration
from kubevouch.controllers import approval_bindings
from kubevouch.controllers.approval_bindings import CONFIG_MAP
from kubevouch.controllers.attestation import Attestation
from kubevouch.controllers.interface import Context, Management
from kubevouch.controllers.manager import Manager
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.policy.approval_bindings import EVERY, NAMES
from kubevouch.standalone.controllers import RunningControllers, controller_user

ATTESTS = wellknown.KUBELET_AUTHENTICATION_ANNOTATION
FIRST, NEXT = NAMES.values()
KUBEADMS = {each.metadata.name: each for each in kubeadm_policy().cluster_role_bindings}


def start(at: World, configured: frozenset[str] | None, *, has_clusters: bool = False) -> RunningControllers:
    """As a process does that begins."""

    def connect(name: str) -> Client:
        return at.server.api.loopback(controller_user(name), name)

    informers = InformerFactory(connect("informers"), at.clock)
    management = Management("default", CLUSTER, connect, informers, HERE.options.token_ttl) if has_clusters else None
    attestation = None
    if configured is not None:
        attestation = Attestation(AttestationConfiguration(remove_bindings=sorted(configured)), {})
    context = Context(connect, informers, at.clock, management=management, attestation=attestation)
    built = approval_bindings.build(context)
    assert built is not None
    running = RunningControllers(at.server, Manager([built], informers, at.clock))
    at._running.append(running)
    return running


async def after(at: World, configured: frozenset[str] | None) -> set[str]:
    """What is there when a process has run."""
    running = start(at, configured)
    await calm(running)
    await running.close()
    return await there(at)


async def there(at: World) -> set[str]:
    listed = await at.client.list(CLUSTER_ROLE_BINDINGS)
    return {each.metadata.name for each in listed.items} & set(NAMES.values())


async def make(at: World, name: str) -> ClusterRoleBinding:
    """As kubeadm init and kubeadm upgrade do."""
    found = KUBEADMS[name]
    return await at.client.create(CLUSTER_ROLE_BINDINGS, structs.replace(found, metadata=ObjectMeta(name=name)))


async def spec_of(at: World, name: str) -> object:
    found = await at.client.get(CLUSTER_ROLE_BINDINGS, name)
    return structs.replace(found, metadata=ObjectMeta(name=name))


@async_test
async def test_they_stay_away_over_restarts_and_upgrades_and_come_back_as_they_were() -> None:
    async with world() as at:
        before = [await spec_of(at, name) for name in NAMES.values()]
        assert await after(at, EVERY) == set()
        # A restart, one by a program that nobody has told anything, and kubeadm upgrade between two of them.
        assert await after(at, EVERY) == set()
        await make(at, FIRST)
        assert await after(at, EVERY) == set()
        assert await after(at, frozenset()) == {FIRST, NEXT}
        assert [await spec_of(at, name) for name in NAMES.values()] == before
        # Taken away by a person now, who has nothing put back.
        await at.client.delete(CLUSTER_ROLE_BINDINGS, FIRST)
        assert await after(at, frozenset()) == {NEXT}


@async_test
async def test_kubeadm_upgrade_while_it_runs() -> None:
    async with world() as at:
        running = start(at, EVERY)
        await calm(running)
        for name in NAMES.values():
            await make(at, name)
        await calm(running)
        assert await there(at) == set()


@async_test
async def test_what_a_person_had_taken_away_before_is_not_put_back() -> None:
    async with world() as at:
        await at.client.delete(CLUSTER_ROLE_BINDINGS, FIRST)
        assert await after(at, EVERY) == set()
        assert await after(at, frozenset()) == {NEXT}


@async_test
async def test_only_the_one_that_is_named() -> None:
    async with world() as at:
        assert await after(at, frozenset((BOOTSTRAP,))) == {NEXT}


@async_test
async def test_a_failure_between_leaves_nothing_that_is_not_written_down() -> None:
    async with world() as at:
        # The record is there, and nothing was taken away yet.
        assert await after(at, EVERY) == set()
        record = await at.client.get(CONFIG_MAPS, CONFIG_MAP, wellknown.KUBE_SYSTEM_NAMESPACE)
        assert set(record.data) == EVERY
        await make(at, FIRST)
        # Turned off at that moment: the one that is there stays, the other one comes back, and nothing is left over.
        assert await after(at, frozenset()) == {FIRST, NEXT}
        record = await at.client.get(CONFIG_MAPS, CONFIG_MAP, wellknown.KUBE_SYSTEM_NAMESPACE)
        assert record.data == {}


@async_test
async def test_nobody_gets_a_right_by_a_record_that_somebody_else_wrote() -> None:
    async with world() as at:
        await after(at, EVERY)
        record = await at.client.get(CONFIG_MAPS, CONFIG_MAP, wellknown.KUBE_SYSTEM_NAMESPACE)
        wider = {BOOTSTRAP: record.data[BOOTSTRAP].replace(wellknown.DEFAULT_NODE_TOKEN_GROUP, "system:authenticated")}
        await at.client.update(CONFIG_MAPS, structs.replace(record, data=wider))
        assert await after(at, frozenset()) == set()


@async_test
async def test_its_own_rights_bind_nothing_else() -> None:
    async with world() as at:
        client = at.server.api.loopback(controller_user(approval_bindings.NAME), "test")
        admin = structs.replace(
            KUBEADMS[FIRST],
            metadata=ObjectMeta(name="x"),
            role_ref=structs.replace(KUBEADMS[FIRST].role_ref, name="cluster-admin"),
        )
        with pytest.raises(APIStatusError) as caught:
            await client.create(CLUSTER_ROLE_BINDINGS, admin)
        assert caught.value.code == 403


# ------------------------------------------------------------------ by a Cluster


async def say(objects: Objects, attests: str | None) -> None:
    await objects.change("Cluster", CLUSTER, {"metadata": {"annotations": {ATTESTS: attests}}})


@async_test
async def test_a_cluster_turns_them_off_and_on() -> None:
    async with world() as at:
        objects = await serve(at, "v1beta2")
        await objects.cluster()
        running = start(at, None, has_clusters=True)
        await calm(running)
        assert await there(at) == {FIRST, NEXT}
        for attests, expected in (
            ("true", set()), ("yes", set()), ("false", {FIRST, NEXT}), ("true", set()), (None, {FIRST, NEXT}),
        ):  # fmt: skip
            await say(objects, attests)
            await calm(running)
            # One that cannot be read decides nothing.
            assert await there(at) == expected, attests


@async_test
async def test_a_cluster_that_is_paused_or_gone_decides_nothing() -> None:
    async with world() as at:
        objects = await serve(at, "v1beta2")
        await objects.cluster(annotations={ATTESTS: "true", "cluster.x-k8s.io/paused": ""})
        running = start(at, None, has_clusters=True)
        await calm(running)
        assert await there(at) == {FIRST, NEXT}
        await objects.change("Cluster", CLUSTER, {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}})
        await calm(running)
        assert await there(at) == set()
        await objects.change("Cluster", CLUSTER, {"spec": {"paused": True}})
        await say(objects, "false")
        await calm(running)
        assert await there(at) == set()
        await objects.delete("Cluster", CLUSTER)
        await calm(running)
        assert await there(at) == set()


@async_test
async def test_what_the_configuration_says_holds_whatever_the_cluster_says() -> None:
    async with world() as at:
        objects = await serve(at, "v1beta2")
        await objects.cluster(annotations={ATTESTS: "false"})
        running = start(at, frozenset((BOOTSTRAP,)), has_clusters=True)
        await calm(running)
        assert await there(at) == {NEXT}
