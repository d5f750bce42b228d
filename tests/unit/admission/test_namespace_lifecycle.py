from __future__ import annotations

from typing import Any

import pytest

from asynctest import async_test
from decisions import admission_request
from kubevouch.admission.interface import Operation
from kubevouch.admission.namespace_lifecycle import RECENTLY_SECONDS, NamespaceLifecycle
from kubevouch.api.catalog import CONFIG_MAPS, LOCAL_SUBJECT_ACCESS_REVIEWS, NAMESPACES, NODES
from kubevouch.api.core_v1.configmaps import ConfigMap
from kubevouch.api.core_v1.namespaces import Namespace, NamespaceStatus
from kubevouch.api.core_v1.nodes import Node
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, StatusCause
from kubevouch.machinery.scheme import Resource
from kubevouch.testing.clock import FakeClock


class World:
    """A cache that lags behind: what is in ``stored`` is seen after a refresh."""

    def __init__(self, **phases: str) -> None:
        self.stored = {
            name: Namespace(metadata=ObjectMeta(name=name), status=NamespaceStatus(phase=phase))
            for name, phase in phases.items()
        }
        self.cached = dict(self.stored)
        self.refreshes = 0
        self.clock = FakeClock()
        self.plugin = NamespaceLifecycle(lambda name: self.cached.get(name), self.refresh, self.clock)

    async def refresh(self) -> None:
        self.refreshes += 1
        self.cached = dict(self.stored)

    async def write(self, operation: Operation = Operation.CREATE, namespace: str = "shop") -> None:
        obj = ConfigMap(metadata=ObjectMeta(name="menu", namespace=namespace))
        request = admission_request(operation, CONFIG_MAPS, obj)
        assert await self.plugin.admit(request) is obj

    async def delete(self, namespace: str = "shop") -> None:
        await self.plugin.admit(admission_request(Operation.DELETE, NAMESPACES, name=namespace))


@pytest.mark.parametrize(
    ("operation", "resource", "handled"),
    [
        (Operation.CREATE, CONFIG_MAPS, True),
        (Operation.UPDATE, CONFIG_MAPS, True),
        (Operation.DELETE, CONFIG_MAPS, False),
        (Operation.CREATE, NAMESPACES, False),
        (Operation.UPDATE, NAMESPACES, False),
        (Operation.DELETE, NAMESPACES, True),
        (Operation.CREATE, LOCAL_SUBJECT_ACCESS_REVIEWS, False),
    ],
)
def test_handles(operation: Operation, resource: Resource[Any], handled: bool) -> None:
    assert World().plugin.handles(operation, resource.group_resource, "") is handled


@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.UPDATE])
@async_test
async def test_missing_namespace_is_looked_for_again_and_not_found(operation: Operation) -> None:
    world = World()
    with pytest.raises(APIStatusError) as caught:
        await world.write(operation)
    assert caught.value.code == 404
    assert caught.value.status.message == 'namespaces "shop" not found'
    assert world.refreshes == 1


@async_test
async def test_namespace_that_the_cache_has_not_seen_yet() -> None:
    world = World(shop="Active")
    world.cached.clear()
    await world.write()
    assert world.refreshes == 1
    await world.write()
    assert world.refreshes == 1


@async_test
async def test_nothing_new_in_a_namespace_that_is_going() -> None:
    world = World(shop="Terminating")
    with pytest.raises(APIStatusError) as caught:
        await world.write()
    status = caught.value.status
    assert (status.code, status.reason) == (403, "Forbidden")
    assert status.message == (
        'configmaps "menu" is forbidden: unable to create new content in namespace shop because it is being terminated'
    )
    assert status.details is not None
    assert (status.details.name, status.details.kind) == ("menu", "configmaps")
    assert status.details.causes == [
        StatusCause(
            reason="NamespaceTerminating", message="namespace shop is being terminated", field="metadata.namespace"
        )
    ]
    await world.write(Operation.UPDATE)


@async_test
async def test_cluster_scoped_objects_need_no_namespace() -> None:
    node = Node(metadata=ObjectMeta(name="worker-1"))
    world = World()
    assert await world.plugin.admit(admission_request(Operation.CREATE, NODES, node)) is node
    assert world.refreshes == 0


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
@async_test
async def test_namespace_that_never_goes(name: str) -> None:
    with pytest.raises(APIStatusError) as caught:
        await World().delete(name)
    assert caught.value.code == 403
    assert caught.value.status.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


@pytest.mark.parametrize("name", ["shop", "kube-node-lease"])
@async_test
async def test_other_namespaces_go(name: str) -> None:
    await World().delete(name)


@pytest.mark.parametrize(("after", "believed"), [(0.0, False), (RECENTLY_SECONDS - 1, False), (RECENTLY_SECONDS, True)])
@async_test
async def test_cache_is_not_believed_about_what_was_just_deleted(after: float, believed: bool) -> None:
    world = World(shop="Active", other="Active")
    await world.delete()
    world.stored["shop"] = Namespace(metadata=ObjectMeta(name="shop"), status=NamespaceStatus(phase="Terminating"))
    world.clock.advance(after)
    await world.write(namespace="other")
    assert world.refreshes == 0
    if believed:
        await world.write()
    else:
        with pytest.raises(APIStatusError, match="being terminated"):
            await world.write()
    assert world.refreshes == (0 if believed else 1)
