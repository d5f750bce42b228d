"""What is revoked, banned or required stands, whatever becomes of its objects, until a request takes it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubevouch.api.kubevouch_v1alpha1.catalog import (
    CERTIFICATE_REQUEST_POLICIES,
    CERTIFICATE_REVOCATIONS,
    NODE_IDENTITIES,
)
from kubevouch.api.kubevouch_v1alpha1.guards import authors_of
from kubevouch.client.stored import find
from kubevouch.machinery.scheme import Resource
from kubevouch.testing.cluster import Cluster
from kubevouch.testing.waiting import wait_for
from kubevouch.wellknown import DECISION_PROTECTION_FINALIZER
from stolen_certificate import Thief, manifest, serial_of

CRD = "CustomResourceDefinition"
BAN = {"apiVersion": "kubevouch.io/v1alpha1", "kind": "NodeIdentity", "metadata": {"name": "worker-9"},
       "spec": {"banned": True, "bannedReason": "stolen"}}  # fmt: skip
CLOSING = {
    "apiVersion": "kubevouch.io/v1alpha1",
    "kind": "CertificateRequestPolicy",
    "metadata": {"name": "closing"},
    "spec": {
        "effect": "Require",
        "selector": {"signerNames": ["kubernetes.io/kube-apiserver-client-kubelet"]},
        "usages": ["digital signature", "client auth"],
        "subject": {"commonName": {"values": ["system:node:only-me"]}},
    },
}
OBJECTS: list[tuple[Resource[Any], dict[str, Any]]] = [
    (CERTIFICATE_REVOCATIONS, manifest("stolen", users=["system:node:worker-9"])),
    (CERTIFICATE_REVOCATIONS, manifest("held", "certificateHold", users=["system:node:worker-9"])),
    (NODE_IDENTITIES, BAN),
    (CERTIFICATE_REQUEST_POLICIES, CLOSING),
]
NAMES = ["revocation", "hold", "ban", "policy"]


_SECONDS = 60


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=("*",)) as running:
        yield running


def create(cluster: Cluster, resource: Resource[Any], tree: dict[str, Any]) -> str:
    """Its uid, once the ledger has it."""
    made = cluster.run(cluster.client().create(resource, resource.codec.from_tree(tree).value))
    cluster.settle()
    return str(made.metadata.uid)


def there(cluster: Cluster, resource: Resource[Any], name: str) -> Any | None:
    return cluster.run(find(cluster.client(), resource, name))


def until_back(cluster: Cluster, resource: Resource[Any], name: str, uid: str) -> Any:
    """Another object of that name, once the ledger has it, too. A definition that goes is looked at each second."""
    for _ in range(_SECONDS):
        cluster.settle()
        found = there(cluster, resource, name)
        if (
            found is not None
            and found.metadata.uid != uid
            and DECISION_PROTECTION_FINALIZER in found.metadata.finalizers
        ):
            return found
        cluster.clock.advance(1.0)
    raise AssertionError(f"{name} is not back")


def erase(cluster: Cluster, resource: Resource[Any], name: str) -> None:
    """As whoever writes to etcd does."""
    store = cluster._require().store

    async def work() -> None:
        key = f"/registry/{resource.group}/{resource.plural}/{name}"
        found = await store.get(key)
        assert found is not None
        await store.delete(key, found.revision)

    cluster.run(work())


@pytest.mark.parametrize(("resource", "tree"), OBJECTS, ids=NAMES)
def test_what_is_erased_from_the_store_is_put_back(cluster: Cluster, resource: Resource[Any], tree: Any) -> None:
    uid = create(cluster, resource, tree)
    name = tree["metadata"]["name"]
    found = there(cluster, resource, name)
    assert found is not None
    assert DECISION_PROTECTION_FINALIZER in found.metadata.finalizers
    erase(cluster, resource, name)
    assert until_back(cluster, resource, name, uid).spec


@pytest.mark.parametrize(("resource", "tree"), OBJECTS, ids=NAMES)
def test_what_goes_with_its_definition_is_put_back(cluster: Cluster, resource: Resource[Any], tree: Any) -> None:
    """Administrators may delete definitions; that is no word about any object."""
    uid = create(cluster, resource, tree)
    cluster.delete(CRD, str(resource.group_resource))
    assert until_back(cluster, resource, tree["metadata"]["name"], uid).spec


@pytest.mark.parametrize(("resource", "tree"), OBJECTS[1:], ids=NAMES[1:])
def test_what_is_decided_after_a_definition_came_back_stands_as_well(
    cluster: Cluster, resource: Resource[Any], tree: Any
) -> None:
    """Other controllers stop following a kind whose definition went; those that decide by it do not."""
    before = cluster.get(CRD, str(resource.group_resource))
    uid = create(cluster, resource, {**tree, "metadata": {"name": "first"}})
    cluster.delete(CRD, str(resource.group_resource))
    until_back(cluster, resource, "first", uid)
    assert cluster.get(CRD, str(resource.group_resource)).metadata.uid != before.metadata.uid
    # Whoever lists again waits for half a minute at most.
    for _ in range(_SECONDS):
        cluster.settle()
        cluster.clock.advance(1.0)
    uid = create(cluster, resource, tree)
    found = there(cluster, resource, tree["metadata"]["name"])
    assert found is not None and DECISION_PROTECTION_FINALIZER in found.metadata.finalizers
    erase(cluster, resource, tree["metadata"]["name"])
    assert until_back(cluster, resource, tree["metadata"]["name"], uid).spec


@pytest.mark.parametrize(("resource", "tree"), OBJECTS, ids=NAMES)
def test_a_store_that_went_back_forgets_nothing(cluster: Cluster, resource: Resource[Any], tree: Any) -> None:
    running = cluster._require()
    store: Any = running.store
    cluster.settle()
    before = store.snapshot()
    uid = create(cluster, resource, tree)
    cluster.run(_go_back(running, before))
    assert until_back(cluster, resource, tree["metadata"]["name"], uid).spec


async def _go_back(running: Any, before: Any) -> None:
    running.store.restore(before)
    await running.server.api.cacher.newest()


def test_a_ban_that_a_store_has_taken_back_is_put_back(cluster: Cluster) -> None:
    """The object is there, as it was before: older, by its generation, than what the ledger has."""
    running = cluster._require()
    create(cluster, NODE_IDENTITIES, {**BAN, "spec": {}})
    before = running.store.snapshot()  # type: ignore[attr-defined]  # it is in memory
    found = there(cluster, NODE_IDENTITIES, "worker-9")
    assert found is not None
    cluster.run(cluster.client().update(NODE_IDENTITIES, NODE_IDENTITIES.codec.from_tree({
        **BAN, "metadata": {"name": "worker-9", "resourceVersion": found.metadata.resource_version}}).value,
    ))  # fmt: skip
    cluster.settle()
    cluster.run(_go_back(running, before))
    cluster.run(wait_for(cluster.client(), NODE_IDENTITIES, "worker-9", until=lambda obj: obj.spec.banned))


def test_what_is_put_back_is_still_whose_it_was(cluster: Cluster) -> None:
    """An author may not speak for a request that the policy asks people about."""
    tree = CERTIFICATE_REQUEST_POLICIES.codec.from_tree(CLOSING).value
    made = cluster.run(cluster.client("alice", ["system:masters"]).create(CERTIFICATE_REQUEST_POLICIES, tree))
    assert authors_of(made) == {"alice"}
    hold = CERTIFICATE_REVOCATIONS.codec.from_tree(manifest("held", "certificateHold", users=["bob"])).value
    held = cluster.run(cluster.client("alice", ["system:masters"]).create(CERTIFICATE_REVOCATIONS, hold))
    cluster.settle()
    erase(cluster, CERTIFICATE_REQUEST_POLICIES, "closing")
    erase(cluster, CERTIFICATE_REVOCATIONS, "held")
    back = until_back(cluster, CERTIFICATE_REQUEST_POLICIES, "closing", made.metadata.uid)
    assert "alice" in authors_of(back)
    assert until_back(cluster, CERTIFICATE_REVOCATIONS, "held", held.metadata.uid).spec.requested_by == "alice"


def test_a_stolen_certificate_opens_nothing_meanwhile(cluster: Cluster, tmp_path: Path) -> None:
    thief, other = Thief(cluster, tmp_path), Thief(cluster, tmp_path, "worker-2")
    uid = create(cluster, CERTIFICATE_REVOCATIONS, manifest("stolen", serials=serial_of(cluster, thief.certificate)))
    assert (thief.looks(), other.looks()) == (401, 404)
    erase(cluster, CERTIFICATE_REVOCATIONS, "stolen")
    assert (thief.looks(), other.looks()) == (401, 404)
    uid = str(until_back(cluster, CERTIFICATE_REVOCATIONS, "stolen", uid).metadata.uid)
    cluster.delete(CRD, str(CERTIFICATE_REVOCATIONS.group_resource))
    assert (thief.looks(), other.looks()) == (401, 404)
    until_back(cluster, CERTIFICATE_REVOCATIONS, "stolen", uid)
    assert (thief.looks(), other.looks()) == (401, 404)


@pytest.mark.parametrize(("resource", "tree"), OBJECTS[1:], ids=NAMES[1:])
def test_an_admitted_deletion_takes_it_back(cluster: Cluster, resource: Resource[Any], tree: Any) -> None:
    create(cluster, resource, tree)
    cluster.run(cluster.client().delete(resource, tree["metadata"]["name"]))
    cluster.settle()
    assert there(cluster, resource, tree["metadata"]["name"]) is None


def test_an_admitted_update_takes_it_back(cluster: Cluster) -> None:
    create(cluster, NODE_IDENTITIES, BAN)
    found = there(cluster, NODE_IDENTITIES, "worker-9")
    assert found is not None
    free = NODE_IDENTITIES.codec.to_tree(found)
    free["spec"] = {}
    cluster.run(cluster.client().update(NODE_IDENTITIES, NODE_IDENTITIES.codec.from_tree(free).value))
    cluster.settle()
    found = there(cluster, NODE_IDENTITIES, "worker-9")
    assert found is not None and not found.spec.banned and not found.metadata.finalizers


def test_no_owner_takes_a_revocation_along(cluster: Cluster) -> None:
    """The garbage collector asks as itself, and what it deletes is a hold."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}
    tree = manifest("held", "certificateHold", users=["system:node:worker-9"])
    create(cluster, CERTIFICATE_REVOCATIONS, {**tree, "metadata": {"name": "held", "ownerReferences": [owner]}})
    cluster.settle()
    found = there(cluster, CERTIFICATE_REVOCATIONS, "held")
    assert found is not None and found.metadata.owner_references == []
