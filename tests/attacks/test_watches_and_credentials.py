"""S21: a watch does not outlive what it was allowed by, whatever that was, and no other watch notices."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kubevouch.server.filters import watch_standing
from kubevouch.standalone.access import RELOAD_SECONDS
from kubevouch.standalone.access_options import AccessOptions
from kubevouch.testing import Cluster
from wire import CSRS, Wire

SECONDS = 10
"""For what time itself takes away, and for services that are asked."""
SOON = 1
"""For what somebody takes away where we are the server."""
MAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
TOKEN = "abcdef.0123456789abcdef"
RBAC = "rbac.authorization.k8s.io"


@dataclass
class World:
    cluster: Cluster
    admin: Wire
    nobody: Wire
    folder: Path

    def make(self, path: str, tree: dict[str, Any]) -> dict[str, Any]:
        reply = self.admin.json("POST", path, tree)
        assert reply.code == 201, reply.body
        found: dict[str, Any] = json.loads(reply.body)
        return found

    def delete(self, path: str) -> Callable[[], None]:
        def act() -> None:
            assert self.admin.request("DELETE", path).code == 200

        return act

    def may_watch(self, subject: dict[str, str], name: str = "watchers", rule: dict[str, Any] | None = None) -> str:
        """The path of the binding."""
        rules = f"/apis/{RBAC}/v1/namespaces/default"
        wanted = rule or {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch"]}
        self.make(f"{rules}/roles", {"metadata": {"name": name}, "rules": [wanted]})
        ref = {"apiGroup": RBAC, "kind": "Role", "name": name}
        binding = {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}
        self.make(f"{rules}/rolebindings", binding)
        return f"{rules}/rolebindings/{name}"

    def account_token(self, **spec: Any) -> str:
        request = {"spec": {"audiences": [], "expirationSeconds": 600, **spec}}
        return str(self.make(f"{ACCOUNTS}/reader/token", request)["status"]["token"])

    def account(self) -> str:
        """A service account that may watch ConfigMaps; the path of the binding."""
        self.make(ACCOUNTS, {"metadata": {"name": "reader"}})
        return self.may_watch({"kind": "ServiceAccount", "name": "reader", "namespace": "default"})

    def secret(self, name: str, **fields: Any) -> dict[str, Any]:
        namespace = "kube-system" if name.startswith("bootstrap") else "default"
        return self.make(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": name}, **fields})

    def bootstrap_token(self, **data: str) -> str:
        """The path of its Secret."""
        token_id, _, secret = TOKEN.partition(".")
        data |= {"token-id": token_id, "token-secret": secret, "usage-bootstrap-authentication": "true"}
        data |= {"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token"}
        self.secret(f"bootstrap-token-{token_id}", type="bootstrap.kubernetes.io/token", stringData=data)
        return f"/api/v1/namespaces/kube-system/secrets/bootstrap-token-{token_id}"


@contextmanager
def watching(wire: Wire, path: str = MAPS, **headers: str) -> Iterator[ssl.SSLSocket]:
    """A watch that has begun."""
    with wire.connected() as connection:
        lines = [f"GET {path}?watch=1&resourceVersion=0 HTTP/1.1", "Host: here"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1)
        assert head.startswith(b"HTTP/1.1 200 "), head
        yield connection


def read_until(connection: ssl.SSLSocket, wanted: bytes) -> bytes:
    """What comes until ``wanted``; fails when the server is silent for too long."""
    read = b""
    while wanted not in read:
        some = connection.recv(65_536)
        assert some, read
        read += some
    return read


END = b"0\r\n\r\n"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Cluster(https=True) as cluster:
        admin, nobody = (
            Wire.of_kubeconfig(cluster.kubeconfig, tmp_path, anonymous=anonymous) for anonymous in (False, True)
        )
        yield World(cluster, admin, nobody, tmp_path)


def bearer(token: str) -> str:
    return f"Bearer {token}"


Case = tuple[str, dict[str, str], Callable[[], None]]


def token_deleted(world: World) -> Case:
    """Path of the watch, its headers, and what ends what it stands on."""
    return CSRS, {"Authorization": bearer(TOKEN)}, world.delete(world.bootstrap_token())


def token_expires(world: World) -> Case:
    ends = world.cluster.clock.now() + dt.timedelta(seconds=30)
    world.bootstrap_token(expiration=ends.isoformat().replace("+00:00", "Z"))
    return CSRS, {"Authorization": bearer(TOKEN)}, lambda: world.cluster.clock.advance(30)


def token_loses_its_use(world: World) -> Case:
    path = world.bootstrap_token()
    patch = {"stringData": {"usage-bootstrap-authentication": "false"}}

    def act() -> None:
        reply = world.admin.request(
            "PATCH", path, json.dumps(patch).encode(), content_type="application/merge-patch+json"
        )
        assert reply.code == 200

    return CSRS, {"Authorization": bearer(TOKEN)}, act


def account_deleted(world: World) -> Case:
    world.account()
    return MAPS, {"Authorization": bearer(world.account_token())}, world.delete(f"{ACCOUNTS}/reader")


def account_token_expires(world: World) -> Case:
    world.account()
    # Clocks may differ by a minute.
    return MAPS, {"Authorization": bearer(world.account_token())}, lambda: world.cluster.clock.advance(661)


def secret_of_the_token_deleted(world: World) -> Case:
    world.account()
    secret = world.secret("bound")
    bound = {"kind": "Secret", "apiVersion": "v1", "name": "bound", "uid": secret["metadata"]["uid"]}
    token = world.account_token(boundObjectRef=bound)
    return MAPS, {"Authorization": bearer(token)}, world.delete("/api/v1/namespaces/default/secrets/bound")


def secret_of_the_token_made_anew(world: World) -> Case:
    """Of the same name: it is not the one that the token was made for."""
    path, headers, delete = secret_of_the_token_deleted(world)

    def act() -> None:
        delete()
        world.secret("bound")

    return path, headers, act


def node_of_the_token_deleted(world: World) -> Case:
    world.account()
    node = world.make("/api/v1/nodes", {"metadata": {"name": "worker-1"}})
    bound = {"kind": "Node", "apiVersion": "v1", "name": "worker-1", "uid": node["metadata"]["uid"]}
    token = world.account_token(boundObjectRef=bound)
    return MAPS, {"Authorization": bearer(token)}, world.delete("/api/v1/nodes/worker-1")


def role_loses_its_rule(world: World) -> Case:
    world.account()
    path = f"/apis/{RBAC}/v1/namespaces/default/roles/watchers"

    def act() -> None:
        patch = json.dumps({"rules": []}).encode()
        assert world.admin.request("PATCH", path, patch, content_type="application/merge-patch+json").code == 200

    return MAPS, {"Authorization": bearer(world.account_token())}, act


def cluster_wide_right(world: World, subject: dict[str, str]) -> Callable[[], None]:
    """To watch ConfigMaps; removes it."""
    world.make(ACCOUNTS, {"metadata": {"name": "reader"}})
    rules = f"/apis/{RBAC}/v1"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch"]}
    world.make(f"{rules}/clusterroles", {"metadata": {"name": "watchers"}, "rules": [rule]})
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "watchers"}
    binding = {"metadata": {"name": "watchers"}, "roleRef": ref, "subjects": [subject]}
    world.make(f"{rules}/clusterrolebindings", binding)
    return world.delete(f"{rules}/clusterrolebindings/watchers")


def cluster_wide_rights_removed(world: World) -> Case:
    act = cluster_wide_right(world, {"kind": "ServiceAccount", "name": "reader", "namespace": "default"})
    return MAPS, {"Authorization": bearer(world.account_token())}, act


def rights_of_a_group_removed(world: World) -> Case:
    group = {"apiGroup": RBAC, "kind": "Group", "name": "system:serviceaccounts:default"}
    act = cluster_wide_right(world, group)
    return MAPS, {"Authorization": bearer(world.account_token())}, act


def cluster_role_deleted(world: World) -> Case:
    cluster_wide_right(world, {"kind": "ServiceAccount", "name": "reader", "namespace": "default"})
    headers = {"Authorization": bearer(world.account_token())}
    return MAPS, headers, world.delete(f"/apis/{RBAC}/v1/clusterroles/watchers")


def rights_removed(world: World) -> Case:
    binding = world.account()
    return MAPS, {"Authorization": bearer(world.account_token())}, world.delete(binding)


def impersonated_rights_removed(world: World) -> Case:
    binding = world.may_watch({"apiGroup": RBAC, "kind": "User", "name": "jane"})
    return MAPS, {"Impersonate_User": "jane"}, world.delete(binding)


def right_to_impersonate_removed(world: World) -> Case:
    world.account()
    account = "system:serviceaccount:default:reader"
    world.may_watch({"apiGroup": RBAC, "kind": "User", "name": "jane"}, "jane")
    rules = f"/apis/{RBAC}/v1"
    rule = {"apiGroups": [""], "resources": ["users"], "resourceNames": ["jane"], "verbs": ["impersonate"]}
    world.make(f"{rules}/clusterroles", {"metadata": {"name": "as-jane"}, "rules": [rule]})
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "as-jane"}
    subject = {"apiGroup": RBAC, "kind": "User", "name": account}
    binding = {"metadata": {"name": "as-jane"}, "roleRef": ref, "subjects": [subject]}
    world.make(f"{rules}/clusterrolebindings", binding)
    headers = {"Authorization": bearer(world.account_token()), "Impersonate_User": "jane"}
    return MAPS, headers, world.delete(f"{rules}/clusterrolebindings/as-jane")


def certificate_expires(world: World) -> Case:
    def act() -> None:
        clock = world.cluster.clock
        clock.set(clock.now() + dt.timedelta(days=36_500))

    return MAPS, {}, act


CASES: dict[Callable[[World], Case], int] = {
    token_deleted: SOON,
    token_expires: SECONDS,
    token_loses_its_use: SOON,
    account_deleted: SOON,
    account_token_expires: SECONDS,
    secret_of_the_token_deleted: SOON,
    secret_of_the_token_made_anew: SOON,
    node_of_the_token_deleted: SOON,
    rights_removed: SOON,
    role_loses_its_rule: SOON,
    cluster_wide_rights_removed: SOON,
    rights_of_a_group_removed: SOON,
    cluster_role_deleted: SOON,
    impersonated_rights_removed: SOON,
    right_to_impersonate_removed: SOON,
    certificate_expires: SECONDS,
}


@pytest.mark.parametrize("prepare", CASES)
def test_s21_a_watch_does_not_outlive_what_allowed_it(world: World, prepare: Callable[[World], Case]) -> None:
    path, headers, act = prepare(world)
    by_certificate = not headers or "Authorization" not in headers
    clock, cluster = world.cluster.clock, world.cluster
    with ExitStack() as stack:
        other = stack.enter_context(watching(world.admin))
        watch = stack.enter_context(watching(world.admin if by_certificate else world.nobody, path, **headers))
        cluster.run(clock.run(SECONDS))
        cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "before"}})
        read_until(other, b'"before"')
        act()
        cluster.run(clock.run(CASES[prepare]))
        assert read_until(watch, END).endswith(END)
        if prepare is not certificate_expires:
            cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "after"}})
            read_until(other, b'"after"')


def test_s21_judging_goes_on_while_a_watch_lasts_and_leaves_nothing(world: World) -> None:
    binding = world.account()
    token = bearer(world.account_token(expirationSeconds=3600))
    standing = world.cluster._require()._server.api._standing  # type: ignore[union-attr]
    with watching(world.nobody, Authorization=token) as watch:
        for _ in range(20):
            world.cluster.run(world.cluster.clock.run(watch_standing.JUDGE_SECONDS))
        world.delete(binding)()
        world.cluster.run(world.cluster.clock.run(SECONDS))
        read_until(watch, END)
    assert not standing._due
    assert not standing._judging


def test_s21_a_watch_ends_when_a_file_takes_its_rights_away(tmp_path: Path) -> None:
    """Of --authorization-config, which is looked at every second."""
    file = tmp_path / "authorization.yaml"
    modes = ["Node", "RBAC"]

    def write() -> None:
        config = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthorizationConfiguration",
            "authorizers": [{"type": mode, "name": mode.lower()} for mode in modes],
        }
        file.write_text(json.dumps(config))

    write()
    with Cluster(https=True, access=AccessOptions(authorization_config=file)) as cluster:
        admin, nobody = (
            Wire.of_kubeconfig(cluster.kubeconfig, tmp_path, anonymous=anonymous) for anonymous in (False, True)
        )
        world = World(cluster, admin, nobody, tmp_path)
        world.account()
        with watching(nobody, Authorization=bearer(world.account_token())) as watch:
            cluster.run(cluster.clock.run(SECONDS))
            modes.remove("RBAC")
            write()
            cluster.run(cluster.clock.run(RELOAD_SECONDS + SOON))
            assert read_until(watch, END).endswith(END)


def test_s21_a_watch_is_judged_again_for_what_changes_while_it_is_judged(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not for each of a thousand changes: a writer of bindings would make the server judge all day."""
    account, client = world.account(), world.cluster.client()
    standing = world.cluster._require()._server.api._standing  # type: ignore[union-attr]
    judged = 0
    fault = standing._fault

    async def counted(watch: Any) -> str:
        nonlocal judged
        judged += 1
        if judged == 1:
            await client.raw("DELETE", account)
            async with asyncio.timeout(30):
                while not await fault(watch):  # noqa: ASYNC110 - the cache tells no test
                    await asyncio.sleep(0)
            # The cache has heard of it, and the judge says what was so before.
            return ""
        return await fault(watch)

    with watching(world.nobody, Authorization=bearer(world.account_token(expirationSeconds=3600))) as watch:
        monkeypatch.setattr(standing, "_fault", counted)
        world.cluster.run(world.cluster.clock.run(SECONDS))
        assert read_until(watch, END).endswith(END)
    assert judged == 2
    with watching(world.admin) as watch:

        async def change_much() -> None:
            for _ in range(1000):
                standing.judge_all()
            await world.cluster.clock.run(watch_standing.LEAST_SECONDS)

        before = judged
        world.cluster.run(change_much())
        assert judged - before <= 2
