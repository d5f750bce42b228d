"""Definitions that serve less, names that are somebody else's, and rights that are missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS, EVENTS
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.client.stored import find
from kubevouch.controllers.decision_protection import DecisionProtection
from kubevouch.controllers.interface import Request
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.policy.standing_decisions import StandingDecisions
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.cluster import Cluster
from kubevouch.wellknown import DECISION_PROTECTION_FINALIZER

CRD = "CustomResourceDefinition"
NAME = str(CERTIFICATE_REVOCATIONS.group_resource)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(controllers=("decisionprotection", "certificaterevocations")) as running:
        running.settle()
        yield running


def revoked(cluster: Cluster, user: str = "alice") -> Any:
    tree = {
        "apiVersion": CERTIFICATE_REVOCATIONS.api_version,
        "kind": CERTIFICATE_REVOCATIONS.kind,
        "metadata": {"name": "r"},
        "spec": {"reason": "keyCompromise", "revoked": {"users": [user]}},
    }
    return cluster.run(
        cluster.client().create(CERTIFICATE_REVOCATIONS, CERTIFICATE_REVOCATIONS.codec.from_tree(tree).value)
    )


def users(cluster: Cluster) -> set[str]:
    listed = cluster.run(cluster.client().list(CERTIFICATE_REVOCATIONS))
    return {user for each in listed.items for user in each.spec.revoked.users}


def reasons(cluster: Cluster) -> set[str]:
    return {each.reason for each in cluster.run(cluster.client().list(EVENTS)).items}


def changed(cluster: Cluster, change: str) -> None:
    """As an administrator may."""
    tree = CUSTOM_RESOURCE_DEFINITIONS.codec.to_tree(cluster.get(CRD, NAME))
    version = tree["spec"]["versions"][0]
    if change == "not served":
        version["served"] = False
    else:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        del spec["properties"]["revoked"]
        spec["required"] = ["reason"]
    cluster.update(CUSTOM_RESOURCE_DEFINITIONS.codec.from_tree(tree).value)


@pytest.mark.parametrize("change", ["not served", "pruned"])
def test_a_definition_that_serves_less_is_put_back(cluster: Cluster, change: str) -> None:
    revoked(cluster)
    cluster.settle()
    changed(cluster, change)
    for _ in range(40):
        cluster.run(cluster.clock.run(1.0))
    cluster.settle()
    assert users(cluster) == {"alice"}
    assert "DefinitionPutBack" in reasons(cluster)


async def _erase(store: Any) -> None:
    key = f"/registry/{CERTIFICATE_REVOCATIONS.group}/{CERTIFICATE_REVOCATIONS.plural}/r"
    await store.delete(key, (await store.get(key)).revision)


def test_a_name_that_is_somebody_elses_meanwhile_hides_nothing(cluster: Cluster) -> None:
    """A revocation's targets never change: it comes back beside the one that has its name."""
    revoked(cluster)
    cluster.settle()
    running = cluster._require()

    async def swap() -> None:
        await _erase(running.store)
        tree = {
            "apiVersion": CERTIFICATE_REVOCATIONS.api_version,
            "kind": CERTIFICATE_REVOCATIONS.kind,
            "metadata": {"name": "r"},
            "spec": {"reason": "keyCompromise", "revoked": {"users": ["nobody"]}},
        }
        await running.server.client.create(CERTIFICATE_REVOCATIONS, CERTIFICATE_REVOCATIONS.codec.from_tree(tree).value)

    cluster.run(swap())
    for _ in range(10):
        cluster.settle()
        cluster.clock.advance(1.0)
    assert users(cluster) == {"alice", "nobody"}
    cluster.settle()
    listed = cluster.run(cluster.client().list(CERTIFICATE_REVOCATIONS))
    assert all(DECISION_PROTECTION_FINALIZER in each.metadata.finalizers for each in listed.items)


def test_what_was_never_protected_may_go(cluster: Cluster) -> None:
    """Before the controller has looked, nobody has promised anything."""
    running = cluster._require()

    async def come_and_go() -> None:
        client = running.server.client
        await client.create(CERTIFICATE_REVOCATIONS, CERTIFICATE_REVOCATIONS.codec.from_tree({
            "apiVersion": CERTIFICATE_REVOCATIONS.api_version, "kind": CERTIFICATE_REVOCATIONS.kind,
            "metadata": {"name": "brief"},
            "spec": {"reason": "certificateHold", "revoked": {"users": ["alice"]}}}).value)  # fmt: skip
        await client.delete(CERTIFICATE_REVOCATIONS, "brief")

    cluster.run(come_and_go())
    for _ in range(5):
        cluster.settle()
        cluster.clock.advance(1.0)
    assert cluster.run(find(cluster.client(), CERTIFICATE_REVOCATIONS, "brief")) is None


def test_definitions_that_nobody_has_installed_are_not_made() -> None:
    """Beside a kube-apiserver they are the operator's to install. Those that the ledger has objects of were there."""
    with Cluster() as bare:
        decisions, plural = StandingDecisions(), CERTIFICATE_REVOCATIONS.plural
        protection = DecisionProtection(bare.client(), {}, decisions, MemoryLedger(), FakeClock())
        asked = Request(plural, resource=CUSTOM_RESOURCE_DEFINITIONS.plural)
        bare.run(protection.reconcile(asked))
        assert bare.list(CRD) == []
        decisions.hold((plural, "r"), CERTIFICATE_REVOCATIONS.type(metadata=ObjectMeta(name="r")))
        bare.run(protection.reconcile(asked))
        assert [each.metadata.name for each in bare.list(CRD)] == [NAME]
