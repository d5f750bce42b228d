"""What an operator has taken back under one leader is not put back by the next one, whose ledger has it in force."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from kubevouch.admission.own_kind_protection import OwnKindProtection
from kubevouch.api.catalog import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CONFIG_MAPS, EVENTS, ROLE_BINDINGS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.api.kubevouch_v1alpha1.catalog import (
    CERTIFICATE_REQUEST_POLICIES,
    CERTIFICATE_REVOCATIONS,
    NODE_IDENTITIES,
)
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.policy import cluster_role, cluster_role_binding, rule, service_account
from kubevouch.client.interface import Client
from kubevouch.client.stored import find
from kubevouch.controllers.decision_releases import DecisionReleases
from kubevouch.ledger.entries import RELEASED, Query
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.machinery.scheme import Resource
from kubevouch.policy.standing_decisions import in_force
from kubevouch.records.decision_releases import LAYOUT, config_map_of
from kubevouch.revocation.revocations import Revocations
from kubevouch.server.bootstrap import own_kinds
from kubevouch.standalone.controllers import RunningControllers, start_controllers
from kubevouch.standalone.revocation import keep_what_stands
from kubevouch.testing.clock import FakeClock, settle
from kubevouch.wellknown import (
    AUTHENTICATED_GROUP,
    DECISION_PROTECTION_CONTROLLER,
    DECISION_PROTECTION_FINALIZER,
    KUBE_SYSTEM_NAMESPACE,
)
from replicas_world import Replica, replicas

NODE = "system:node:worker-9"
SPECS: dict[Resource[Any], dict[str, Any]] = {
    CERTIFICATE_REVOCATIONS: {"reason": "certificateHold", "revoked": {"users": [NODE]}},
    NODE_IDENTITIES: {"banned": True, "bannedReason": "stolen"},
    CERTIFICATE_REQUEST_POLICIES: {
        "effect": "Require",
        "selector": {"signerNames": ["kubernetes.io/kube-apiserver-client-kubelet"]},
        "usages": ["client auth"],
    },
}
KINDS = pytest.mark.parametrize("resource", SPECS, ids=lambda resource: resource.plural)
NAME = "worker-9"
_TURNS = 4000


class World:
    """Two API servers on one store, and a ledger for each of the processes."""

    def __init__(self, servers: Sequence[Replica], clock: FakeClock) -> None:
        self.clock = clock
        self.servers = servers
        self.ledgers = [MemoryLedger() for _ in servers]
        self.lost: list[str] = []
        """Names of what counted as lost, for a moment at least."""

    @property
    def client(self) -> Client:
        return self.servers[1].client

    @asynccontextmanager
    async def leads(self, number: int) -> AsyncIterator[RunningControllers]:
        """The controllers of this server work, until another one's do."""
        running = start_controllers(
            self.servers[number].server, ("decisionprotection", "certificaterevocations"), ledger=self.ledgers[number]
        )
        # Nothing of it runs before this waits.
        running.decisions.on_change(lambda _, obj, is_lost: self.lost.append(obj.metadata.name) if is_lost else None)
        try:
            await self.until(lambda: _has_looked(running))
            yield running
            await self.rest(running)
        finally:
            await running.close()

    async def rest(self, running: RunningControllers) -> None:
        """All is done that comes in a few seconds."""
        for _ in range(20):
            self.clock.advance(0.5)
            await settle()
        await self.until(lambda: _is_idle(running))

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(_TURNS):
            if await condition():
                return
            self.clock.advance(0.05)
            await settle()
        raise AssertionError("it did not come")

    async def find(self, resource: Resource[Any]) -> Any:
        return await find(self.client, resource, NAME)

    async def is_protected(self, resource: Resource[Any], number: int) -> None:
        async def check() -> bool:
            held = await in_force(self.ledgers[number])
            found = await self.find(resource)
            key = resource.plural, NAME
            return (
                found is not None
                and DECISION_PROTECTION_FINALIZER in found.metadata.finalizers
                and key in held
                and held[key].metadata.uid == found.metadata.uid
            )

        await self.until(check)

    async def decide(self, resource: Resource[Any], number: int) -> Any:
        """It is made, and the ledger of this process has it."""
        tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": NAME},
                "spec": SPECS[resource]}  # fmt: skip
        made = await self.client.create(resource, resource.codec.from_tree(tree).value)
        await self.is_protected(resource, number)
        return made

    async def lift(self, resource: Resource[Any]) -> None:
        """As an operator does, until it is gone."""
        await self.client.delete(resource, NAME)

        async def check() -> bool:
            return await self.find(resource) is None

        await self.until(check)

    async def erase(self, resource: Resource[Any]) -> None:
        """As who writes to the store does."""
        store = self.servers[0].link.store
        key = f"/registry/{resource.group}/{resource.plural}/{NAME}"
        stored = await store.get(key)
        assert stored is not None
        await store.delete(key, stored.revision)
        for each in self.servers:
            await each.server.api.cacher.newest()

    async def put_back(self) -> int:
        return sum(each.reason == "DecisionPutBack" for each in (await self.client.list(EVENTS)).items)

    async def released(self, number: int) -> list[str]:
        entries = await self.ledgers[number].find(Query(kinds=frozenset({RELEASED})))
        return [each.entry.message for each in entries]


async def _has_looked(running: RunningControllers) -> bool:
    return running.decisions.has_loaded


async def _is_idle(running: RunningControllers) -> bool:
    return running.manager.is_idle


@asynccontextmanager
async def world(folder: Path, **more: Any) -> AsyncIterator[World]:
    clock = FakeClock()
    async with replicas(2, folder, clock, **more) as servers:
        await own_kinds.ensure(servers[0].client)
        await settle()
        await clock.run(1.0)
        yield World(servers, clock)


@KINDS
@async_test
async def test_what_was_lifted_under_another_leader_stays_lifted(resource: Resource[Any], tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        async with it.leads(0):
            await it.decide(resource, 0)
        async with it.leads(1):
            await it.is_protected(resource, 1)
            await it.lift(resource)
        it.lost.clear()
        async with it.leads(0):
            pass
        assert await it.find(resource) is None
        assert await it.put_back() == 0
        assert await in_force(it.ledgers[0]) == {}
        assert ["another process" in each for each in await it.released(0)] == [True]
        assert it.lost == []


@KINDS
@async_test
async def test_what_nobody_has_lifted_is_put_back_by_the_next_leader(resource: Resource[Any], tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        async with it.leads(0):
            made = await it.decide(resource, 0)
        await it.erase(resource)
        async with it.leads(0):
            await it.is_protected(resource, 0)
        assert (await it.find(resource)).metadata.uid != made.metadata.uid
        assert await it.put_back() == 1


@async_test
async def test_who_does_not_know_that_it_was_put_back_learns_of_its_release(tmp_path: Path) -> None:
    """The first ledger knows another uid than the object had that was lifted."""
    async with world(tmp_path) as it:
        async with it.leads(0):
            await it.decide(CERTIFICATE_REVOCATIONS, 0)
        async with it.leads(1):
            await it.is_protected(CERTIFICATE_REVOCATIONS, 1)
            await it.erase(CERTIFICATE_REVOCATIONS)
            await it.is_protected(CERTIFICATE_REVOCATIONS, 1)
            await it.lift(CERTIFICATE_REVOCATIONS)
        before = await it.put_back()
        async with it.leads(0):
            pass
        assert await it.find(CERTIFICATE_REVOCATIONS) is None
        assert await it.put_back() == before == 1


@async_test
async def test_a_release_that_fell_out_of_the_record_is_put_back_and_said(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        async with it.leads(0):
            made = await it.decide(CERTIFICATE_REVOCATIONS, 0)
        async with it.leads(1):
            await it.is_protected(CERTIFICATE_REVOCATIONS, 1)
            await it.lift(CERTIFICATE_REVOCATIONS)
        await it.client.delete(CONFIG_MAPS, config_map_of(made.metadata.uid), KUBE_SYSTEM_NAMESPACE)
        async with it.leads(0):
            await it.is_protected(CERTIFICATE_REVOCATIONS, 0)
        assert await it.put_back() == 1


async def _unban(it: World) -> None:
    found = await it.find(NODE_IDENTITIES)
    tree = NODE_IDENTITIES.codec.to_tree(found)
    tree["spec"] = {}
    await it.client.update(NODE_IDENTITIES, NODE_IDENTITIES.codec.from_tree(tree).value)

    async def check() -> bool:
        return not (await it.find(NODE_IDENTITIES)).metadata.finalizers

    await it.until(check)


@async_test
async def test_an_update_that_lifts_a_ban_is_the_newer_word(tmp_path: Path) -> None:
    """Also after several of them, and once the object that nobody protects any more was deleted."""
    async with world(tmp_path) as it:
        async with it.leads(0):
            await it.decide(NODE_IDENTITIES, 0)
        async with it.leads(1):
            await it.is_protected(NODE_IDENTITIES, 1)
            await _unban(it)
        async with it.leads(0):
            pass
        found = await it.find(NODE_IDENTITIES)
        assert not found.spec.banned and not found.metadata.finalizers
        assert await it.put_back() == 0


@async_test
async def test_a_ban_that_was_lifted_is_not_put_back_once_its_object_is_gone(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        async with it.leads(0):
            await it.decide(NODE_IDENTITIES, 0)
        async with it.leads(1):
            await it.is_protected(NODE_IDENTITIES, 1)
            await _unban(it)
            await it.lift(NODE_IDENTITIES)
        async with it.leads(0):
            pass
        assert await it.find(NODE_IDENTITIES) is None


@async_test
async def test_a_ban_after_one_that_was_lifted_stays(tmp_path: Path) -> None:
    """The release is about a former generation of the same object."""
    async with world(tmp_path) as it:
        async with it.leads(0):
            await it.decide(NODE_IDENTITIES, 0)
            await _unban(it)
            tree = NODE_IDENTITIES.codec.to_tree(await it.find(NODE_IDENTITIES))
            tree["spec"] = SPECS[NODE_IDENTITIES]
            await it.client.update(NODE_IDENTITIES, NODE_IDENTITIES.codec.from_tree(tree).value)
            await it.is_protected(NODE_IDENTITIES, 0)
        await it.erase(NODE_IDENTITIES)
        async with it.leads(0):
            await it.is_protected(NODE_IDENTITIES, 0)
        assert (await it.find(NODE_IDENTITIES)).spec.banned


@async_test
async def test_a_store_that_goes_back_takes_the_release_along(tmp_path: Path) -> None:
    """Both are as old: what was lifted since is in force again, and what was in force is put back."""
    async with world(tmp_path) as it:
        store: Any = it.servers[0].link.store
        async with it.leads(0):
            await it.decide(CERTIFICATE_REVOCATIONS, 0)
        before = store.snapshot()
        async with it.leads(1):
            await it.is_protected(CERTIFICATE_REVOCATIONS, 1)
            await it.lift(CERTIFICATE_REVOCATIONS)
        store.restore(before)
        for each in it.servers:
            await each.server.api.cacher.newest()
        async with it.leads(0):
            await it.is_protected(CERTIFICATE_REVOCATIONS, 0)


@async_test
async def test_a_server_that_starts_later_refuses_nobody_for_what_was_lifted(tmp_path: Path) -> None:
    """Before it serves, it reads its ledger; what went otherwise counts."""
    async with world(tmp_path) as it:
        async with it.leads(0):
            await it.decide(CERTIFICATE_REVOCATIONS, 0)
        async with it.leads(1):
            await it.is_protected(CERTIFICATE_REVOCATIONS, 1)
            await it.lift(CERTIFICATE_REVOCATIONS)
        releases = DecisionReleases(it.servers[0].client, it.clock)
        revocations = Revocations.none()
        await keep_what_stands(revocations, it.ledgers[0], releases)
        assert len(revocations) == 0
        for name in LAYOUT.names:
            if await find(it.client, CONFIG_MAPS, name, KUBE_SYSTEM_NAMESPACE) is not None:
                await it.client.delete(CONFIG_MAPS, name, KUBE_SYSTEM_NAMESPACE)
        await keep_what_stands(revocations, it.ledgers[0], releases)
        assert len(revocations) == 1


@async_test
async def test_a_leader_that_another_has_replaced_puts_nothing_back(tmp_path: Path) -> None:
    """It has not noticed yet that its Lease is lost, and hears of the object when that is gone."""
    async with world(tmp_path) as it, it.leads(0) as former:
        await it.decide(CERTIFICATE_REVOCATIONS, 0)
        async with it.leads(1):
            await it.is_protected(CERTIFICATE_REVOCATIONS, 1)
            it.servers[0].link.hears.clear()
            await it.lift(CERTIFICATE_REVOCATIONS)
        it.servers[0].link.hears.set()
        await it.rest(former)
        assert await it.find(CERTIFICATE_REVOCATIONS) is None
        assert await it.put_back() == 0
        assert await in_force(it.ledgers[0]) == {}


def _acting(it: World, account: str) -> Client:
    user = UserInfo(f"system:serviceaccount:{KUBE_SYSTEM_NAMESPACE}:{account}", groups=(AUTHENTICATED_GROUP,))
    return it.servers[0].server.api.loopback(user, "test")


async def _code(work: Awaitable[Any]) -> int:
    try:
        answer = await work
    except APIStatusError as err:
        return err.code
    return int(getattr(answer, "status", 200))


@pytest.mark.parametrize("disabled", [(), (OwnKindProtection.name,)], ids=["the server's code", "the guard"])
@async_test
async def test_who_writes_config_maps_forges_no_release(disabled: tuple[str, ...], tmp_path: Path) -> None:
    """With every right on ConfigMaps."""
    async with world(tmp_path, disabled_admission=disabled) as it:
        async with it.leads(0):
            made = await it.decide(CERTIFICATE_REVOCATIONS, 0)
        await it.client.create(CLUSTER_ROLES, cluster_role("writer", rule("*", "", "configmaps")))
        await it.client.create(CLUSTER_ROLE_BINDINGS, cluster_role_binding("writer", service_account("writer")))
        await it.clock.run(1.0)
        writer, controller = _acting(it, "writer"), _acting(it, DECISION_PROTECTION_CONTROLLER)
        plural, name = CERTIFICATE_REVOCATIONS.plural, config_map_of(made.metadata.uid)
        await DecisionReleases(writer, it.clock).release(plural, made)
        assert await find(it.client, CONFIG_MAPS, name, KUBE_SYSTEM_NAMESPACE) is None
        await DecisionReleases(controller, it.clock).release(plural, made)
        there = await it.client.get(CONFIG_MAPS, name, KUBE_SYSTEM_NAMESPACE)
        for work in (
            writer.update(CONFIG_MAPS, replace_metadata(there, labels={"a": "b"})),
            writer.delete(CONFIG_MAPS, name, KUBE_SYSTEM_NAMESPACE),
            writer.raw("DELETE", f"/api/v1/namespaces/{KUBE_SYSTEM_NAMESPACE}/configmaps"),
        ):
            assert await _code(work) == 403
        assert await find(it.client, CONFIG_MAPS, name, KUBE_SYSTEM_NAMESPACE) == there
        meta = ObjectMeta(name="mine", namespace=KUBE_SYSTEM_NAMESPACE, labels={"whose": "mine"})
        await writer.create(CONFIG_MAPS, ConfigMap(metadata=meta))
        meta = ObjectMeta(generate_name="mine-", namespace=KUBE_SYSTEM_NAMESPACE)
        await writer.create(CONFIG_MAPS, ConfigMap(metadata=meta))
        mine = f"/api/v1/namespaces/{KUBE_SYSTEM_NAMESPACE}/configmaps?labelSelector=whose%3Dmine"
        assert await _code(writer.raw("DELETE", mine)) == 200
        elsewhere = ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))
        await writer.create(CONFIG_MAPS, elsewhere)
        # Who may override, as administrators may.
        await it.client.delete(CONFIG_MAPS, name, KUBE_SYSTEM_NAMESPACE)


@async_test
async def test_without_the_right_to_the_record_a_release_waits_for_nothing(tmp_path: Path) -> None:
    """Of a cluster whose roles are of a former version: it is said, and another ledger may put it back."""
    async with world(tmp_path) as it:
        role = f"system:controller:{DECISION_PROTECTION_CONTROLLER}"
        await it.client.delete(ROLE_BINDINGS, role, KUBE_SYSTEM_NAMESPACE)
        await it.clock.run(1.0)
        async with it.leads(0):
            await it.decide(CERTIFICATE_REVOCATIONS, 0)
            await it.lift(CERTIFICATE_REVOCATIONS)
        assert await in_force(it.ledgers[0]) == {}
