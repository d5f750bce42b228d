"""standalone/published.py: each of several servers is told to machines, and none takes another one's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.client.endpoint import Endpoint
from kubevouch.client.interface import Client
from kubevouch.phases import cluster_info
from kubevouch.records.cluster_info import ClusterInfo, kubeconfig_of, parse_kubeconfig
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.published import keep_cluster_info
from kubevouch.testing.clock import FakeClock
from replicas_world import replicas

_FIRST, _SECOND, _THIRD = (f"https://192.0.2.{number}:6443" for number in (1, 2, 3))
_BALANCER = Endpoint("api.example.com", 6443)


async def _published(client: Client) -> tuple[str, ...]:
    found = await client.get(catalog.CONFIG_MAPS, wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE)
    info = parse_kubeconfig(kubeconfig_of(found))
    return info.server, *info.servers


@pytest.mark.parametrize(
    ("decided", "others", "published"),
    [
        (None, (), (_FIRST, _SECOND, _THIRD)),
        # A balancer stands for all of them.
        (_BALANCER, (), (_FIRST,)),
        (None, ("192.0.2.9",), (_FIRST, "https://192.0.2.9:6443")),
    ],
)
@async_test
async def test_servers_are_told_beside_each_other(
    tmp_path: Path, decided: Endpoint | None, others: tuple[str, ...], published: tuple[str, ...]
) -> None:
    async with replicas(3, tmp_path, FakeClock()) as servers:
        client = servers[0].client
        await cluster_info.ensure(client, ClusterInfo(_FIRST, servers[0].server.pki.ca_certificate))
        for _ in range(2):  # another start changes nothing
            for each in servers:
                here = each.server.endpoint
                options = StandaloneOptions(tmp_path, advertise_address=here.host, other_servers=others)
                await keep_cluster_info(each.server, options, here, decided, replicated=True)
            assert await _published(client) == published


@async_test
async def test_servers_that_move_make_no_list_grow(tmp_path: Path) -> None:
    async with replicas(1, tmp_path, FakeClock()) as (server,):
        await cluster_info.ensure(server.client, ClusterInfo(_FIRST, server.server.pki.ca_certificate))
        for port in range(7000, 7040):
            options = StandaloneOptions(tmp_path, advertise_address="192.0.2.2")
            await keep_cluster_info(server.server, options, Endpoint("192.0.2.2", port), None, replicated=True)
        known = await _published(server.client)
        assert len(known) == 17
        assert known[-1] == "https://192.0.2.2:7039"
