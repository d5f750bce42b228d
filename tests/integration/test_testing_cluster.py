"""``kubevouch.testing.Cluster``: a real server inside a test, from a plain function and from a coroutine."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest
from kubernetes import client as official
from kubernetes import config as official_config
from kubernetes import watch as official_watch
from kubernetes.client.exceptions import ApiException

from asynctest import async_test
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.authentication.interface import UserInfo
from kubevouch.client.interface import MERGE_PATCH, EventType, ListOptions, WatchOptions
from kubevouch.config import kubeconfig
from kubevouch.controllers.catalog import UnknownControllerError
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases.bootstrap_token import TokenPhaseError
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.testing import (
    Cluster,
    ClusterError,
    ManifestError,
    WaitTimeout,
    has_condition,
    wait_for,
    wait_for_deletion,
)
from kubevouch.util.clock import SystemClock

SETTINGS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings"},
    "data": {"colour": "blue"},
}


def _refused(call: Callable[[], object]) -> APIStatusError:
    with pytest.raises(APIStatusError) as caught:
        call()
    return caught.value


# ------------------------------------------------------------------ verbs


def test_objects_are_written_read_changed_and_deleted() -> None:
    with Cluster() as c:
        applied = c.apply(SETTINGS)
        assert c.get("cm", "settings") == c.get(catalog.CONFIG_MAPS, "settings", "default") == applied
        changed = c.apply({**SETTINGS, "data": {"colour": "red"}})
        assert changed.data == {"colour": "red"}
        assert [each.metadata.name for each in c.list("configmaps", "default")] == ["settings"]
        with pytest.raises(APIStatusError, match="please apply your changes to the latest version"):
            c.update(applied)
        c.delete("ConfigMap", "settings")
        assert _refused(lambda: c.get("ConfigMap", "settings")).reason == Reason.NOT_FOUND


def test_yaml_and_typed_objects_are_taken_too() -> None:
    with Cluster() as c:
        made = c.apply_all("""
            apiVersion: v1
            kind: Namespace
            metadata: {name: blue}
            ---
            apiVersion: v1
            kind: List
            items: [{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: blue}, stringData: {a: b}}]
        """)
        assert [each.metadata.name for each in made] == ["blue", "s"]
        assert c.get("Secret", "s", "blue").data == {"a": b"b"}
        typed = c.apply(ConfigMap(metadata=ObjectMeta(name="typed", namespace="blue"), data={"x": "1"}))
        assert typed.data == {"x": "1"}
        assert c.create(ConfigMap(metadata=ObjectMeta(generate_name="made-"))).metadata.name.startswith("made-")
        secret = c.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}, "stringData": {"k": "v"}})
        assert (secret.type, secret.data) == ("Opaque", {"k": b"v"})
        assert [each.metadata.name for each in c.list("cm", label_selector="a=b")] == []


def test_status_is_written_through_its_subresource() -> None:
    with Cluster() as c:
        node = c.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        ready = {"type": "Ready", "status": "True"}
        c.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"conditions": [ready]}},
                subresource="status")  # fmt: skip
        assert has_condition("Ready")(c.wait_for("Node", "n1", until=has_condition("Ready")))
        assert not has_condition("Ready")(node)


def test_what_is_no_object_is_refused_before_it_is_sent() -> None:
    with Cluster() as c:
        with pytest.raises(
            ManifestError, match=r"got the kind 'Widget' of 'example.com/v1', expected one of: .*ConfigMap"
        ):
            c.apply({"apiVersion": "example.com/v1", "kind": "Widget"})
        with pytest.raises(ManifestError, match='unknown field "datum"'):
            c.create({**SETTINGS, "datum": 1})
        assert ".datum: field not declared in schema" in str(_refused(lambda: c.apply({**SETTINGS, "datum": 1})))


def test_rbac_holds_for_others_than_the_administrator() -> None:
    with Cluster(controllers=("clusterrole-aggregation-controller",)) as c:
        c.settle()  # fills the role "view"
        c.apply(SETTINGS)
        alice = c.as_user("alice", groups=["developers"])
        refused = _refused(lambda: alice.get("cm", "settings"))
        assert str(refused) == (
            'configmaps "settings" is forbidden: User "alice" cannot get resource "configmaps" in API group "" in the '
            'namespace "default"'
        )
        c.apply_all("""
            apiVersion: rbac.authorization.k8s.io/v1
            kind: RoleBinding
            metadata: {name: developers-view}
            roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
            subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: developers}]
        """)
        assert alice.get("cm", "settings").data == {"colour": "blue"}
        assert _refused(lambda: alice.delete("cm", "settings")).code == 403
        assert c.as_user(UserInfo("bob", groups=("developers",))).list("cm", "default")


# ------------------------------------------------------------------ waiting, time, history


def test_waiting_ends_with_the_state_and_not_before() -> None:
    with Cluster() as c:
        later = threading.Thread(target=lambda: c.apply(SETTINGS))
        later.start()
        assert c.wait_for("cm", "settings", until=lambda obj: obj.data["colour"] == "blue").metadata.uid
        later.join()
        later = threading.Thread(target=lambda: c.delete("cm", "settings"))
        later.start()
        c.wait_for_deletion("cm", "settings")
        later.join()


def test_a_wait_in_vain_shows_what_was_seen_last() -> None:
    with Cluster() as c:
        c.apply(SETTINGS)
        with pytest.raises(WaitTimeout, match=r"ConfigMap default/nope: waited 0.05 s for exists, last seen:\nno such"):
            c.wait_for("cm", "nope", timeout=0.05)
        with pytest.raises(WaitTimeout, match=r"(?s)for its deletion, last seen:\n.*colour: blue"):
            c.wait_for_deletion("cm", "settings", timeout=0.05)
        assert _refused(lambda: c.as_user("alice").wait_for("cm", "settings")).code == 403


def test_time_stands_still_until_it_is_moved() -> None:
    start = dt.datetime(2031, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
    with Cluster(now=start) as c:
        assert c.clock.now() == start
        assert c.apply(SETTINGS).metadata.creation_timestamp.datetime() == start
        c.clock.advance(90)
        made = c.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}})
        assert made.metadata.creation_timestamp.datetime() == start + dt.timedelta(seconds=90)
        c.clock.set(start)
        assert c.clock.now() == start
        c.run(c.clock.run(5))
        assert c.clock.now() == start + dt.timedelta(seconds=5)


def test_who_sleeps_on_the_clock_wakes_on_his_own_loop() -> None:
    with Cluster() as c:

        async def sleep() -> int:
            sleeping = asyncio.ensure_future(c.clock.sleep(60))
            await c.clock.until_asleep(1)
            await asyncio.to_thread(c.clock.advance, 60)
            await sleeping
            return threading.get_ident()

        assert asyncio.run(sleep()) == threading.get_ident()


def test_a_cluster_in_real_time_has_no_clock_to_move() -> None:
    with Cluster(real_time=True) as c, pytest.raises(ClusterError, match="start it without real_time"):
        c.clock.advance(1)


async def _watched(cluster: Cluster, resource_version: str, *, first: int = 0) -> list[str]:
    """The types of events, or the texts of errors, until the watch ends or ``first`` have come."""
    seen: list[str] = []
    stream = cluster.client().watch(catalog.CONFIG_MAPS, "default", WatchOptions(resource_version=resource_version))
    async with aclosing(stream):
        async for event in stream:
            if event.type is EventType.BOOKMARK:
                continue
            seen.append(event.status.message if event.status is not None else event.type.value)
            if len(seen) == first:
                break
    return seen


def test_history_is_served_until_a_restart_forgets_it() -> None:
    with Cluster(https=True) as c:
        url, before = c.url, c.apply(SETTINGS).metadata.resource_version
        c.apply({**SETTINGS, "data": {}})
        assert c.run(_watched(c, before, first=1)) == ["MODIFIED"]
        c.restart()
        assert (c.url, c.get("cm", "settings").data) == (url, {})
        (error,) = c.run(_watched(c, before))
        assert error.startswith(f"too old resource version: {before} (")


@async_test
async def test_a_restart_ends_watches() -> None:
    async with Cluster() as c:
        watching = asyncio.create_task(_watched(c, ""))
        await asyncio.sleep(0)
        await c.restart_async()
        assert await watching == []


def test_after_compaction_and_restart_older_states_are_gone() -> None:
    with Cluster() as c:
        before = c.apply(SETTINGS).metadata.resource_version
        c.apply({**SETTINGS, "data": {}})
        options = ListOptions(resource_version=before, resource_version_match="Exact")
        (then,) = c.run(c.client().list(catalog.CONFIG_MAPS, "default", options)).items
        assert then.data == {"colour": "blue"}
        c.compact()
        c.restart()
        with pytest.raises(APIStatusError) as caught:
            c.run(c.client().list(catalog.CONFIG_MAPS, "default", options))
        assert caught.value.reason == Reason.EXPIRED


def test_a_file_keeps_what_a_cluster_stored(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}/some.db"
    with Cluster(store=store) as c:
        uid = c.apply(SETTINGS).metadata.uid
    with Cluster(store=store) as c:
        assert c.get("cm", "settings").metadata.uid == uid


# ------------------------------------------------------------------ controllers, joining


def test_a_node_gets_its_certificate() -> None:
    with Cluster(controllers=("*",)) as c:
        request = build_request(
            keys.generate(KeyAlgorithm.ECDSA_P256),
            Subject(common_name="system:node:worker-1", organizations=("system:nodes",)),
        )
        joining = c.as_user(
            "system:bootstrap:abc123", ["system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token"]
        )
        joining.create(
            CertificateSigningRequest(
                metadata=ObjectMeta(name="csr-1"),
                spec=CertificateSigningRequestSpec(
                    request=request,
                    signer_name="kubernetes.io/kube-apiserver-client-kubelet",
                    usages=["digital signature", "client auth"],
                ),
            )
        )
        issued = c.wait_for("csr", "csr-1", until=lambda csr: bool(csr.status.certificate))
        assert has_condition("Approved")(issued)


def test_tokens_end_when_the_clock_says_so() -> None:
    with Cluster(controllers=("token-cleaner-controller",)) as c:
        token = c.token(ttl=dt.timedelta(hours=1), groups=["system:bootstrappers:blue"])
        endless = c.token(ttl=dt.timedelta())
        (secret, _) = sorted(c.list("Secret", "kube-system"), key=lambda s: s.metadata.name != _name(token))
        assert secret.metadata.name == _name(token)
        c.clock.advance(3601)
        c.settle()
        assert [secret.metadata.name for secret in c.list("Secret", "kube-system")] == [_name(endless)]
        with pytest.raises(TokenPhaseError, match="invalid ttl"):
            c.token(ttl=dt.timedelta(hours=-1))


def _name(token: str) -> str:
    return f"bootstrap-token-{token.partition('.')[0]}"


def test_the_cluster_tells_machines_about_itself() -> None:
    with Cluster(https=True) as c:
        (told,) = kubeconfig.load(c.get("cm", "cluster-info", "kube-public").data["kubeconfig"]).clusters.values()
        assert told.server == c.url
        assert told.certificate_authority_data == (c.folder / "pki" / "ca.crt").read_bytes() == c.pki.ca_certificate
        assert c.pin.startswith("sha256:")


# ------------------------------------------------------------------ HTTPS


def _official(path: Path) -> official.ApiClient:
    made: official.ApiClient = official_config.new_client_from_config(str(path))  # type: ignore[no-untyped-call]
    return made


def test_the_official_client_reads_writes_and_watches() -> None:
    with Cluster(https=True, real_time=True) as c:
        with _official(c.kubeconfig) as api:
            core = official.CoreV1Api(api)
            core.create_namespaced_config_map("default", cast(Any, SETTINGS))
            watch = official_watch.Watch()  # type: ignore[no-untyped-call]
            events = watch.stream(  # type: ignore[no-untyped-call]
                core.list_namespaced_config_map, "default", timeout_seconds=1
            )
            names = [event["object"].metadata.name for event in events]
        assert names == ["settings"]
        assert c.get("cm", "settings").data == {"colour": "blue"}


def test_a_user_with_a_kubeconfig_of_his_own_is_that_user(tmp_path: Path) -> None:
    with Cluster(https=True, now=dt.datetime(2020, 1, 1, tzinfo=dt.UTC)) as c:
        path = tmp_path / "alice.conf"
        path.write_text(c.kubeconfig_for("alice", ["developers"]))
        with _official(path) as api:
            asked = official.V1SelfSubjectReview()
            review: Any = official.AuthenticationV1Api(api).create_self_subject_review(asked)
            with pytest.raises(ApiException) as caught:
                official.CoreV1Api(api).list_namespaced_secret("default")
        assert (review.status.user_info.username, caught.value.status) == ("alice", 403)
        assert review.status.user_info.groups == ["developers", "system:authenticated"]


def test_certificates_hold_on_the_clocks_of_both_sides() -> None:
    for year in (2020, 2045):
        with Cluster(https=True, now=dt.datetime(year, 1, 1, tzinfo=dt.UTC)) as c, _official(c.kubeconfig) as api:
            c.clock.advance(9 * 365 * 86400)
            assert official.VersionApi(api).get_code().major == "1"


# ------------------------------------------------------------------ coroutines, life


@async_test
async def test_a_cluster_on_the_loop_of_the_test() -> None:
    async with Cluster(controllers=("root-ca-certificate-publisher-controller",)) as c:
        admin = c.client()
        published = await wait_for(admin, catalog.CONFIG_MAPS, "kube-root-ca.crt", "default")
        assert published.data["ca.crt"].encode() == c.pki.ca_certificate
        assert len(await c.token_async()) == 23
        c.clock.advance(10)
        await c.settle_async()
        await c.compact_async()
        await admin.delete(catalog.SECRETS, (await admin.list(catalog.SECRETS)).items[0].metadata.name, "kube-system")
        with pytest.raises(ClusterError, match=r"would wait for its own event loop: await a method of c\.client\(\)"):
            c.get("cm", "x")


@async_test
async def test_a_client_works_on_any_loop() -> None:
    def begin() -> Cluster:
        return Cluster().__enter__()

    c = await asyncio.to_thread(begin)
    try:
        admin = c.client()
        made = await admin.create(
            catalog.CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"k": "v"})
        )
        assert await admin.get(catalog.CONFIG_MAPS, "a", "default") == made
        assert await admin.update(catalog.CONFIG_MAPS, made) == made
        patched = await admin.patch(catalog.CONFIG_MAPS, "a", {"data": {"k": "w"}}, MERGE_PATCH, "default")
        assert patched.data == {"k": "w"}
        assert await _watched(c, made.metadata.resource_version, first=1) == ["MODIFIED"]
        assert (await admin.raw("GET", "/readyz")).body == b"ok"
        await admin.delete_collection(catalog.CONFIG_MAPS, "default")
        await wait_for_deletion(admin, catalog.CONFIG_MAPS, "a", "default")
        await admin.close()
    finally:
        await asyncio.to_thread(c.__exit__, None, None, None)


def test_clusters_do_not_know_each_other() -> None:
    with Cluster(https=True) as one, Cluster(https=True) as other:
        one.apply(SETTINGS)
        assert [each.metadata.name for each in other.list("cm", "default")] == []
        assert one.url != other.url and one.pin != other.pin


def test_nothing_is_left_behind() -> None:
    threads = threading.active_count()
    with Cluster(https=True, controllers=("*",)) as c:
        folder = c.folder
        assert c.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert threading.active_count() == threads
    assert not folder.exists()


def test_an_idle_connection_does_not_hold_up_the_end() -> None:
    with Cluster(https=True) as c:
        host, _, port = c.url.removeprefix("https://").partition(":")
        context = ssl.create_default_context(cadata=c.pki.ca_certificate.decode())
        idle = context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host)
        idle.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        assert idle.recv(12) == b"HTTP/1.1 200"
        before = SystemClock().monotonic()
    assert SystemClock().monotonic() - before < 3
    idle.close()


def test_a_cluster_says_how_it_is() -> None:
    c = Cluster(https=True)
    assert repr(c) == "<Cluster, not running>"
    with pytest.raises(ClusterError, match="use it inside of `with Cluster"):
        c.get("cm", "x")
    with c:
        assert repr(c) == f"<Cluster {c.url}>"
        with pytest.raises(ClusterError, match="running already"):
            c.__enter__()
    with c:  # and may start again, empty
        assert c.list("cm", "default") == []
    with Cluster() as c:
        assert repr(c) == "<Cluster in process>"
        with pytest.raises(ClusterError, match=r"start it as Cluster\(https=True\)"):
            _ = c.kubeconfig


def test_what_cannot_start_leaves_nothing() -> None:
    threads = threading.active_count()
    with pytest.raises(ClusterError, match="expected a list"):
        Cluster(controllers="*")
    with pytest.raises(ValueError, match="got the store 'etcd:'"), Cluster(store="etcd:"):
        pass
    with pytest.raises(UnknownControllerError), Cluster(controllers=("no-such-controller",)):
        pass
    assert threading.active_count() == threads


def test_starting_is_quick() -> None:
    with Cluster():  # what a process does only once
        pass
    taken = []
    for _ in range(5):
        before = time.process_time()  # its own work, for the machine may be busy with others
        with Cluster(https=True):
            taken.append(time.process_time() - before)
    assert min(taken) < 0.2
