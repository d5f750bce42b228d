"""What a server makes of a revocation that vanishes, with no controller beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.machinery.meta import replace_metadata
from kubevouch.server.bootstrap import own_kinds
from kubevouch.standalone.revocation import PREFIX
from kubevouch.testing.cluster import Cluster
from kubevouch.testing.waiting import wait_for
from kubevouch.wellknown import DECISION_PROTECTION_FINALIZER

CRD = "CustomResourceDefinition"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        running.run(own_kinds.ensure(running.server.client))
        yield running


def revoke(cluster: Cluster, *finalizers: str) -> None:
    tree = {
        "apiVersion": CERTIFICATE_REVOCATIONS.api_version,
        "kind": CERTIFICATE_REVOCATIONS.kind,
        "metadata": {"name": "r", "finalizers": list(finalizers)},
        "spec": {"reason": "certificateHold", "revoked": {"users": ["alice"]}},
    }
    made = CERTIFICATE_REVOCATIONS.codec.from_tree(tree).value
    cluster.run(cluster.client().create(CERTIFICATE_REVOCATIONS, made))


def erase(cluster: Cluster) -> None:
    running = cluster._require()

    async def work() -> None:
        found = await running.store.get(f"{PREFIX}r")
        assert found is not None
        await running.store.delete(found.key, found.revision)
        await running.server.api.cacher.newest()

    cluster.run(work())


def without_finalizers(cluster: Cluster) -> None:
    async def work() -> None:
        client = cluster.server.client
        found: Any = await client.get(CERTIFICATE_REVOCATIONS, "r")
        await client.update(CERTIFICATE_REVOCATIONS, replace_metadata(found, finalizers=[]))
        await cluster.server.api.cacher.newest()

    cluster.run(work())


def _is_going(obj: Any) -> bool:
    return obj.metadata.deletion_timestamp is not None


def counted(cluster: Cluster) -> list[str]:
    return [each.name for each in cluster.server.revocations]


def test_one_that_is_protected_counts_when_it_is_erased(cluster: Cluster) -> None:
    revoke(cluster, DECISION_PROTECTION_FINALIZER)
    erase(cluster)
    assert counted(cluster) == ["r"]


def test_one_that_nobody_protects_goes(cluster: Cluster) -> None:
    revoke(cluster)
    erase(cluster)
    assert counted(cluster) == []


def test_one_that_was_deleted_goes_with_its_last_finalizer(cluster: Cluster) -> None:
    revoke(cluster, DECISION_PROTECTION_FINALIZER)
    cluster.run(cluster.client().delete(CERTIFICATE_REVOCATIONS, "r"))
    assert counted(cluster) == ["r"]
    without_finalizers(cluster)
    assert counted(cluster) == []


def test_one_whose_definition_was_deleted_counts(cluster: Cluster) -> None:
    revoke(cluster, DECISION_PROTECTION_FINALIZER)
    cluster.delete(CRD, str(CERTIFICATE_REVOCATIONS.group_resource))

    # The server deletes the objects of a definition that goes; this one waits for its finalizer.
    asked = wait_for(cluster.client(), CERTIFICATE_REVOCATIONS, "r", until=_is_going)
    cluster.run(asked)
    without_finalizers(cluster)
    assert counted(cluster) == ["r"]
