"""A cluster is put back between two tests: ``Cluster.snapshot`` and ``restore``."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest
from kubernetes import client as official
from kubernetes import config as official_config
from kubernetes.client.exceptions import ApiException

from asynctest import async_test
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.cache.informer import ChangeHandler, SharedInformer
from kubevouch.client.interface import EventType, WatchOptions
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.testing import Cluster, ClusterError

SETTINGS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings"},
    "data": {"colour": "blue"},
}


def test_what_was_made_changed_and_deleted_is_as_before() -> None:
    with Cluster() as c:
        before = c.apply(SETTINGS)
        gone = c.create({**SETTINGS, "metadata": {"name": "gone"}})
        snapshot = c.snapshot()
        for _ in range(2):
            c.apply({**SETTINGS, "data": {"colour": "red"}})
            c.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "blue"}})
            c.create({**SETTINGS, "metadata": {"name": "new", "namespace": "blue"}})
            c.delete("cm", "gone")
            c.restore(snapshot)
            assert sorted(each.metadata.name for each in c.list("cm", "default")) == ["gone", "settings"]
            after = c.get("cm", "settings")
            assert (after.data, after.metadata.uid) == (before.data, before.metadata.uid)
            assert int(after.metadata.resource_version) > int(before.metadata.resource_version)
            assert c.get("cm", "gone").metadata.uid == gone.metadata.uid
            with pytest.raises(APIStatusError, match='namespaces "blue" not found'):
                c.get("Namespace", "blue")


@async_test
async def test_a_watch_hears_of_it_as_of_any_other_write() -> None:
    async with Cluster() as c:
        admin = c.client()
        kept = await admin.create(catalog.CONFIG_MAPS, _config_map("kept"))
        snapshot = await c.snapshot_async()
        await admin.create(catalog.CONFIG_MAPS, _config_map("new"))
        await admin.delete(catalog.CONFIG_MAPS, "kept", "default")
        options = WatchOptions(resource_version=kept.metadata.resource_version)
        seen = []
        async with aclosing(admin.watch(catalog.CONFIG_MAPS, "default", options)) as stream:
            await c.restore_async(snapshot)
            async for event in stream:
                assert event.object is not None
                seen.append((event.type, event.object.metadata.name))
                if len(seen) == 4:
                    break
        assert seen == [
            (EventType.ADDED, "new"), (EventType.DELETED, "kept"),
            (EventType.DELETED, "new"), (EventType.ADDED, "kept"),
        ]  # fmt: skip


@async_test
async def test_an_informer_holds_what_the_cluster_holds() -> None:
    async with Cluster() as c:
        admin = c.client()
        await admin.create(catalog.CONFIG_MAPS, _config_map("kept"))
        snapshot = await c.snapshot_async()
        gone = asyncio.Event()
        informer = SharedInformer(admin, catalog.CONFIG_MAPS, clock=c.clock, namespace="default")
        informer.add_handler(ChangeHandler(lambda _, is_gone: gone.set() if is_gone else None))
        running = asyncio.create_task(informer.run())
        try:
            await informer.wait_synced()
            await admin.create(catalog.CONFIG_MAPS, _config_map("new"))
            await c.restore_async(snapshot)
            await gone.wait()
            assert [each.metadata.name for each in informer.indexer.values()] == ["kept"]
        finally:
            running.cancel()
            await asyncio.wait({running})


def _config_map(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))


def test_what_the_server_knows_by_heart_is_put_back_too() -> None:
    """Roles, quotas, policies: what is read from caches, and built from them."""
    with Cluster() as c:
        c.apply_all("""
            apiVersion: v1
            kind: ResourceQuota
            metadata: {name: few, namespace: default}
            spec: {hard: {count/secrets: "1"}}
        """)
        snapshot = c.snapshot()
        alice = c.as_user("alice")
        for _ in range(2):
            with pytest.raises(APIStatusError) as caught:
                alice.list("cm")
            assert caught.value.reason == Reason.FORBIDDEN
            c.apply_all("""
                apiVersion: rbac.authorization.k8s.io/v1
                kind: ClusterRoleBinding
                metadata: {name: all}
                roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
                subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
                ---
                apiVersion: admissionregistration.k8s.io/v1
                kind: ValidatingAdmissionPolicy
                metadata: {name: none}
                spec:
                  matchConstraints:
                    resourceRules:
                    - {apiGroups: [coordination.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [leases]}
                  validations: [{expression: "false"}]
                ---
                apiVersion: admissionregistration.k8s.io/v1
                kind: ValidatingAdmissionPolicyBinding
                metadata: {name: none}
                spec: {policyName: none, validationActions: [Deny]}
            """)
            assert alice.list("cm")
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "one"}}
            c.create(secret)
            with pytest.raises(APIStatusError, match="exceeded quota"):
                c.create({**secret, "metadata": {"name": "two"}})
            with pytest.raises(APIStatusError, match="denied request: failed expression: false"):
                c.create(lease)
            c.restore(snapshot)
            c.create(lease)


def test_time_is_put_back_and_with_it_what_has_ended() -> None:
    with Cluster(controllers=("token-cleaner-controller",)) as c:
        c.token()
        snapshot, then = c.snapshot(), c.clock.now()
        c.clock.advance(25 * 3600)
        c.settle()
        assert c.list("Secret", "kube-system") == []
        c.restore(snapshot)
        c.settle()
        assert c.clock.now() == then
        assert len(c.list("Secret", "kube-system")) == 1


def test_what_clients_have_spent_is_theirs_again(tmp_path: Path) -> None:
    with Cluster(https=True) as c:
        c.apply_all("""
            apiVersion: rbac.authorization.k8s.io/v1
            kind: ClusterRoleBinding
            metadata: {name: all}
            roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
            subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]
        """)
        snapshot = c.snapshot()
        path = tmp_path / "bob.conf"
        path.write_text(c.kubeconfig_for("bob", ["system:nodes"]))
        with official_config.new_client_from_config(str(path)) as api:  # type: ignore[no-untyped-call]
            core = official.CoreV1Api(api)

            def write_until_refused() -> int:
                for number in range(20):
                    large = {"metadata": {"name": f"large-{number}"}, "data": {"k": "x" * 1_000_000}}
                    try:
                        core.create_namespaced_config_map("default", cast(Any, large))
                    except ApiException as err:
                        return number if err.status == 429 else -1
                raise AssertionError("never refused")

            first = write_until_refused()
            assert first > 1
            c.restore(snapshot)
            assert write_until_refused() == first


def test_controllers_go_on_from_there() -> None:
    with Cluster(controllers=("*",)) as c:
        snapshot = c.snapshot()
        for _ in range(2):
            c.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "blue"}})
            c.wait_for("ServiceAccount", "default", "blue")
            owner = c.apply(SETTINGS)
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "uid": owner.metadata.uid}
            c.apply({**SETTINGS, "metadata": {"name": "owned", "ownerReferences": [reference]}})
            c.delete("cm", "settings")
            c.wait_for_deletion("cm", "owned")
            c.restore(snapshot)
            assert [each.metadata.name for each in c.list("cm", "default")] == ["kube-root-ca.crt"]
            assert "blue" not in [each.metadata.name for each in c.list("Namespace")]


def test_after_a_restart_the_snapshot_still_holds() -> None:
    with Cluster() as c:
        c.apply(SETTINGS)
        snapshot = c.snapshot()
        c.delete("cm", "settings")
        c.compact()
        c.restart()
        c.restore(snapshot)
        assert c.get("cm", "settings").data == {"colour": "blue"}


def test_a_snapshot_is_of_one_cluster_in_memory(tmp_path: Path) -> None:
    c = Cluster()
    with c:
        snapshot = c.snapshot()
    with c, pytest.raises(ClusterError, match="of another cluster, or from before this one was started again"):
        c.restore(snapshot)
    with Cluster(store=f"sqlite:{tmp_path}/some.db") as stored, pytest.raises(ClusterError, match='store="memory:"'):
        stored.snapshot()


def test_putting_back_is_quick() -> None:
    with Cluster(controllers=("*",)) as c:
        snapshot, taken = c.snapshot(), []
        for _ in range(5):
            for number in range(20):
                c.apply({**SETTINGS, "metadata": {"name": f"settings-{number}"}})
            c.settle()
            before = time.process_time()  # its own work, for the machine may be busy with others
            c.restore(snapshot)
            taken.append(time.process_time() - before)
        assert min(taken) < 0.02  # a few milliseconds
