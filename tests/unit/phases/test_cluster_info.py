from __future__ import annotations

from pathlib import Path

from asynctest import async_test
from join_world import TOKEN, join_world
from kubevouch.api import catalog
from kubevouch.phases import cluster_info
from kubevouch.records.cluster_info import ClusterInfo, parse_kubeconfig


@async_test
async def test_a_new_address_is_published_and_signatures_stay_for_the_signer(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        client = world.server.client
        before = await client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        known = parse_kubeconfig(before.data["kubeconfig"])
        await cluster_info.ensure(client, known)
        assert await client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public") == before
        moved = ClusterInfo("https://192.0.2.7:6443", known.certificate_authority_data)
        await cluster_info.ensure(client, moved)
        after = await client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        assert parse_kubeconfig(after.data["kubeconfig"]) == moved
        assert f"jws-kubeconfig-{TOKEN.token_id}" in after.data


@async_test
async def test_what_is_missing_is_made_again(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        client = world.server.client
        info = ClusterInfo(world.server.endpoint.url, world.server.pki.ca_certificate)
        name = "kubeadm:bootstrap-signer-clusterinfo"
        await client.delete(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        await client.delete(catalog.ROLE_BINDINGS, name, "kube-public")
        await cluster_info.ensure(client, info)
        assert (await client.get(catalog.ROLE_BINDINGS, name, "kube-public")).subjects[0].name == "system:anonymous"
        assert (await client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")).data.keys() == {"kubeconfig"}
