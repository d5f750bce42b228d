"""Attached controllers against API servers over HTTPS."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from pathlib import Path

import aiohttp

from asynctest import async_test
from attached_world import (
    JOINING,
    account_token,
    asked,
    attached,
    cluster_of,
    config_of,
    foreign,
    holds,
    is_issued,
    options_for,
    passes,
    signing_of,
    until,
    until_leading,
)
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap, Namespace
from kubevouch.api.core_v1.events import Event
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from kubevouch.client.rest_config import in_cluster
from kubevouch.controllers.catalog import CONTROLLERS, Attached
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import ObjectMeta, OwnerReference
from kubevouch.machinery.scheme import Resource
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.server.bootstrap import own_kinds
from kubevouch.standalone.attached.options import AttachedCluster, ServingOptions
from kubevouch.testing.cluster import Cluster
from kubevouch.testing.waiting import wait_for, wait_for_deletion
from serving_requests import asks, node_with

_HERE = ServingOptions(bind_address="127.0.0.1", port=0)


@async_test
async def test_a_machine_joins_a_cluster_whose_controllers_are_attached() -> None:
    async with (
        foreign() as cluster,
        attached(cluster, controllers=JOINING, signing=signing_of(cluster)) as found,
    ):
        await until_leading(found)
        await asked(cluster, "csr-1", "worker-1")
        csr = await until(cluster, "csr-1", is_issued)
        assert [each.type for each in csr.status.conditions] == ["Approved"]


@async_test
async def test_without_a_name_of_its_own_the_approver_leaves_kubelets_clients_to_kube_controller_manager() -> None:
    async with (
        foreign() as cluster,
        attached(cluster, controllers=("*",)) as found,
    ):
        await until_leading(found)
        await asked(cluster, "csr-1", "worker-1")
        manager = found.clusters[0].manager
        assert manager is not None
        requests = next(
            each for each in manager.informers.informers if each.resource is catalog.CERTIFICATE_SIGNING_REQUESTS
        )
        await holds(lambda: requests.lister.get("csr-1") is not None and manager.is_idle)
        stored = await cluster.client().get(catalog.CERTIFICATE_SIGNING_REQUESTS, "csr-1")
        assert not stored.status.conditions


@async_test
async def test_a_cluster_without_our_kinds_is_worked_for_and_they_count_once_they_are_applied() -> None:
    async with (
        Cluster(https=True) as cluster,
        attached(cluster, clock=cluster.clock, controllers=JOINING, signing=signing_of(cluster)) as found,
    ):
        await until_leading(found)
        await asked(cluster, "csr-1", "worker-1")
        await until(cluster, "csr-1", is_issued)
        first = found.clusters[0].manager
        await own_kinds.ensure(cluster.server.client)
        await passes(cluster.clock, lambda: found.clusters[0].manager not in (None, first))
        await until_leading(found)
        manager = found.clusters[0].manager
        assert manager is not None
        followed = {each.resource for each in manager.informers.informers if each.resource_version}
        assert CERTIFICATE_REVOCATIONS in followed


@async_test
async def test_they_go_on_when_the_server_was_started_again() -> None:
    async with (
        foreign() as cluster,
        attached(cluster, controllers=JOINING, signing=signing_of(cluster)) as found,
    ):
        await until_leading(found)
        await asked(cluster, "csr-1", "worker-1")
        await until(cluster, "csr-1", is_issued)
        await cluster.restart_async()
        await asked(cluster, "csr-2", "worker-2")
        await until(cluster, "csr-2", is_issued)


@async_test
async def test_they_come_through_what_servers_and_networks_do() -> None:
    async with (
        foreign() as cluster,
        attached(cluster, controllers=JOINING, signing=signing_of(cluster)) as found,
    ):
        await until_leading(found)
        faults = cluster.faults
        faults.error(429, verbs="update", resources="certificatesigningrequests", times=3, retry_after=0)
        faults.error(500, verbs="update", resources="certificatesigningrequests", times=3)
        faults.error(410, verbs="watch", resources="certificatesigningrequests", times=2)
        await asked(cluster, "csr-1", "worker-1")
        await until(cluster, "csr-1", is_issued)


@async_test
async def test_of_two_one_acts_and_the_other_follows_at_once_when_it_stops() -> None:
    async with foreign(is_real_time=False) as cluster:
        options = options_for(cluster, controllers=JOINING, signing=signing_of(cluster))
        async with attached(cluster, options=options, clock=cluster.clock) as first:
            await until_leading(first)
            async with attached(cluster, options=options, clock=cluster.clock) as other:
                await holds(lambda: other.clusters[0].elector is not None and bool(other.clusters[0].elector.holder))
                await asked(cluster, "csr-1", "worker-1")
                await until(cluster, "csr-1", is_issued)
                assert (first.clusters[0].manager is None, other.clusters[0].manager is None) == (False, True)
        async with attached(cluster, options=options, clock=cluster.clock) as third:
            # No time has passed: what was given back is free.
            await until_leading(third)
            lease = await cluster.client().get(catalog.LEASES, "kubevouch-controllers", "kube-system")
            assert lease.spec.holder_identity == third.clusters[0].identity
            assert lease.spec.lease_transitions == 1


@async_test
async def test_a_cluster_that_is_not_there_stops_no_other(tmp_path: Path) -> None:
    async with foreign() as one, foreign() as two:
        gone = tmp_path / "gone.conf"
        async with Cluster(https=True) as third:
            gone.write_text(third.kubeconfig.read_text())
        clusters = (AttachedCluster("gone", config_of(gone)), cluster_of(one, "one"), cluster_of(two, "two"))
        options = options_for(one, clusters=clusters, controllers=JOINING, authority=config_of(one.kubeconfig))
        async with attached(one, options=options) as found:
            for number, cluster in ((1, one), (2, two)):
                await until_leading(found, number)
                await asked(cluster, "csr-1", "worker-1")
                await until(cluster, "csr-1", lambda csr: bool(csr.status.conditions))
            assert found.clusters[0].manager is None
            # Two clusters have two Leases, though they have one name.
            assert found.clusters[1].identity != found.clusters[2].identity


@async_test
async def test_a_process_that_stood_still_while_its_lease_ended_sends_nothing_until_it_leads_again() -> None:
    async with (
        foreign(is_real_time=False) as cluster,
        attached(cluster, clock=cluster.clock, controllers=JOINING, signing=signing_of(cluster)) as found,
    ):
        await until_leading(found)
        manager = found.clusters[0].manager
        assert manager is not None
        # A machine that was suspended: no timer has run, and whoever is woken by a request goes on as if nothing were.
        cluster.clock.set(cluster.clock.now() + dt.timedelta(hours=1))
        await asked(cluster, "csr-1", "worker-1")
        requests = next(
            each for each in manager.informers.informers if each.resource is catalog.CERTIFICATE_SIGNING_REQUESTS
        )
        await holds(lambda: requests.lister.get("csr-1") is not None and manager.is_idle)
        assert not (await cluster.client().get(catalog.CERTIFICATE_SIGNING_REQUESTS, "csr-1")).status.conditions
        await passes(cluster.clock, lambda: found.clusters[0].manager not in (None, manager))
        # It is looked at again after a while, for not every cache was filled at first.
        issued = asyncio.create_task(until(cluster, "csr-1", is_issued))
        await passes(cluster.clock, issued.done)
        await issued


@async_test
async def test_a_pod_works_with_its_service_account(tmp_path: Path) -> None:
    async with foreign() as cluster:
        (tmp_path / "token").write_text(await account_token(cluster, "kube-system", "controllers"))
        (tmp_path / "ca.crt").write_bytes(cluster.pki.ca_certificate)
        (tmp_path / "namespace").write_text("kube-system")
        binding = ClusterRoleBinding(
            metadata=ObjectMeta(name="controllers"),
            role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="cluster-admin"),
            subjects=[Subject(kind="ServiceAccount", name="controllers", namespace="kube-system")],
        )
        await cluster.client().create(catalog.CLUSTER_ROLE_BINDINGS, binding)
        host, port = cluster.url.removeprefix("https://").split(":")
        config = in_cluster({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}, tmp_path)
        options = options_for(
            cluster, clusters=(AttachedCluster("", config),), controllers=JOINING, signing=signing_of(cluster)
        )
        async with attached(cluster, options=options) as found:
            await until_leading(found)
            await asked(cluster, "csr-1", "worker-1")
            await until(cluster, "csr-1", is_issued)


@async_test
async def test_kinds_of_kubernetes_that_no_struct_declares_are_read_as_trees() -> None:
    """Deployments, say: servers would answer with protobuf to whoever takes it."""
    events = Resource("events.k8s.io", "v1", "Event", "events", CustomObject, namespaced=True)
    async with foreign() as cluster, config_of(cluster.kubeconfig).client(component="test") as client:
        event = Event(metadata=ObjectMeta(name="a", namespace="default"), involved_object=ObjectReference(name="x"))
        await cluster.client().create(catalog.EVENTS, event)
        found = await client.get(events, "a", "default")
        assert found.content["regarding"] == {"name": "x"}


@async_test
async def test_what_kube_controller_manager_has_works_too_when_it_is_named() -> None:
    twins = tuple(each.alias for each in CONTROLLERS if each.attached is Attached.TWIN)
    async with foreign() as cluster:
        ca = cluster.folder / "pki" / "ca.crt"
        async with attached(cluster, controllers=("*", *twins), root_ca_file=ca) as found:
            await until_leading(found)
            client = cluster.client()
            await client.create(catalog.NAMESPACES, Namespace(metadata=ObjectMeta(name="shop")))
            await wait_for(client, catalog.SERVICE_ACCOUNTS, "default", "shop")
            await wait_for(client, catalog.CONFIG_MAPS, "kube-root-ca.crt", "shop")
            owner = await client.create(
                catalog.CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="owner", namespace="shop"))
            )
            of_owner = OwnerReference(api_version="v1", kind="ConfigMap", name="owner", uid=owner.metadata.uid)
            meta = ObjectMeta(name="owned", namespace="shop", owner_references=[of_owner])
            await client.create(catalog.CONFIG_MAPS, ConfigMap(metadata=meta))
            await client.delete(catalog.CONFIG_MAPS, "owner", "shop")
            await wait_for_deletion(client, catalog.CONFIG_MAPS, "owned", "shop")
            await client.delete(catalog.NAMESPACES, "shop")
            await wait_for_deletion(client, catalog.NAMESPACES, "shop")


async def _scraper(cluster: Cluster) -> str:
    """A token of somebody who may read metrics."""
    client = cluster.client()
    rule = PolicyRule(verbs=["get"], non_resource_urls=["/metrics"])
    await client.create(catalog.CLUSTER_ROLES, ClusterRole(metadata=ObjectMeta(name="scraper"), rules=[rule]))
    binding = ClusterRoleBinding(
        metadata=ObjectMeta(name="scraper"),
        role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="scraper"),
        subjects=[Subject(kind="ServiceAccount", name="scraper", namespace="default")],
    )
    await client.create(catalog.CLUSTER_ROLE_BINDINGS, binding)
    return await account_token(cluster, "default", "scraper")


@async_test
async def test_health_is_told_to_everybody_and_metrics_to_those_of_whom_the_cluster_says_so() -> None:
    async with foreign() as cluster:
        token = await _scraper(cluster)
        weak = await account_token(cluster, "default", "weak")
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        async with (
            attached(cluster, serving=_HERE) as found,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        ):
            await until_leading(found)

            async def get(path: str, bearer: str = "") -> tuple[int, str]:
                headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
                async with session.get(f"https://127.0.0.1:{found.port}{path}", headers=headers) as answer:
                    return answer.status, await answer.text()

            assert await get("/healthz") == (200, "ok")
            assert await get("/livez/leaderElection") == (200, "ok")
            code, text = await get("/readyz?verbose")
            assert (code, text.splitlines()[1:]) == (
                200,
                ["[+]leaderElection ok", "[+]informer-sync ok", "[+]other-signers ok", "readyz check passed"],
            )  # fmt: skip
            assert (await get("/metrics"))[0] == 403
            assert (await get("/metrics", weak))[0] == 403
            assert (await get("/metrics", "no-token"))[0] == 401
            assert (await get("/debug/pprof", token))[0] == 403
            code, text = await get("/metrics", token)
            assert code == 200
            for expected in (
                'leader_election_master_status{name="kubevouch-controllers"} 1.0',
                'workqueue_depth{name="certificatesigningrequest-approving-controller"} 0.0',
                "rest_client_requests_total{",
            ):
                assert expected in text


@async_test
async def test_over_plain_http_this_machine_alone_is_answered() -> None:
    plain = ServingOptions(bind_address="127.0.0.1", port=0, is_plain=True)
    async with (
        foreign() as cluster,
        attached(cluster, serving=plain) as found,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{found.port}/metrics") as answer,
    ):
        assert answer.status == 200


@async_test
async def test_samples_of_several_clusters_say_which_and_a_family_stands_in_one_place() -> None:
    plain = ServingOptions(bind_address="127.0.0.1", port=0, is_plain=True)
    async with foreign() as one, foreign() as two:
        clusters = (cluster_of(one, "one"), cluster_of(two, "two"))
        async with (
            attached(one, options=options_for(one, clusters=clusters, serving=plain)) as found,
            aiohttp.ClientSession() as session,
        ):
            await until_leading(found, 0)
            await until_leading(found, 1)
            async with session.get(f"http://127.0.0.1:{found.port}/metrics") as answer:
                text = await answer.text()
            async with session.get(f"http://127.0.0.1:{found.port}/readyz?verbose") as answer:
                ready = await answer.text()
        for name in ("one", "two"):
            assert f'leader_election_master_status{{cluster="{name}",name="kubevouch-controllers"}} 1.0' in text
            assert f"[+]informer-sync-{name} ok" in ready
        heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
        assert len(heads) == len(set(heads))


@async_test
async def test_serving_certificates_are_approved_where_nobody_else_does_and_by_nothing_that_a_node_writes() -> None:
    async with foreign() as cluster, attached(cluster, controllers=("*",)) as found:
        await until_leading(found)
        admin, kubelet = cluster.client(), cluster.client("system:node:n1", ("system:nodes",))
        addresses = (("Hostname", "n1"), ("InternalIP", "10.0.0.9"), ("InternalIP", "127.0.0.9"))
        await admin.create(catalog.NODES, node_with(addresses=addresses))
        # On another server a requester writes its annotations itself.
        forged = {SOURCE_ADDRESS_ANNOTATION: "10.0.0.8"}
        await kubelet.create(catalog.CERTIFICATE_SIGNING_REQUESTS, asks("loopback", ips=("10.0.0.9", "127.0.0.9")))
        await kubelet.create(
            catalog.CERTIFICATE_SIGNING_REQUESTS, asks("forged", dns=("n1", "x"), ips=("10.0.0.8",), annotations=forged)
        )
        await kubelet.create(catalog.CERTIFICATE_SIGNING_REQUESTS, asks("good"))
        decided = {
            name: (await until(cluster, name, lambda csr: bool(csr.status.conditions))).status.conditions[0]
            for name in ("good", "loopback")
        }
        assert {name: (each.type, each.reason) for name, each in decided.items()} == {
            "good": ("Approved", "AutoApproved"),
            "loopback": ("Denied", "ForbiddenName"),
        }
        stored = await admin.get(catalog.CERTIFICATE_SIGNING_REQUESTS, "forged")
        assert not stored.status.conditions
