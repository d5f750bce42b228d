"""Attached controllers beside a server that refuses nobody the deletion of our definitions."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

from asynctest import async_test
from attached_world import (
    JOINING,
    account_config,
    asked,
    attached,
    foreign,
    is_issued,
    options_for,
    signing_of,
    until,
    until_leading,
)
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.apiextensions_v1.conditions import ESTABLISHED, is_true
from kubevouch.api.certificates_v1 import has_condition
from kubevouch.api.core_v1 import ServiceAccount
from kubevouch.api.core_v1.events import Event
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REQUEST_POLICIES, CERTIFICATE_REVOCATIONS
from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authorization.policy import cluster_role, cluster_role_binding, service_account
from kubevouch.client.interface import EventType, WatchOptions
from kubevouch.client.stored import find
from kubevouch.ledger.beside import LedgerBeside
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.scheme import Resource
from kubevouch.policy.standing_decisions import in_force
from kubevouch.standalone.attached.options import AttachedCluster
from kubevouch.testing.cluster import Cluster
from kubevouch.testing.waiting import wait_for
from kubevouch.util.clock import SystemClock

TOKEN = "abcdef"
STOLEN: dict[str, Any] = {
    "apiVersion": "kubevouch.io/v1alpha1",
    "kind": "CertificateRevocation",
    "metadata": {"name": "stolen"},
    # Who asks in the name of this node is refused, and so is whoever comes with the key.
    "spec": {"reason": "keyCompromise", "revoked": {"users": ["system:node:worker-9"], "tokens": [TOKEN]}},
}
CLOSING: dict[str, Any] = {
    "apiVersion": "kubevouch.io/v1alpha1",
    "kind": "CertificateRequestPolicy",
    "metadata": {"name": "closing"},
    "spec": {
        "effect": "Require",
        "selector": {"signerNames": [wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER]},
        "usages": ["client auth"],
    },
}
OBJECTS: dict[Resource[Any], dict[str, Any]] = {CERTIFICATE_REVOCATIONS: STOLEN, CERTIFICATE_REQUEST_POLICIES: CLOSING}


def _is_protected(obj: Any) -> bool:
    return wellknown.DECISION_PROTECTION_FINALIZER in obj.metadata.finalizers


async def _decide(cluster: Cluster) -> dict[str, str]:
    """Uids by name."""
    uids = {}
    for resource, tree in OBJECTS.items():
        made = await cluster.client().create(resource, resource.codec.from_tree(tree).value)
        uids[made.metadata.name] = made.metadata.uid
        await wait_for(cluster.client(), resource, made.metadata.name, until=_is_protected)
    return uids


async def _back(cluster: Cluster, resource: Resource[Any], name: str, uid: str) -> None:
    """First the definition, then the object, which is another one."""
    client = cluster.client()
    definition = str(resource.group_resource)
    await wait_for(
        client, catalog.CUSTOM_RESOURCE_DEFINITIONS, definition,
        until=lambda obj: is_true(obj, ESTABLISHED) and obj.metadata.deletion_timestamp is None,
    )  # fmt: skip
    await wait_for(client, resource, name, until=lambda obj: obj.metadata.uid != uid and _is_protected(obj))


async def _refused(cluster: Cluster, name: str) -> None:
    await asked(cluster, name, "worker-1")
    csr = await until(
        cluster, name, lambda csr: has_condition(csr, wellknown.CSR_DENIED) or bool(csr.status.certificate)
    )
    assert has_condition(csr, wellknown.CSR_DENIED), csr.status


@async_test
async def test_a_definition_that_somebody_deletes_is_put_back_with_its_objects() -> None:
    async with foreign() as cluster:
        options = options_for(cluster, controllers=JOINING, signing=signing_of(cluster))
        async with attached(cluster, options=options) as found:
            await until_leading(found)
            uids = await _decide(cluster)
            await _refused(cluster, "before")
            for resource, tree in OBJECTS.items():
                name = tree["metadata"]["name"]
                await cluster.client().delete(catalog.CUSTOM_RESOURCE_DEFINITIONS, str(resource.group_resource))
                await _refused(cluster, f"meanwhile-{resource.plural}")
                await _back(cluster, resource, name, uids[name])
            await _refused(cluster, "afterwards")


@async_test
async def test_what_was_lifted_while_another_process_led_stays_lifted(tmp_path: Path) -> None:
    """Each process has a ledger of its own, and the first comes back with what it knew."""
    async with foreign() as cluster:
        first, second = (
            options_for(cluster, controllers=JOINING, signing=signing_of(cluster), ledger=tmp_path / name)
            for name in ("first.db", "second.db")
        )
        async with attached(cluster, options=first) as found:
            await until_leading(found)
            await _decide(cluster)
        async with attached(cluster, options=second) as found:
            await until_leading(found)
            await cluster.client().delete(CERTIFICATE_REQUEST_POLICIES, "closing")
            while await find(cluster.client(), CERTIFICATE_REQUEST_POLICIES, "closing") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0)
        async with attached(cluster, options=first) as found:
            await until_leading(found)
            # Nothing is approved before it is known what is in force.
            await asked(cluster, "afterwards", "worker-1")
            await until(cluster, "afterwards", is_issued)
        assert await find(cluster.client(), CERTIFICATE_REQUEST_POLICIES, "closing") is None
        ledger = LedgerBeside(tmp_path / "first.db", None, SystemClock())
        assert [name for _, name in await in_force(ledger)] == ["stolen"]


async def _event(cluster: Cluster, about: str) -> Event:
    """The first that says it; Events have names of their own."""
    options = WatchOptions(field_selector=f"involvedObject.name={about}")
    async with aclosing(cluster.client().watch(catalog.EVENTS, "", options)) as events:
        async for each in events:
            if each.type is EventType.ADDED and each.object is not None:
                return each.object
    raise AssertionError("the watch has ended")


async def _account(cluster: Cluster) -> AttachedCluster:
    """One that may do everything but write definitions."""
    account = ServiceAccount(metadata=ObjectMeta(name="vouch", namespace="kube-system"))
    await cluster.client().create(catalog.SERVICE_ACCOUNTS, account)
    groups = ["", "certificates.k8s.io", "authorization.k8s.io", "coordination.k8s.io", "kubevouch.io",
              "discovery.k8s.io"]  # fmt: skip
    rules = (
        PolicyRule(verbs=["*"], api_groups=groups, resources=["*"]),
        PolicyRule(verbs=["get", "list", "watch"], api_groups=["apiextensions.k8s.io"], resources=["*"]),
    )
    await cluster.client().create(catalog.CLUSTER_ROLES, cluster_role("vouch", *rules))
    subject = service_account("vouch")
    await cluster.client().create(catalog.CLUSTER_ROLE_BINDINGS, cluster_role_binding("vouch", subject))
    return AttachedCluster("", await account_config(cluster, "kube-system", "vouch"))


@async_test
async def test_what_cannot_be_put_back_is_in_force_and_said(tmp_path: Path) -> None:
    """Also by a process that begins when the definitions are gone: its ledger knows."""
    async with foreign() as cluster:
        account = await _account(cluster)
        options = options_for(cluster, clusters=(account,), controllers=JOINING, signing=signing_of(cluster),
                              ledger=tmp_path / "ledger.db")  # fmt: skip
        async with attached(cluster, options=options) as found:
            await until_leading(found)
            await _decide(cluster)
            for resource in OBJECTS:
                await cluster.client().delete(catalog.CUSTOM_RESOURCE_DEFINITIONS, str(resource.group_resource))
            await _refused(cluster, "meanwhile")
            told = await _event(cluster, str(CERTIFICATE_REQUEST_POLICIES.group_resource))
            assert told.reason == "DecisionLost"
            assert "cannot be put back" in told.message
            lost = [each for each in found.clusters[0].metrics.collect() if each.name == "kubevouch_decisions_lost"]
            assert {each.labels["resource"]: each.value for each in lost[0].samples} == {
                "certificaterevocations": 1, "nodeidentities": 0, "certificaterequestpolicies": 1,
            }  # fmt: skip
        async with attached(cluster, options=options) as found:
            await until_leading(found)
            await _refused(cluster, "afterwards")
