"""Machines come from objects, files and URLs; a bad document takes nothing back; before the first nobody is known."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aio import until
from asynctest import async_test
from kubevouch.api.kubevouch_v1alpha1.allowed_machines import AllowedMachine, AllowedMachineSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import ALLOWED_MACHINES
from kubevouch.client.cache.informer import InformerFactory
from kubevouch.config.inventory_config import FileSource, ObjectSource, Source, URLSource
from kubevouch.controllers import machine_inventory
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import Context, Request
from kubevouch.controllers.manager import Manager
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.policy.inventory import Machine
from kubevouch.server.bootstrap import own_kinds
from kubevouch.testing import Cluster
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.logs import capture_logs
from kubevouch.util.tasks import Supervisor
from scripted_server import ScriptedServer, reply
from throwaway_ca import ThrowawayCA, server_context

HEAD = "apiVersion: kubevouch.io/v1alpha1\nkind: AllowedMachine\n"
MACHINE = Source(
    name="capi",
    objects=ObjectSource(
        api_version="cluster.x-k8s.io/v1beta1", kind="Machine", resource="machines", namespaced=True,
        node_name=".status.nodeRef.name", addresses=".status.addresses[*].address",
        dns_names=".status.addresses[*].address",
    ),
)  # fmt: skip


def listed(*names: str) -> str:
    return "---\n".join(f"{HEAD}spec: {{nodeName: {name}}}\n" for name in names)


@asynccontextmanager
async def running(cluster: Cluster, *sources: Source) -> AsyncIterator[tuple[Context, QueueController]]:
    """The controller over the cluster, and its clock stands still."""
    await own_kinds.ensure(cluster.client())
    clock = FakeClock()
    informers = InformerFactory(cluster.client(), clock)
    context = Context(lambda _name: cluster.client(), informers, clock, inventory_sources=sources)
    controller = machine_inventory.build(context)
    async with Supervisor(clock) as tasks:
        tasks.start("manager", Manager([controller], informers, clock).run)
        yield context, controller


@async_test
async def test_objects_come_change_and_go() -> None:
    async with Cluster() as cluster, running(cluster) as (context, _):
        changed: list[str] = []
        context.inventory.on_change(changed.append)
        await until(context.inventory.has_loaded)
        spec = AllowedMachineSpec(node_name="worker-7", addresses=["10.0.0.7"])
        made = await cluster.client().create(
            ALLOWED_MACHINES, AllowedMachine(metadata=ObjectMeta(name="rack-3"), spec=spec)
        )
        await until(lambda: bool(context.inventory.machines("worker-7")))
        assert context.inventory.machines("worker-7") == (
            Machine(node_name="worker-7", addresses=("10.0.0.7",), source="allowedmachine/rack-3"),
        )
        await cluster.client().delete(ALLOWED_MACHINES, made.metadata.name)
        await until(lambda: not context.inventory.machines("worker-7"))
        assert changed == ["worker-7", "worker-7"]


@async_test
async def test_a_file_counts_once_it_can_be_read_and_a_bad_one_takes_nothing_back(tmp_path: Path) -> None:
    path = tmp_path / "machines.yaml"
    source = Source(name="racks", file=FileSource(path=str(path)), interval_seconds=60)
    async with Cluster() as cluster, running(cluster, source) as (context, controller):
        reconciler = controller._reconciler
        changed: list[str] = []
        context.inventory.on_change(changed.append)
        await until(lambda: controller.is_idle)
        assert not context.inventory.has_loaded()
        with capture_logs() as never:
            await reconciler.reconcile(Request("racks"))
        assert [each["event"] for each in never] == [
            "an inventory cannot be read; nothing is decided until it was read once"
        ]
        for text in (listed("a", "b"), listed("a", "c"), f"{listed('d')}---\n{HEAD}spec: {{}}", "x: ["):
            path.write_text(text)
            await reconciler.reconcile(Request("racks"))
        path.unlink()
        with capture_logs() as later:
            result = await reconciler.reconcile(Request("racks"))
        assert [each["event"] for each in later] == ["an inventory cannot be read; what it said before still counts"]
        await until(context.inventory.has_loaded)
        assert result.requeue_after == 30.0
        assert [name for name in "abcd" if context.inventory.machines(name)] == ["a", "c"]
        assert sorted(changed) == ["a", "b", "b", "c"]


@async_test
async def test_a_url_over_tls_that_is_asked_with_a_certificate(tmp_path: Path) -> None:
    ca = ThrowawayCA("inventory")
    (tmp_path / "ca.crt").write_bytes(ca.bundle)
    certificate, key = ca.issue("inventory-client").write(tmp_path, "client")
    answers = [reply("no", 503), reply(listed("a"), content_type="application/yaml")]
    async with ScriptedServer(server_context(ca.issue(), tmp_path, client_ca=ca.bundle), answers) as server:
        source = Source(name="cmdb", url=URLSource(
            url=f"{server.url}/machines?site=1", certificate_authority=str(tmp_path / "ca.crt"),
            client_certificate=str(certificate), client_key=str(key),
        ))  # fmt: skip
        async with Cluster() as cluster, running(cluster, source) as (context, controller):
            await until(lambda: bool(server.seen) and controller.is_idle)
            assert not context.inventory.has_loaded()
            await controller._reconciler.reconcile(Request("cmdb"))
            assert [each.source for each in context.inventory.machines("a")] == ["inventory/cmdb"]
            assert server.seen[-1].query == {"site": "1"}
            assert server.seen[-1].peer_certificate is not None


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, None),
        ({"nodeRef": {"name": 7}}, None),
        (
            {
                "nodeRef": {"name": "n1"},
                "addresses": [{"address": "10.0.0.1"}, {"address": "n1.a"}, {"a": 1}],
            },
            Machine(node_name="n1", addresses=("10.0.0.1",), dns_names=("n1.a",), source="capi/ns/m"),
        ),
        ({"nodeRef": {"name": "n1"}, "addresses": "all"}, Machine(node_name="n1", source="capi/ns/m")),
    ],
)
def test_other_objects_say_what_their_paths_find(status: dict[str, object], expected: Machine | None) -> None:
    assert MACHINE.objects is not None
    convert = machine_inventory.converter(MACHINE, MACHINE.objects)
    obj = CustomObject(metadata=ObjectMeta(name="m", namespace="ns"), content={"status": status})
    assert convert(obj) == expected
