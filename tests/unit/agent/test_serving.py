from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec

from agent_world import Network, managed, pass_time, running
from asynctest import async_test
from kubevouch import wellknown
from kubevouch.agent.certificate_manager import CertificateManager
from kubevouch.agent.certificate_request import Poster
from kubevouch.agent.certificate_store import CertificateStore, StoredPair
from kubevouch.agent.serving import PREFIX, AddressWatch, ServingTemplate, extra_addresses
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequestCondition
from kubevouch.api.core_v1 import Node, NodeAddress
from kubevouch.client.interface import Client
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.testing.cluster import Cluster

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
CONTROLLERS = ("certificatesigningrequest-approving-controller", "certificatesigningrequest-signing-controller")


def _node(*addresses: tuple[str, str]) -> Node:
    node = Node(metadata=ObjectMeta(name="worker-1"))
    listed = [NodeAddress(type=kind, address=address) for kind, address in addresses]
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, addresses=listed))


def test_no_template_before_there_is_an_address() -> None:
    template = ServingTemplate("worker-1", extra_addresses(["203.0.113.9", "worker.example"]))
    assert template() is None
    assert template.saw(_node(("Hostname", "worker-1")))
    assert template() is None
    assert template.saw(_node(("Hostname", "worker-1"), ("InternalIP", "192.0.2.17")))
    assert not template.saw(_node(("Hostname", "worker-1"), ("InternalIP", "192.0.2.17")))
    wanted = template()
    assert wanted is not None
    assert (wanted.signer_name, wanted.purpose) == ("kubernetes.io/kubelet-serving", "server auth")
    assert wanted.alt_names.dns_names == ("worker-1", "worker.example")
    assert set(wanted.alt_names.ip_addresses) == {
        ipaddress.ip_address("192.0.2.17"),
        ipaddress.ip_address("203.0.113.9"),
    }


async def _approve_all(cluster: Cluster) -> int:
    """A person; Kubernetes' own controllers never approve serving certificates. The number of requests."""
    client = cluster.client()
    found = (await client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items
    for csr in found:
        if not csr.status.conditions:
            yes = CertificateSigningRequestCondition(type=wellknown.CSR_APPROVED, status="True", reason="Test")
            status = msgspec.structs.replace(csr.status, conditions=[yes])
            shown = msgspec.structs.replace(csr, status=status)
            await client.update(catalog.CERTIFICATE_SIGNING_REQUESTS, shown, subresource="approval")
    return len(found)


@async_test
async def test_a_serving_certificate_follows_the_nodes_addresses(tmp_path: Path) -> None:
    async with Cluster(now=NOW, controllers=CONTROLLERS) as cluster:
        network = Network(cluster)
        node = managed(network, tmp_path)
        template = ServingTemplate("worker-1")
        store = CertificateStore(tmp_path, PREFIX)
        # Asked for as the node, with the certificate that it has at the moment.
        node_access = node.access

        class AsNode:
            anchors = node_access.anchors
            refused = node_access.refused
            refresh = node_access.refresh
            renewal_order = node_access.renewal_order

            def connected(self, _pair: StoredPair | None, /) -> AbstractAsyncContextManager[Poster]:
                return node_access.connected(node.manager.pair)

        manager = CertificateManager(
            "serving",
            store,
            template,
            AsNode(),
            cluster.clock,
            node.heard,
        )

        @asynccontextmanager
        async def connect() -> AsyncIterator[Client]:
            yield cluster.client(network.user(node.manager.pair))

        watch = AddressWatch("worker-1", connect, template, manager, cluster.clock, lambda: 0.5)
        tasks = [asyncio.create_task(work) for work in (manager.run(), watch.run())]
        try:
            async with running(node):
                await pass_time(cluster, 60, step=5)
                assert not manager.usable and manager.standing.failures == 0
                client = cluster.client()
                await client.create(catalog.NODES, _node(("Hostname", "worker-1")))
                await pass_time(cluster, 30, step=5)
                assert await _approve_all(cluster) == 1
                for number, address in enumerate(("192.0.2.17", "192.0.2.18"), start=2):
                    found = await client.get(catalog.NODES, "worker-1")
                    addresses = _node(("Hostname", "worker-1"), ("InternalIP", address)).status.addresses
                    status = msgspec.structs.replace(found.status, addresses=addresses)
                    await client.update(
                        catalog.NODES, msgspec.structs.replace(found, status=status), subresource="status"
                    )
                    watch.reconnect()
                    await pass_time(cluster, 30, step=5)
                    assert await _approve_all(cluster) == number
                    await pass_time(cluster, 30, step=5)
                    assert manager.pair is not None
                    names = manager.pair.leaf.meaning.alt_names
                    assert [str(each) for each in names.ip_addresses] == [address]
                    assert names.dns_names == ("worker-1",)
                assert store.current_path.name == "kubelet-server-current.pem"
                assert node.heard.failures == []
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
