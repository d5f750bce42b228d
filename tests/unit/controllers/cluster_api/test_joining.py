"""Machines join one cluster as Cluster API in another one expects them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from asynctest import async_test
from attested_world import CONTROLLERS, Machine, configured, outcome
from cluster_api_world import CLUSTER, HERE, Objects, calm, serve
from controller_world import World, world
from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, CLUSTER_ROLE_BINDINGS
from kubevouch.client.cache.informer import InformerFactory
from kubevouch.client.interface import Client
from kubevouch.controllers.cluster_api import controller
from kubevouch.policy.approval_bindings import NAMES
from kubevouch.standalone.cluster_api import ManagementCluster
from kubevouch.standalone.controllers import controller_user

REQUIRED = "attestors: [{provider: 'null'}]\nmachines: Required\nmachineGraceSeconds: 60\n"
ON = {wellknown.KUBELET_AUTHENTICATION_ANNOTATION: "true"}


class Two(NamedTuple):
    """The cluster that machines join, and what there is of it in the management cluster."""

    at: World
    objects: Objects


@asynccontextmanager
async def two(version: str, attestors: str = "null") -> AsyncIterator[Two]:
    async with world() as management, world() as at:
        objects = await serve(management, version)
        await objects.cluster(annotations=ON | {wellknown.AUTHORIZED_ATTESTORS_ANNOTATION: attestors})

        def connect(name: str) -> Client:
            return management.server.api.loopback(controller_user(name), name)

        informers = InformerFactory(connect(wellknown.CLUSTER_API_CONTROLLER), management.clock)
        at.start(
            *CONTROLLERS, controller.NAME, wellknown.APPROVAL_BINDINGS_CONTROLLER, attesting=configured(REQUIRED),
            management=ManagementCluster(HERE.options, (connect, informers)),
        )  # fmt: skip
        await calm(at.running)
        yield Two(at, objects)


async def asked(at: World, machine: Machine) -> str:
    """The name of a request with a proof, and nothing decided yet."""
    proof = await machine.evidence(await machine.challenge())
    return await machine.post(machine.request(proof))


async def became(at: World, name: str) -> str:
    await calm(at.running)
    return outcome(await at.client.get(CERTIFICATE_SIGNING_REQUESTS, name))


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@async_test
async def test_a_request_waits_for_its_machine_and_for_the_machine_to_be_ready(version: str) -> None:
    async with two(version) as (at, objects):
        request = await asked(at, Machine(at, "worker-7", "m-7", provider_id="demo://7"))
        assert await became(at, request) == "waits"
        await objects.create("Machine", "worker-7", objects.machine_spec("worker-7") | {"providerID": "demo://7"})
        assert await became(at, request) == "waits"
        await objects.set_status("Machine", "worker-7", objects.ready)
        assert await became(at, request) == "issued"
        infrastructure = await objects.get("DockerCluster", CLUSTER)
        assert infrastructure.metadata.annotations[wellknown.CLIENT_SIGNER_ANNOTATION].endswith("-null")
        bindings = await at.client.list(CLUSTER_ROLE_BINDINGS)
        assert not {each.metadata.name for each in bindings.items} & set(NAMES.values())


@async_test
async def test_a_machine_has_its_own_name_and_its_own_provider_id() -> None:
    async with two("v1beta2") as (at, objects):
        await objects.machine("worker-7", "demo://7")
        await objects.machine("worker-8", "demo://8")
        wrong_id = await asked(at, Machine(at, "worker-7", "m-8", provider_id="demo://8"))
        assert await became(at, wrong_id) == "denied: machine-name"
        # Its Node is called otherwise by now.
        await objects.set_status("Machine", "worker-8", {"nodeRef": {"name": "ip-8"}})
        other_name = await asked(at, Machine(at, "worker-8", "m-8", token="aaaaaa", provider_id="demo://8"))
        assert await became(at, other_name) == "denied: machine-name"
        assert await became(at, await asked(at, Machine(at, "ip-8", "m-8", provider_id="demo://8"))) == "issued"


@async_test
async def test_methods_that_the_cluster_does_not_authorise_are_refused() -> None:
    async with two("v1beta2", "tpm") as (at, objects):
        await objects.machine("worker-7", "demo://7")
        request = await asked(at, Machine(at, "worker-7", "m-7", provider_id="demo://7"))
        assert await became(at, request) == "denied: machine-attestor"


@async_test
async def test_a_machine_that_never_comes_is_refused_in_the_end() -> None:
    async with two("v1beta2") as (at, _):
        request = await asked(at, Machine(at, "worker-7", "m-7", provider_id="demo://7"))
        assert await became(at, request) == "waits"
        at.clock.advance(100)
        assert await became(at, request) == "denied: machine-unknown"


@async_test
async def test_members_of_a_pool_join_by_their_provider_ids() -> None:
    async with two("v1beta2") as (at, objects):
        await objects.pool("pool-1", "demo://1", "demo://2")
        assert await became(at, await asked(at, Machine(at, "any-name", "m-1", provider_id="demo://1"))) == "issued"
        stranger = await asked(at, Machine(at, "other-name", "m-9", token="aaaaaa", provider_id="demo://9"))
        assert await became(at, stranger) == "waits"
