"""controllers/approval/kubelet_serving.py: what is looked up of a request, and when it is looked at again."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import msgspec

from asynctest import async_test
from controller_world import World, decoded, world
from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, CUSTOM_RESOURCE_DEFINITIONS, NODES
from kubevouch.client.resolver import ResolverError
from kubevouch.controllers.approval import kubelet_serving
from kubevouch.controllers.csr_approving import NAME as APPROVING
from kubevouch.controllers.csr_signing import NAME as SIGNING
from kubevouch.controllers.outside_questions import OF_SOURCE_AT_ONE
from kubevouch.ledger.entries import APPROVED, Query
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.scheme import Resource
from kubevouch.pki.x509 import x509_request
from kubevouch.policy.facts import facts_of
from kubevouch.policy.kubelet_serving import ServingRules
from kubevouch.testing.waiting import has_condition, wait_for
from serving_requests import ADDRESSES, asks, decision, node_with, post, report

RULES = ServingRules(api_server=frozenset({"192.0.2.10"}))
MACHINES: Resource[CustomObject] = Resource(
    "cluster.x-k8s.io", "v1beta1", "Machine", "machines", CustomObject, namespaced=True
)
CONTROL_PLANE = {wellknown.CONTROL_PLANE_LABEL: ""}


@async_test
async def test_from_the_first_minute() -> None:
    async with world() as at:
        await at.run(APPROVING, SIGNING, serving=RULES)
        await report(at, node_with())
        await post(at, asks("csr-1"))
        await at.settle()
        csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "csr-1")
        assert [each.reason for each in csr.status.conditions] == ["AutoApproved"]
        assert csr.status.certificate
        counted = at.server.api.metrics.registry.get_sample_value
        for source in ("identity", "node-addresses"):
            assert counted("kubevouch_kubelet_serving_names_total", {"source": source}) == 1
        (decided,) = await at.ledger.find(Query(request="csr-1", kinds=frozenset({APPROVED})))
        assert (decided.entry.approver, decided.entry.requester) == ("kubelet-serving", "system:node:n1")
        assert "san.ip 10.0.0.9" in str(decided.entry.trace)


@async_test
async def test_left_to_people_where_nothing_is_said_of_it() -> None:
    async with world() as at:
        await at.run(APPROVING)
        await report(at, node_with())
        await post(at, asks("csr-1"))
        await at.settle()
        assert await decision(at, "csr-1") == ("Pending", "")


@async_test
async def test_looked_at_again_when_its_node_comes_and_changes() -> None:
    async with world() as at:
        await at.run(APPROVING, serving=RULES)
        await post(at, asks("csr-1", ips=("10.0.0.9", "fd00::9")))
        await at.settle()
        assert await decision(at, "csr-1") == ("Pending", "")
        await report(at, node_with())
        await at.settle()
        assert await decision(at, "csr-1") == ("Pending", "")
        await report(at, node_with(addresses=(*ADDRESSES, ("InternalIP", "fd00::9"))))
        await at.settle()
        assert await decision(at, "csr-1") == ("Approved", "AutoApproved")


@async_test
async def test_looked_at_again_when_another_node_gives_an_address_up() -> None:
    async with world() as at:
        await at.run(APPROVING, serving=RULES)
        await report(at, node_with())
        await report(at, node_with("n2", [("InternalIP", "10.0.0.9")]))
        await post(at, asks("csr-1"))
        await at.settle()
        assert await decision(at, "csr-1") == ("Pending", "")
        await at.client.delete(NODES, "n2")
        await at.settle()
        assert await decision(at, "csr-1") == ("Approved", "AutoApproved")


@async_test
async def test_an_address_that_another_node_holds_is_denied() -> None:
    async with world() as at:
        await at.run(APPROVING, SIGNING, serving=RULES)
        await report(at, node_with())
        await post(at, asks("csr-1"))
        await at.settle()
        await report(at, node_with("n2", [("Hostname", "n2"), ("InternalIP", "10.0.0.9")]))
        await post(at, asks("csr-2", "n2", ("n2",)))
        await at.settle()
        assert await decision(at, "csr-2") == ("Denied", "AddressOfAnotherNode")
        # Whose it is gets it again.
        await post(at, asks("csr-3"))
        await at.settle()
        assert await decision(at, "csr-3") == ("Approved", "AutoApproved")


@async_test
async def test_an_address_of_a_control_plane_is_not_a_workers() -> None:
    async with world() as at:
        await at.run(APPROVING, serving=RULES)
        await report(at, node_with("cp", [("InternalIP", "10.0.0.2")], **CONTROL_PLANE))
        await report(at, node_with(addresses=(*ADDRESSES, ("InternalIP", "10.0.0.2"))))
        await post(at, asks("csr-1", ips=("10.0.0.2", "10.0.0.9")))
        await at.settle()
        assert await decision(at, "csr-1") == ("Denied", "AddressOfAnotherNode")


@async_test
async def test_the_label_of_control_planes_wakes_it() -> None:
    async with world() as at:
        await at.run(APPROVING, serving=RULES)
        addresses = (("Hostname", "n1"), ("InternalIP", "192.0.2.10"))
        await report(at, node_with(addresses=addresses))
        await post(at, asks("csr-1", ips=("192.0.2.10",)))
        await at.settle()
        assert await decision(at, "csr-1") == ("Pending", "")
        await report(at, node_with(addresses=addresses, **CONTROL_PLANE))
        await at.settle()
        assert await decision(at, "csr-1") == ("Approved", "AutoApproved")


@async_test
async def test_what_the_cluster_says_of_its_api_servers() -> None:
    """Not from the rules: the endpoints of ``default/kubernetes``, its Service, and cluster-info."""
    async with world() as at:
        await at.run(APPROVING, serving=ServingRules())
        service = await at.client.get(_resource("services"), "kubernetes", "default")
        for number, address in enumerate(("127.0.0.1", service.spec.cluster_ip)):
            await report(at, node_with(addresses=(*ADDRESSES, ("InternalIP", address))))
            await post(at, asks(f"csr-{number}", ips=("10.0.0.9", address)))
            await at.settle()
            assert (await decision(at, f"csr-{number}"))[0] != "Approved"


def _resource(plural: str) -> Resource[Any]:
    from kubevouch.api.catalog import STORED

    return next(each for each in STORED if each.plural == plural)


class TestStale:
    @async_test
    async def test_an_address_that_was_replaced_while_nobody_looked(self) -> None:
        async with world() as at:
            await at.run(APPROVING, serving=RULES)
            await report(at, node_with())
            await post(at, asks("csr-1", ips=("10.0.0.8",)))
            await at.settle()
            # Its Node may still come to report it; a kubelet would not ask before.
            assert await decision(at, "csr-1") == ("Pending", "")
            at.clock.advance(300.0)
            await wait_for(at.client, CERTIFICATE_SIGNING_REQUESTS, "csr-1", until=has_condition("Denied"))
            assert await decision(at, "csr-1") == ("Denied", "StaleAddresses")
            # Once only: whoever asks for the same again means it.
            await post(at, asks("csr-2", ips=("10.0.0.8",)))
            at.clock.advance(300.0)
            await at.settle()
            assert await decision(at, "csr-2") == ("Pending", "")

    @async_test
    async def test_one_that_its_node_comes_to_report(self) -> None:
        async with world() as at:
            await at.run(APPROVING, serving=RULES)
            await report(at, node_with())
            await post(at, asks("csr-1", ips=("10.0.0.8",)))
            await at.settle()
            await report(at, node_with(addresses=(*ADDRESSES, ("InternalIP", "10.0.0.8"))))
            await at.settle()
            assert await decision(at, "csr-1") == ("Approved", "AutoApproved")

    @async_test
    async def test_one_that_changes_while_it_waits(self) -> None:
        async with world() as at:
            await at.run(APPROVING, serving=RULES)
            await post(at, asks("csr-1", ips=("10.0.0.8",)))
            await report(at, node_with(addresses=(("Hostname", "n1"),)))
            await at.settle()
            assert await decision(at, "csr-1") == ("Pending", "")
            await report(at, node_with())
            await at.settle()
            assert await decision(at, "csr-1") == ("Denied", "StaleAddresses")

    @async_test
    async def test_an_address_that_goes_while_it_waits(self) -> None:
        async with world() as at:
            await at.run(APPROVING, serving=RULES)
            await report(at, node_with(addresses=(*ADDRESSES, ("InternalIP", "192.0.2.10"))))
            await post(at, asks("csr-1", ips=("10.0.0.9", "192.0.2.10")))
            await at.settle()
            assert await decision(at, "csr-1") == ("Pending", "")
            await report(at, node_with())
            await at.settle()
            assert await decision(at, "csr-1") == ("Denied", "StaleAddresses")


class TestLastCertificate:
    @async_test
    async def test_what_a_person_has_approved_once_is_renewed(self) -> None:
        async with world() as at:
            await at.run(APPROVING, SIGNING, serving=RULES)
            await report(at, node_with())
            for number in (1, 2):
                await post(at, asks(f"csr-{number}", dns=("n1", "extra")))
                await at.settle()
                if number == 1:
                    assert await decision(at, "csr-1") == ("Pending", "")
                    await _approve(at, "csr-1")
                    await at.settle()
                    # Requests are cleaned after an hour; the ledger remembers.
                    await at.client.delete(CERTIFICATE_SIGNING_REQUESTS, "csr-1")
            assert await decision(at, "csr-2") == ("Approved", "AutoApproved")
            # Not for another node, and not once it has ended.
            await report(at, node_with("n2", [("InternalIP", "10.0.0.2")]))
            await post(at, asks("csr-3", "n2", ("n2", "extra"), ("10.0.0.2",)))
            at.clock.advance(dt.timedelta(days=400).total_seconds())
            await post(at, asks("csr-4", dns=("n1", "extra")))
            await at.settle()
            assert [await decision(at, name) for name in ("csr-3", "csr-4")] == [("Pending", "")] * 2


async def _approve(at: World, name: str) -> None:
    csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)
    condition = {"type": "Approved", "status": "True", "reason": "ByHand", "message": "by hand"}
    status = decoded(CERTIFICATE_SIGNING_REQUESTS, {"status": {"conditions": [condition]}}).status
    await at.client.update(
        CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(csr, status=status), subresource="approval"
    )


DEFINITION = {
    "metadata": {"name": "machines.cluster.x-k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved"}},
    "spec": {
        "group": "cluster.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "machines", "singular": "machine", "kind": "Machine", "listKind": "MachineList"},
        "versions": [
            {
                "name": "v1beta1", "served": True, "storage": True, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}  # fmt: skip


def machine(name: str, node: str, *addresses: tuple[str, str]) -> CustomObject:
    status = {"nodeRef": {"name": node}, "addresses": [{"type": kind, "address": text} for kind, text in addresses]}
    return CustomObject(
        api_version="cluster.x-k8s.io/v1beta1", kind="Machine",
        metadata=ObjectMeta(name=name, namespace="default"), content={"status": status},
    )  # fmt: skip


async def put_machine(at: World, obj: CustomObject) -> None:
    made = await at.client.create(MACHINES, obj)
    await at.client.update(MACHINES, msgspec.structs.replace(made, content=obj.content), subresource="status")


class TestMachines:
    """Cluster API's Machines, which no node may write."""

    @async_test
    async def test_they_count_for_what_a_node_cannot_say_of_itself(self) -> None:
        async with world() as at:
            await at.client.create(CUSTOM_RESOURCE_DEFINITIONS, decoded(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION))
            await at.run(APPROVING, serving=RULES)
            await report(at, node_with(addresses=(("Hostname", "n1"), ("InternalIP", "192.0.2.10"))))
            await post(at, asks("csr-1", ips=("192.0.2.10",)))
            await at.settle()
            assert await decision(at, "csr-1") == ("Pending", "")
            await put_machine(at, machine("m", "n1", ("InternalIP", "192.0.2.10")))
            await at.settle()
            assert await decision(at, "csr-1") == ("Approved", "AutoApproved")

    @async_test
    async def test_what_another_machine_has_is_denied(self) -> None:
        async with world() as at:
            await at.run(APPROVING, serving=RULES)
            # The kind may come while it runs.
            await at.client.create(CUSTOM_RESOURCE_DEFINITIONS, decoded(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION))
            await at.settle()
            await put_machine(at, machine("m", "n2", ("InternalIP", "10.0.0.9")))
            await report(at, node_with())
            await post(at, asks("csr-1"))
            await at.settle()
            assert await decision(at, "csr-1") == ("Denied", "AddressOfAnotherNode")


class Zones:
    """A ``client.resolver.Resolver``: names with their addresses, the names of each address by those."""

    def __init__(self, **addresses: str) -> None:
        self._addresses = {name.replace("_", "."): frozenset(text.split()) for name, text in addresses.items()}
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def addresses(self, name: str) -> frozenset[str]:
        self.asked.append(name)
        await self.gate.wait()
        if name not in self._addresses:
            raise ResolverError("silent")
        return self._addresses[name]

    async def names(self, address: str) -> frozenset[str]:
        self.asked.append(address)
        return frozenset(name for name, found in self._addresses.items() if address in found)


class TestDNS:
    @async_test
    async def test_what_nothing_else_justifies(self) -> None:
        async with world() as at:
            await at.run(APPROVING, serving=RULES, resolver=Zones(x_corp="10.0.0.9", n1_corp="10.0.0.7 10.0.0.9"))
            await report(at, node_with())
            await post(at, asks("csr-1", dns=("n1", "x.corp"), ips=("10.0.0.7", "10.0.0.9")))
            await at.settle()
            assert await decision(at, "csr-1") == ("Approved", "AutoApproved")

    @async_test
    async def test_it_is_not_asked_where_it_is_not_needed_and_a_silent_one_only_waits(self) -> None:
        async with world() as at:
            zones = Zones()
            await at.run(APPROVING, serving=RULES, resolver=zones)
            await report(at, node_with())
            await post(at, asks("csr-1"))
            await at.settle()
            assert zones.asked == []
            await post(at, asks("csr-2", dns=("n1", "x.corp")))
            await at.settle()
            assert await decision(at, "csr-2") == ("Pending", "")
            assert "x.corp" in zones.asked

    def test_how_much_is_asked(self) -> None:
        zones = Zones(**{f"n1_d{number}": "10.0.0.9" for number in range(100)})
        csr = asks("a", dns=tuple(f"x{number}.corp" for number in range(50)), ips=("10.0.0.9",))
        facts = facts_of(csr, x509_request.parse_pem(csr.spec.request or b""))
        asyncio.run(kubelet_serving.look_up(zones, facts, "n1"))
        assert len(zones.asked) == kubelet_serving.MAX_LOOKUPS * 2 + 1

    @async_test
    async def test_silent_name_servers_keep_no_worker(self) -> None:
        async with world() as at:
            zones = Zones()
            zones.gate.clear()
            running = at.start(APPROVING, serving=RULES, resolver=zones)
            await report(at, node_with())
            for number in range(OF_SOURCE_AT_ONE + 4):
                await post(at, asks(f"csr-{number}", dns=("n1", f"x{number}.corp")))
            await post(at, asks("good"))
            await wait_for(at.client, CERTIFICATE_SIGNING_REQUESTS, "good", until=has_condition("Approved"))
            assert len([each for each in zones.asked if each == "n1"]) == OF_SOURCE_AT_ONE
            zones.gate.set()
            await running.settle()
