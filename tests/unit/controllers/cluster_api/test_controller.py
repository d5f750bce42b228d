"""What Cluster API knows of machines gets into the inventory, and its infrastructure is told of the signers."""

from __future__ import annotations

from typing import Any

import pytest

from aio import until
from asynctest import async_test
from cluster_api_world import CLUSTER, HERE, Objects, calm, serve, with_proposal
from controller_world import World, world
from kubevouch import wellknown
from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.client.cache.informer import InformerFactory
from kubevouch.client.interface import Client
from kubevouch.config.attestation_config import AttestationConfiguration
from kubevouch.controllers import catalog
from kubevouch.controllers.attestation import Attestation
from kubevouch.controllers.cluster_api import controller
from kubevouch.controllers.cluster_api.kinds import ALL
from kubevouch.controllers.interface import Context, Management
from kubevouch.controllers.manager import Manager
from kubevouch.standalone.controllers import RunningControllers, controller_user
from kubevouch.testing.logs import capture_logs

ON = {wellknown.KUBELET_AUTHENTICATION_ANNOTATION: "true"}
TPM = ("cluster.x-k8s.io/kube-apiserver-client-kubelet-tpm", "cluster.x-k8s.io/kubelet-serving-tpm")
BOTH = pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])


class Controllers:
    """The controller over a cluster in which the node-attestation controller verifies some methods."""

    def __init__(self, at: World, *attestors: str) -> None:
        def connect(name: str) -> Client:
            return at.server.api.loopback(controller_user(name), name)

        informers = InformerFactory(connect("informers"), at.clock)
        management = Management("default", CLUSTER, connect, informers, HERE.options.token_ttl)
        # Which there are is all that is asked.
        attestation = Attestation(AttestationConfiguration(), dict.fromkeys(attestors))  # type: ignore[arg-type]
        running = frozenset((wellknown.NODE_ATTESTATION_CONTROLLER,))
        context = Context(connect, informers, at.clock, management=management, running=running, attestation=attestation)
        built = controller.build(context)
        assert built is not None
        self.inventory = context.inventory
        self.queue = built.queue
        self._running = RunningControllers(at.server, Manager([built], informers, at.clock))
        at._running.append(self._running)

    async def settle(self) -> None:
        await calm(self._running)

    async def again(self) -> None:
        """As after a minute."""
        self.queue.add(ALL)
        await self.settle()


@BOTH
@async_test
async def test_machines_are_known_before_they_join_and_as_nodes(version: str) -> None:
    async with world() as at:
        objects = await serve(at, version)
        await objects.cluster(annotations=ON | {wellknown.AUTHORIZED_ATTESTORS_ANNOTATION: "tpm"})
        controllers = Controllers(at)
        await controllers.settle()
        inventory = controllers.inventory
        assert inventory.has_loaded()
        await objects.machine("worker-7", "demo://7", labels={"cluster.x-k8s.io/deployment-name": "md-0"})
        await controllers.settle()
        (found,) = inventory.provided("demo://7")
        assert (found.node_name, found.names, found.ready, found.group, found.attestors, found.cluster) == (
            "", ("worker-7",), True, "md-0", ("tpm",), "default/prod",
        )  # fmt: skip
        assert inventory.candidates("worker-7") == (found,)
        await objects.set_status("Machine", "worker-7", {"nodeRef": {"name": "ip-7"}})
        await controllers.settle()
        assert [each.provider_id for each in inventory.machines("ip-7")] == ["demo://7"]
        await objects.delete("Machine", "worker-7")
        await controllers.settle()
        assert not inventory.provided("demo://7")


@BOTH
@async_test
async def test_members_of_a_pool_count_once_and_their_machine_says_more(version: str) -> None:
    async with world() as at:
        objects = await serve(at, version)
        await objects.cluster()
        controllers = Controllers(at)
        await controllers.settle()
        inventory = controllers.inventory
        await objects.pool("pool-1", "demo://1", "demo://2")
        await objects.machine("m-2", "demo://2", labels={"cluster.x-k8s.io/pool-name": "pool-1"})
        await controllers.settle()
        assert [each.source for each in inventory.provided("demo://1")] == ["machinepool/default/pool-1"]
        assert [each.source for each in inventory.provided("demo://2")] == ["machine/default/m-2"]
        await objects.delete("Machine", "m-2")
        await controllers.settle()
        assert [each.source for each in inventory.provided("demo://2")] == ["machinepool/default/pool-1"]
        await objects.delete("MachinePool", "pool-1")
        await controllers.settle()
        assert not inventory.provided("demo://1")


@async_test
async def test_what_the_cluster_authorises_reaches_machines_that_are_known_already() -> None:
    async with world() as at:
        objects = await serve(at, "v1beta1", "v1beta2")
        controllers = Controllers(at)
        await controllers.settle()
        inventory = controllers.inventory
        await objects.machine("m", "demo://1")
        await controllers.settle()
        # Nobody has said which cluster this is.
        assert not inventory.provided("demo://1")
        await objects.cluster()
        await controllers.settle()
        assert [each.attestors for each in inventory.provided("demo://1")] == [None]
        await objects.change("Cluster", CLUSTER, {"metadata": {"annotations": {
            wellknown.AUTHORIZED_ATTESTORS_ANNOTATION: "aws"}}})  # fmt: skip
        await controllers.settle()
        assert [each.attestors for each in inventory.provided("demo://1")] == [("aws",)]
        await objects.delete("Cluster", CLUSTER)
        await controllers.settle()
        assert not inventory.provided("demo://1")


@async_test
async def test_kinds_that_come_later_are_followed_and_those_that_go_are_forgotten() -> None:
    async with world() as at:
        controllers = Controllers(at)
        await controllers.settle()
        inventory = controllers.inventory
        assert inventory.has_loaded()
        objects = await serve(at, "v1beta1")
        await objects.cluster()
        await objects.machine("m", "demo://1")
        await controllers.settle()
        assert inventory.provided("demo://1")
        await at.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "machines.cluster.x-k8s.io")
        await until(lambda: not inventory.provided("demo://1"))


# ------------------------------------------------------------------ signers


async def told(objects: Objects) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """By the status of the infrastructure, and by its annotations."""
    obj = await objects.get("DockerCluster", CLUSTER)
    status, annotations = obj.content.get("status") or {}, obj.metadata.annotations
    return (
        (status.get("kubeletClientCertificateSigner"), status.get("kubeletServingCertificateSigner")),
        (annotations.get(wellknown.CLIENT_SIGNER_ANNOTATION), annotations.get(wellknown.SERVING_SIGNER_ANNOTATION)),
    )


NONE = (None, None)


@BOTH
@async_test
async def test_signers_are_told_in_the_status_where_its_definition_has_them(version: str) -> None:
    async with world() as at:
        objects = await serve(at, version, changed=with_proposal)
        security = {"security": {"kubeletAuthentication": True, "authorizedAttestors": ["contosoCloud", "tpm"]}}
        await objects.cluster()
        await objects.change("Cluster", CLUSTER, {"spec": security})
        if version == "v1beta1":
            await objects.set_status("DockerCluster", CLUSTER, {"ready": True})
        controllers = Controllers(at, "aws", "tpm")
        await controllers.settle()
        assert await told(objects) == (TPM, NONE)
        await objects.change("Cluster", CLUSTER, {"spec": {"security": {"kubeletAuthentication": False}}})
        await controllers.settle()
        assert await told(objects) == (NONE, NONE)


@pytest.mark.parametrize(("version", "ready"), [("v1beta1", True), ("v1beta1", False), ("v1beta2", False)])
@async_test
async def test_signers_are_told_by_annotations_where_no_definition_has_fields_for_them(
    version: str, ready: bool
) -> None:
    async with world() as at:
        objects = await serve(at, version)
        await objects.cluster(annotations=ON)
        if ready:
            await objects.set_status("DockerCluster", CLUSTER, {"ready": True})
        controllers = Controllers(at, "tpm")
        await controllers.settle()
        assert await told(objects) == (NONE, TPM)
        before = (await objects.get("DockerCluster", CLUSTER)).metadata.resource_version
        await controllers.again()
        assert (await objects.get("DockerCluster", CLUSTER)).metadata.resource_version == before
        off = {"metadata": {"annotations": {wellknown.KUBELET_AUTHENTICATION_ANNOTATION: "false"}}}
        await objects.change("Cluster", CLUSTER, off)
        await controllers.settle()
        assert await told(objects) == (NONE, NONE)


@async_test
async def test_insecure_has_no_signer_of_serving_certificates() -> None:
    async with world() as at:
        objects = await serve(at, "v1beta2", changed=with_proposal)
        await objects.cluster(annotations=ON)
        await Controllers(at, "insecure").settle()
        assert await told(objects) == (("cluster.x-k8s.io/kube-apiserver-client-kubelet-insecure", None), NONE)


@async_test
async def test_those_of_others_are_left_alone_and_nothing_is_told_while_a_cluster_is_paused() -> None:
    async with world() as at:
        objects = await serve(at, "v1beta2", changed=with_proposal)
        await objects.cluster()
        theirs = {
            "kubeletClientCertificateSigner": "example.com/client",
            "kubeletServingCertificateSigner": "example.com/s",
        }
        await objects.set_status("DockerCluster", CLUSTER, theirs)
        controllers = Controllers(at, "tpm")
        await controllers.settle()
        assert (await told(objects))[0] == tuple(theirs.values())
        await objects.change("Cluster", CLUSTER, {"spec": {"paused": True}, "metadata": {"annotations": ON}})
        await controllers.settle()
        assert (await told(objects))[0] == tuple(theirs.values())


@async_test
async def test_a_cluster_that_is_not_there_is_told_of() -> None:
    async with world() as at:
        objects = await serve(at, "v1beta2")
        controllers = Controllers(at)
        await controllers.settle()
        with capture_logs() as logs:
            await controllers.again()
        assert [each["cluster"] for each in logs if "no such Cluster" in each["event"]] == ["default/prod"]
        await objects.cluster()
        await controllers.settle()
        with capture_logs() as logs:
            await controllers.again()
        assert not [each for each in logs if "no such Cluster" in each["event"]]


def test_without_cluster_api_there_is_nothing_to_do() -> None:
    context = Context(lambda _name: None, None, None)  # type: ignore[arg-type, return-value]  # nothing is asked
    assert catalog.build(catalog.select(("clusterapi", "approvalbindings")), context) == []
