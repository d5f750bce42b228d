"""Tokens of machines and pools are kept, with Cluster API and without it."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from msgspec import structs

from asynctest import async_test
from cluster_api_world import CLUSTER, NAMESPACE, Objects, calm, serve
from controller_world import NOW, World, world
from kubevouch import wellknown
from kubevouch.api.catalog import NODES, SECRETS
from kubevouch.api.core_v1 import Node, Secret
from kubevouch.api.core_v1.nodes import NodeCondition, NodeSpec, NodeStatus
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import ObjectMeta, OwnerReference
from kubevouch.records import token_pools
from kubevouch.records.bootstrap_tokens import (
    EXPIRATION_KEY,
    USAGES,
    BootstrapToken,
    from_secret,
    parse_token,
    to_secret,
)
from kubevouch.records.token_pools import Keeping
from kubevouch.standalone.cluster_api import ManagementCluster
from kubevouch.standalone.cluster_api_options import ClusterAPIOptions
from kubevouch.testing.logs import capture_logs

TOKEN = parse_token("p9k2zq.w7e1r5t3y9u8i0oa")
SYSTEM = wellknown.KUBE_SYSTEM_NAMESPACE
MINUTE = dt.timedelta(minutes=1)
BOTH = pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
ON = {wellknown.KUBELET_AUTHENTICATION_ANNOTATION: "true"}
DATA = f"#cloud-config\ntoken: {TOKEN.text}\n"


def a_token(minutes: float | None) -> Secret:
    expires = None if minutes is None else NOW + dt.timedelta(minutes=minutes)
    wanted = BootstrapToken(
        TOKEN, token_pools.CLUSTER_API_DESCRIPTION, expires, USAGES, (wellknown.DEFAULT_NODE_TOKEN_GROUP,)
    )
    return to_secret(wanted)


async def tokens(at: World) -> dict[str, dt.datetime | None]:
    """By their secret halves, when they end."""
    listed = await at.client.list(SECRETS, SYSTEM)
    found = [from_secret(each) for each in listed.items if each.type == wellknown.BOOTSTRAP_TOKEN_SECRET]
    return {each.token.text: each.expires for each in found}


async def run(at: World, *, replaces: bool = False) -> None:
    options = ClusterAPIOptions(NAMESPACE, CLUSTER, replaces_tokens=replaces)
    await calm(at.start("tokenrotation", management=ManagementCluster(options, None)))


async def a_node(at: World, name: str, *, ready: bool = True, provider_id: str = "demo://7", **labels: str) -> None:
    conditions = [NodeCondition(type="Ready", status="True" if ready else "False")]
    made = Node(metadata=ObjectMeta(name=name, labels=labels), spec=NodeSpec(provider_id=provider_id))
    await at.client.create(NODES, made)
    stored = await at.client.get(NODES, name)
    await at.client.update(
        NODES, structs.replace(stored, status=NodeStatus(conditions=conditions)), subresource="status"
    )


# ------------------------------------------------------------------ Cluster API


async def owned(objects: Objects, owner: CustomObject) -> None:
    await objects.config(owner, TOKEN.text)


@BOTH
@async_test
async def test_the_token_of_a_machine_is_renewed_until_it_is_a_node(version: str) -> None:
    async with world() as at:
        objects = await serve(at, version)
        await objects.cluster()
        await at.client.create(SECRETS, a_token(7))
        await owned(objects, await objects.machine("m", "demo://7"))
        await run(at)
        assert await tokens(at) == {TOKEN.text: NOW + 15 * MINUTE}
        at.clock.advance(300)
        await calm(at.running)
        assert await tokens(at) == {TOKEN.text: NOW + 20 * MINUTE}
        await objects.set_status("Machine", "m", {"nodeRef": {"name": "n"}})
        at.clock.advance(600)
        await calm(at.running)
        assert await tokens(at) == {TOKEN.text: NOW + 20 * MINUTE}


@async_test
async def test_a_machine_that_proves_what_it_is_keeps_its_token_until_its_node_works() -> None:
    async with world() as at:
        objects = await serve(at, "v1beta2")
        await objects.cluster(annotations=ON)
        await at.client.create(SECRETS, a_token(7))
        await owned(objects, await objects.machine("m", "demo://7"))
        await objects.set_status("Machine", "m", {"nodeRef": {"name": "n"}})
        await a_node(at, "n", provider_id="")
        await run(at)
        assert await tokens(at) == {TOKEN.text: NOW + 15 * MINUTE}
        stored = await at.client.get(NODES, "n")
        await at.client.update(NODES, structs.replace(stored, spec=NodeSpec(provider_id="demo://7")))
        at.clock.advance(600)
        await calm(at.running)
        assert await tokens(at) == {TOKEN.text: NOW + 15 * MINUTE}


@BOTH
@async_test
async def test_the_token_of_a_pool_that_proves_itself_is_renewed_for_its_life(version: str) -> None:
    async with world() as at:
        objects = await serve(at, version)
        await objects.cluster(annotations=ON)
        await at.client.create(SECRETS, a_token(7))
        await owned(objects, await objects.pool("pool-1"))
        await objects.set_status("MachinePool", "pool-1", {"nodeRefs": [{"name": "a"}, {"name": "b"}, {"name": "c"}]})
        await run(at, replaces=True)
        assert await tokens(at) == {TOKEN.text: NOW + 15 * MINUTE}
        await objects.delete("MachinePool", "pool-1")
        at.clock.advance(600)
        await calm(at.running)
        assert await tokens(at) == {TOKEN.text: NOW + 15 * MINUTE}


@async_test
async def test_the_token_of_a_pool_that_is_being_deleted_ends() -> None:
    async with world() as at:
        objects = await serve(at, "v1beta2")
        await objects.cluster(annotations=ON)
        await at.client.create(SECRETS, a_token(7))
        await owned(objects, await objects.pool("pool-1"))
        await objects.change("MachinePool", "pool-1", {"metadata": {"finalizers": ["example.com/drain"]}})
        await objects.delete("MachinePool", "pool-1")
        await run(at)
        assert await tokens(at) == {TOKEN.text: NOW + 7 * MINUTE}


@BOTH
@async_test
async def test_the_token_of_another_pool_is_replaced_with_the_data_that_machines_start_with(version: str) -> None:
    async with world() as at:
        objects = await serve(at, version)
        await objects.cluster()
        await at.client.create(SECRETS, a_token(7))
        await allow_data(at)
        await owned(objects, await objects.pool("pool-1"))
        await a_data_secret(at, objects, {"value": DATA.encode(), "format": b"cloud-config"})
        await objects.set_status("MachinePool", "pool-1", {"nodeRefs": [{"name": "a"}]})
        await run(at, replaces=True)
        found = await tokens(at)
        (fresh,) = found.keys() - {TOKEN.text}
        assert found == {TOKEN.text: NOW + 7 * MINUTE, fresh: NOW + 15 * MINUTE}
        config = await objects.get("KubeadmConfig", "pool-1")
        discovery = config.content["spec"]["joinConfiguration"]["discovery"]["bootstrapToken"]
        assert discovery == {"token": fresh, "apiServerEndpoint": "10.0.0.1:6443"}
        assert wellknown.REPLACES_TOKEN_ANNOTATION not in config.metadata.annotations
        data = await at.client.get(SECRETS, "pool-1", NAMESPACE)
        assert data.data == {"value": DATA.replace(TOKEN.text, fresh).encode(), "format": b"cloud-config"}
        secret = await at.client.get(SECRETS, parse_token(fresh).secret_name, SYSTEM)
        assert from_secret(secret).groups == (wellknown.DEFAULT_NODE_TOKEN_GROUP,)


@async_test
async def test_beside_a_bootstrap_provider_nothing_is_replaced() -> None:
    async with world() as at:
        objects = await serve(at, "v1beta2")
        await objects.cluster()
        await owned(objects, await objects.pool("pool-1"))
        await run(at)
        assert await tokens(at) == {}


@async_test
async def test_a_replacement_that_was_cut_short_is_brought_to_its_end() -> None:
    async with world() as at:
        objects = await serve(at, "v1beta2")
        await objects.cluster()
        # The configuration has the new token, what machines start with the former one.
        former = "abcdef.0123456789abcdef"
        await at.client.create(SECRETS, a_token(14))
        await allow_data(at)
        await owned(objects, await objects.pool("pool-1"))
        await a_data_secret(at, objects, {"value": f"token: {former}".encode()})
        noted = {"metadata": {"annotations": {wellknown.REPLACES_TOKEN_ANNOTATION: former}}}
        await objects.change("KubeadmConfig", "pool-1", noted)
        await run(at, replaces=True)
        assert (await at.client.get(SECRETS, "pool-1", NAMESPACE)).data == {"value": f"token: {TOKEN.text}".encode()}
        config = await objects.get("KubeadmConfig", "pool-1")
        assert wellknown.REPLACES_TOKEN_ANNOTATION not in config.metadata.annotations


@pytest.mark.parametrize(
    ("former", "is_owned"), [("abcdef.0123456789abcdef", False), ("root", True), ("", True), (" ", True)]
)
@async_test
async def test_no_text_of_whoever_writes_configurations_is_put_into_secrets(former: str, is_owned: bool) -> None:
    async with world() as at:
        objects = await serve(at, "v1beta2")
        await objects.cluster()
        await at.client.create(SECRETS, a_token(14))
        await allow_data(at)
        await owned(objects, await objects.pool("pool-1"))
        data = {"value": b"root: abcdef.0123456789abcdef "}
        await a_data_secret(at, objects, data, is_owned=is_owned)
        noted = {"metadata": {"annotations": {wellknown.REPLACES_TOKEN_ANNOTATION: former}}}
        await objects.change("KubeadmConfig", "pool-1", noted)
        await run(at, replaces=True)
        assert (await at.client.get(SECRETS, "pool-1", NAMESPACE)).data == data


@async_test
async def test_a_machine_whose_token_is_gone_is_told_of() -> None:
    async with world() as at:
        objects = await serve(at, "v1beta2")
        await objects.cluster()
        await owned(objects, await objects.machine("m", "demo://7"))
        with capture_logs() as logs:
            await run(at, replaces=True)
        assert any("the bootstrap token p9k2zq of the Machine m is gone" in str(each.get("err")) for each in logs)
        assert await tokens(at) == {}


@pytest.mark.parametrize("what", ["another secret", "no token", "paused", "unreadable"])
@async_test
async def test_nothing_is_renewed_for_whom_it_is_not_meant(what: str) -> None:
    async with world() as at:
        objects = await serve(at, "v1beta2")
        await objects.cluster()
        await at.client.create(SECRETS, a_token(7))
        machine = await objects.machine("m", "demo://7")
        # Its public half is all that somebody knows who may write KubeadmConfigs.
        await objects.config(
            machine, {"another secret": "p9k2zq.0000000000000000", "no token": "p9k2zq"}.get(what, TOKEN.text)
        )
        if what == "paused":
            await objects.change("Cluster", CLUSTER, {"spec": {"paused": True}})
        if what == "unreadable":
            annotations = {wellknown.KUBELET_AUTHENTICATION_ANNOTATION: "on"}
            await objects.change("Cluster", CLUSTER, {"metadata": {"annotations": annotations}})
        await run(at)
        assert await tokens(at) == {TOKEN.text: NOW + 7 * MINUTE}


async def a_data_secret(at: World, objects: Objects, data: dict[str, bytes], *, is_owned: bool = True) -> None:
    """What machines start with, as the bootstrap provider makes it."""
    config = await objects.get("KubeadmConfig", "pool-1")
    owner = OwnerReference(
        api_version=config.api_version,
        kind="KubeadmConfig",
        name="pool-1",
        uid=config.metadata.uid if is_owned else "x",
    )
    meta = ObjectMeta(name="pool-1", namespace=NAMESPACE, owner_references=[owner])
    await at.client.create(SECRETS, Secret(metadata=meta, data=data))


async def allow_data(at: World) -> None:
    """The operator has allowed what no rule for the whole cluster should."""
    user = f"system:serviceaccount:kube-system:{wellknown.CLUSTER_API_CONTROLLER}"
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "update"]}]
    meta = {"name": "bootstrap-data", "namespace": NAMESPACE}
    group = "rbac.authorization.k8s.io"
    for kind, more in (
        ("roles", {"rules": rules}),
        ("rolebindings", {"roleRef": {"apiGroup": group, "kind": "Role", "name": "bootstrap-data"},
                          "subjects": [{"kind": "User", "apiGroup": group, "name": user}]}),
    ):  # fmt: skip
        answer = await at.client.raw(
            "POST", f"/apis/{group}/v1/namespaces/{NAMESPACE}/{kind}", json.dumps({"metadata": meta, **more}).encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        assert answer.status == 201, answer.body


# ------------------------------------------------------------------ pools without Cluster API


def pooled(minutes: float, keeping: Keeping) -> Secret:
    pool = token_pools.parse("web", keeping, "pool=web", 15 * MINUTE)
    return token_pools.with_pool(a_token(minutes), pool)


@pytest.mark.parametrize("keeping", Keeping)
@async_test
async def test_without_nodes_a_pool_keeps_its_token(keeping: Keeping) -> None:
    async with world() as at:
        await at.client.create(SECRETS, pooled(7, keeping))
        await a_node(at, "other", pool="db")
        await calm(at.start("tokenrotation"))
        assert await tokens(at) == {TOKEN.text: NOW + 15 * MINUTE}


@pytest.mark.parametrize(
    ("keeping", "ready", "expected"),
    [(Keeping.RENEW, True, 15), (Keeping.UNTIL_NODES, True, 7), (Keeping.UNTIL_NODES, False, 15)],
)
@async_test
async def test_with_nodes_it_is_renewed_or_left_as_it_was_asked(keeping: Keeping, ready: bool, expected: int) -> None:
    async with world() as at:
        await at.client.create(SECRETS, pooled(7, keeping))
        await a_node(at, "web-1", ready=ready, pool="web")
        await calm(at.start("tokenrotation"))
        assert await tokens(at) == {TOKEN.text: NOW + expected * MINUTE}


@async_test
async def test_with_nodes_a_token_is_followed_by_another_one_and_one_is_that_of_the_pool() -> None:
    async with world() as at:
        await at.client.create(SECRETS, pooled(14, Keeping.ROTATE))
        await a_node(at, "web-1", pool="web")
        await calm(at.start("tokenrotation"))
        assert await tokens(at) == {TOKEN.text: NOW + 14 * MINUTE}
        at.clock.advance(600)
        await calm(at.running)
        (fresh,) = (await tokens(at)).keys() - {TOKEN.text}
        listed = await at.client.list(SECRETS, SYSTEM)
        of_pool = [each for each in listed.items if each.metadata.labels.get(token_pools.POOL_LABEL) == "web"]
        assert [from_secret(each).token.text for each in of_pool] == [fresh]
        assert (await tokens(at))[fresh] == NOW + 25 * MINUTE
        assert token_pools.pool_of(of_pool[0]) == token_pools.parse("web", "rotate", "pool=web", 15 * MINUTE)


@async_test
async def test_of_two_tokens_of_a_pool_the_newer_one_counts() -> None:
    async with world() as at:
        await at.client.create(SECRETS, pooled(7, Keeping.RENEW))
        at.clock.advance(60)
        newer = token_pools.replaced(pooled(7, Keeping.RENEW), parse_token("abcdef.0123456789abcdef"), NOW + 8 * MINUTE)
        await at.client.create(SECRETS, newer)
        await calm(at.start("tokenrotation"))
        assert await tokens(at) == {TOKEN.text: NOW + 7 * MINUTE, "abcdef.0123456789abcdef": NOW + 16 * MINUTE}


@async_test
async def test_what_cannot_be_read_is_left_to_end() -> None:
    async with world() as at:
        secret = pooled(7, Keeping.RENEW)
        annotations = {**secret.metadata.annotations, token_pools.TTL_ANNOTATION: "-1"}
        await at.client.create(
            SECRETS, structs.replace(secret, metadata=structs.replace(secret.metadata, annotations=annotations))
        )
        with capture_logs() as logs:
            await calm(at.start("tokenrotation"))
        assert any(each["event"] == "a bootstrap token is not kept" for each in logs)
        assert (await at.client.get(SECRETS, TOKEN.secret_name, SYSTEM)).data[EXPIRATION_KEY] == secret.data[
            EXPIRATION_KEY
        ]
