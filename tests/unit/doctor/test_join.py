"""Each test breaks one thing of a join and reads the diagnosis."""

from __future__ import annotations

import datetime as dt
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path

import msgspec
import pytest

from asynctest import async_test
from join_requests import ask
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.nodes import NodeCondition, NodeStatus
from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Context, Kubeconfig, User
from kubevouch.doctor.findings import Code, Report
from kubevouch.doctor.join import JoinAttempt, examine, judge_settings
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases import bootstrap_token
from kubevouch.phases.join import KUBELET_CONF
from kubevouch.pki import control_plane, keys
from kubevouch.pki.authority import issue_leaf
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.records import token_bounds
from kubevouch.records.bootstrap_tokens import (
    AUTHENTICATION,
    SIGNING,
    BootstrapToken,
    Token,
    generate_token,
    parse_token,
    to_secret,
)
from kubevouch.records.token_bounds import Bounds
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import Clock, SystemClock
from scripted_server import ScriptedServer, reply, reply_status
from throwaway_ca import ThrowawayCA, server_context

SIGNER = ("bootstrap-signer-controller",)
GOOD = "abcdef.0123456789abcdef"
PIN = f"sha256:{'0' * 64}"


def codes(report: Report) -> list[Code]:
    return [finding.code for finding in report.findings]


def cause(report: Report) -> str:
    (finding,) = report.findings
    return finding.cause


def attempt(cluster: Cluster, token: str, **changed: object) -> JoinAttempt:
    settings: dict[str, object] = {
        "endpoint": cluster.url.removeprefix("https://"),
        "token": token,
        "hashes": (cluster.pin,),
        "node_name": "worker-1",
    }
    return JoinAttempt(**settings | changed)  # type: ignore[arg-type]  # the names are those of the fields


def world(controllers: tuple[str, ...] = SIGNER) -> Cluster:
    return Cluster(https=True, controllers=controllers)


async def settled(cluster: Cluster) -> None:
    await cluster.settle_async()


async def store(cluster: Cluster, token: Token, **settings: object) -> None:
    usages = settings.pop("usages", (SIGNING, AUTHENTICATION))
    groups = settings.pop("groups", (wellknown.DEFAULT_NODE_TOKEN_GROUP,))
    stored = BootstrapToken(token, usages=usages, groups=groups, **settings)  # type: ignore[arg-type]
    await cluster.client().create(catalog.SECRETS, to_secret(stored))
    await settled(cluster)


@async_test
async def test_nothing_is_wrong() -> None:
    async with world() as cluster:
        token = await cluster.token_async()
        await settled(cluster)
        report = await examine(attempt(cluster, token), SystemClock())
        assert report.findings == ()
        facts = dict(report.facts)
        assert facts["addresses"] == "127.0.0.1"
        assert facts["cluster-info"].endswith(f"signed with {token[:6]}")
        # Nothing was asked for.
        assert not (await cluster.client().list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"endpoint": "192.0.2.1"}, Code.ENDPOINT_MALFORMED),
        ({"token": "abcdef.0123456789abcdeF"}, Code.TOKEN_MALFORMED),
        ({"hashes": ("sha256:12",)}, Code.PIN_MALFORMED),
        ({"hashes": ()}, Code.PIN_MISSING),
        ({}, None),
        ({"hashes": (), "unsafe_skip_ca_verification": True}, None),
    ],
)
def test_settings(changed: dict[str, object], code: Code | None) -> None:
    given = {"endpoint": "192.0.2.1:6443", "token": GOOD, "hashes": (PIN,)} | changed
    *_, found = judge_settings(JoinAttempt(**given))  # type: ignore[arg-type]  # the names are those of the fields
    assert [each.code for each in found] == ([] if code is None else [code])
    assert not [each for each in found if "0123456789" in each.cause]


# ------------------------------------------------------------------ the way


@async_test
async def test_a_name_that_is_none() -> None:
    report = await examine(JoinAttempt("no-such-host.invalid:6443", GOOD, (PIN,)), SystemClock())
    assert codes(report) == [Code.NAME_NOT_RESOLVED]
    assert report.findings[0].fix == "getent hosts no-such-host.invalid"


@async_test
async def test_a_port_where_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        report = await examine(JoinAttempt(f"127.0.0.1:{free.getsockname()[1]}", GOOD, (PIN,)), SystemClock())
    assert codes(report) == [Code.PORT_REFUSED]


@async_test
async def test_plain_http() -> None:
    async with ScriptedServer(None, [reply("hello")]) as server:
        report = await examine(JoinAttempt(f"127.0.0.1:{server.port}", GOOD, (PIN,)), SystemClock())
    assert codes(report) == [Code.PLAIN_HTTP]


@async_test
async def test_a_proxy_and_a_web_server_that_answer(tmp_path: Path) -> None:
    tls = server_context(ThrowawayCA().issue(), tmp_path)
    page = "<html>denied</html>"
    async with ScriptedServer(tls, [reply(page, 403, "text/html", {"Server": "squid/6.1"})]) as server:
        where = JoinAttempt(f"127.0.0.1:{server.port}", GOOD, (PIN,))
        report = await examine(where, SystemClock())
        assert codes(report) == [Code.PROXY_ANSWERS]
        assert "squid/6.1" in cause(report)
        server.script(reply(page, 200, "text/html"))
        assert codes(await examine(where, SystemClock())) == [Code.NOT_KUBERNETES]


@async_test
async def test_who_refuses_anonymous_requests_and_who_only_cluster_info(tmp_path: Path) -> None:
    tls = server_context(ThrowawayCA().issue(), tmp_path)
    async with ScriptedServer(tls, [reply_status(401, "Unauthorized", "Unauthorized")]) as server:
        where = JoinAttempt(f"127.0.0.1:{server.port}", GOOD, (PIN,))
        report = await examine(where, SystemClock())
        assert codes(report) == [Code.CLUSTER_INFO_FORBIDDEN]
        assert "turned off" in cause(report)
        server.script(reply_status(403, "Forbidden", "configmaps is forbidden"))
        assert "is forbidden" in cause(await examine(where, SystemClock()))


@pytest.mark.parametrize("hours", [-7, 7])
def test_a_clock_that_is_off(hours: int) -> None:
    @async_test
    async def scenario() -> None:
        async with world() as cluster:
            token = await cluster.token_async()
            await settled(cluster)
            clock: Clock = FakeClock(SystemClock().now() + dt.timedelta(hours=hours))
            report = await examine(attempt(cluster, token), clock)
            assert Code.CLOCK_OFF in codes(report)
            said = next(each.cause for each in report.findings if each.code is Code.CLOCK_OFF)
            assert ("7h ahead of" if hours > 0 else "7h behind") in said.replace("6h59m", "7h")

    scenario()


@async_test
async def test_an_environment_with_a_proxy() -> None:
    async with world() as cluster:
        token = await cluster.token_async()
        await settled(cluster)
        environ = {"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": "10.0.0.0/8"}
        # Go never sends loopback addresses to a proxy.
        assert codes(await examine(attempt(cluster, token, environ=environ), SystemClock())) == []
        port = cluster.url.rpartition(":")[2]
        report = await examine(attempt(cluster, token, endpoint=f"0.0.0.0:{port}", environ=environ), SystemClock())
        assert Code.PROXY_CAPTURES in codes(report)
        assert report.findings[-1].fix == 'export NO_PROXY="10.0.0.0/8,0.0.0.0"'


@async_test
async def test_an_address_that_the_certificate_lacks() -> None:
    async with world() as cluster:
        token = await cluster.token_async()
        await settled(cluster)
        # Linux connects to this machine there.
        port = cluster.url.rpartition(":")[2]
        report = await examine(attempt(cluster, token, endpoint=f"0.0.0.0:{port}"), SystemClock())
        assert codes(report) == [Code.SERVER_NAME_MISSING]
        assert "127.0.0.1" in cause(report)


@async_test
async def test_another_cluster() -> None:
    async with world() as cluster:
        token = await cluster.token_async()
        await settled(cluster)
        report = await examine(attempt(cluster, token, hashes=(PIN,)), SystemClock())
        assert codes(report) == [Code.PIN_WRONG]
        assert cluster.pin in cause(report)


# ------------------------------------------------------------------ cluster-info


Break = Callable[[Cluster], Coroutine[object, object, None]]


async def _delete_cluster_info(cluster: Cluster) -> None:
    await cluster.client().delete(catalog.CONFIG_MAPS, "cluster-info", "kube-public")


async def _hide_cluster_info(cluster: Cluster) -> None:
    name = "kubeadm:bootstrap-signer-clusterinfo"
    await cluster.client().delete(catalog.ROLE_BINDINGS, name, "kube-public")


async def _break_cluster_info(cluster: Cluster) -> None:
    found = await cluster.client().get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
    data = {**found.data, "kubeconfig": "kind: Config"}
    await cluster.client().update(catalog.CONFIG_MAPS, msgspec.structs.replace(found, data=data))
    await settled(cluster)


@pytest.mark.parametrize(
    ("break_it", "code"),
    [
        (_delete_cluster_info, Code.CLUSTER_INFO_MISSING),
        (_hide_cluster_info, Code.CLUSTER_INFO_FORBIDDEN),
        (_break_cluster_info, Code.CLUSTER_INFO_BROKEN),
    ],
)
def test_cluster_info(break_it: Break, code: Code) -> None:
    @async_test
    async def scenario() -> None:
        async with world() as cluster:
            token = await cluster.token_async()
            await settled(cluster)
            await break_it(cluster)
            assert codes(await examine(attempt(cluster, token), SystemClock())) == [code]

    scenario()


@async_test
async def test_nobody_signs() -> None:
    async with world(()) as cluster:
        token = await cluster.token_async()
        assert codes(await examine(attempt(cluster, token), SystemClock())) == [Code.SIGNATURES_MISSING]
        # Without a pin nothing vouches for the server, and the token is not shown to it.
        report = await examine(attempt(cluster, token, hashes=()), SystemClock())
        assert codes(report) == [Code.PIN_MISSING, Code.SIGNATURES_MISSING]


@async_test
async def test_a_signature_that_is_out_of_date() -> None:
    async with world() as cluster:
        token = await cluster.token_async()
        await settled(cluster)
        signed = (await cluster.client().get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")).data
    async with world(()) as cluster:
        known = Token(*token.split("."))
        await store(cluster, known)
        found = await cluster.client().get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        data = {**signed, "kubeconfig": found.data["kubeconfig"]}
        await cluster.client().update(catalog.CONFIG_MAPS, msgspec.structs.replace(found, data=data))
        assert codes(await examine(attempt(cluster, token), SystemClock())) == [Code.TOKEN_UNSIGNED]


# ------------------------------------------------------------------ the token


@async_test
async def test_tokens_that_do_not_count() -> None:
    """Without a look at the Secret, and with one."""
    async with world() as cluster:
        known, signing, authenticating, old = (generate_token() for _ in range(4))
        now = cluster.clock.now()
        await store(cluster, known)
        await store(cluster, signing, usages=(SIGNING,), groups=())
        await store(cluster, authenticating, usages=(AUTHENTICATION,))
        await store(cluster, old, expires=now - dt.timedelta(minutes=1))
        operator = cluster.client()
        wrong = Token(known.token_id, "0" * 16)
        for token, without, with_secret in (
            (wrong, Code.TOKEN_SECRET_WRONG, Code.TOKEN_SECRET_WRONG),
            (signing, Code.TOKEN_NOT_FOR_AUTHENTICATION, Code.TOKEN_NOT_FOR_AUTHENTICATION),
            (authenticating, Code.TOKEN_NOT_FOR_SIGNING, Code.TOKEN_NOT_FOR_SIGNING),
            (old, Code.TOKEN_UNKNOWN, Code.TOKEN_EXPIRED),
            (generate_token(), Code.TOKEN_UNKNOWN, Code.TOKEN_UNKNOWN),
        ):
            report = await examine(attempt(cluster, token.text), SystemClock())
            assert codes(report) == [without]
            assert token.token_secret not in cause(report)
            report = await examine(attempt(cluster, token.text), SystemClock(), operator)
            assert codes(report) == [with_secret]


# ------------------------------------------------------------------ rights and names


@async_test
async def test_a_token_that_may_not_ask_and_one_that_nobody_approves() -> None:
    async with world() as cluster:
        token = await cluster.token_async(groups=["system:bootstrappers:others"])
        usual = await cluster.token_async()
        await settled(cluster)
        report = await examine(attempt(cluster, token), SystemClock())
        assert codes(report) == [Code.REQUESTS_FORBIDDEN]
        assert "403" in cause(report)
        name = "kubeadm:node-autoapprove-bootstrap"
        await cluster.client().delete(catalog.CLUSTER_ROLE_BINDINGS, name)
        assert codes(await examine(attempt(cluster, usual), SystemClock())) == [Code.APPROVAL_NOT_AUTOMATIC]


@async_test
async def test_a_name_that_a_ready_node_has() -> None:
    async with world() as cluster:
        token = await cluster.token_async()
        client = cluster.client()
        node = await client.create(catalog.NODES, Node(metadata=ObjectMeta(name="worker-1")))
        await settled(cluster)
        assert codes(await examine(attempt(cluster, token), SystemClock())) == []
        ready = NodeStatus(conditions=[NodeCondition(type="Ready", status="True")])
        await client.update(catalog.NODES, msgspec.structs.replace(node, status=ready), subresource="status")
        report = await examine(attempt(cluster, token), SystemClock())
        assert codes(report) == [Code.NODE_NAME_TAKEN]
        assert report.findings[0].fix == "kubectl delete node worker-1"


# ------------------------------------------------------------------ bounded tokens


@async_test
async def test_a_token_that_is_used_up() -> None:
    async with world(("*",)) as cluster:
        token = generate_token()
        await store(cluster, token, bounds=Bounds(uses=1))
        await ask(cluster, token.token_id, node="worker-9")
        trying = attempt(cluster, token.text)
        for wait in (0.0, 400.0):
            cluster.clock.advance(wait)
            await settled(cluster)
            report = await examine(trying, cluster.clock, cluster.client())
            assert Code.TOKEN_USED_UP in codes(report)
            assert not {Code.TOKEN_NOT_FOR_SIGNING, Code.TOKEN_NOT_FOR_AUTHENTICATION} & set(codes(report))
            told = next(each for each in report.findings if each.code is Code.TOKEN_USED_UP)
            assert told.cause == f"the token {token.token_id} was for 1 use, which went to system:node:worker-9"


@pytest.mark.parametrize(
    ("bounds", "cause_part"),
    [
        (Bounds(node_names=("db-*",)), "is for db-*, not for worker-1"),
        (token_bounds.parse(source_ranges=["192.0.2.0/24"]), "accepts the token abcdef from 192.0.2.0/24 only"),
    ],
)
@async_test
async def test_a_token_for_others(bounds: Bounds, cause_part: str) -> None:
    async with world() as cluster:
        await store(cluster, parse_token(GOOD), bounds=bounds)
        report = await examine(attempt(cluster, GOOD), SystemClock(), cluster.client())
        assert codes(report) == [Code.TOKEN_FOR_OTHERS]
        assert cause_part in cause(report)


@async_test
async def test_separate_tokens_are_each_looked_at_for_what_they_are_for() -> None:
    async with world() as cluster:
        client, now = cluster.client(), cluster.clock.now()
        pair = await bootstrap_token.ensure(client, bootstrap_token.DEFAULT_TTL, now=now)
        await settled(cluster)
        discovery, request = pair.discovery.text, pair.authentication.text
        good = attempt(cluster, discovery, tls_bootstrap_token=request)
        assert codes(await examine(good, SystemClock())) == []
        assert codes(await examine(good, SystemClock(), client)) == []
        swapped = attempt(cluster, request, tls_bootstrap_token=discovery)
        found = [Code.TOKEN_NOT_FOR_SIGNING, Code.TOKEN_NOT_FOR_AUTHENTICATION]
        assert codes(await examine(swapped, SystemClock(), client)) == found
        # Without a look at the Secrets it is seen by what the server makes of them.
        assert codes(await examine(swapped, SystemClock())) == [Code.TOKEN_UNKNOWN, Code.TOKEN_NOT_FOR_AUTHENTICATION]
        malformed = attempt(cluster, discovery, tls_bootstrap_token="nope")
        assert codes(await examine(malformed, SystemClock())) == [Code.TOKEN_MALFORMED]


@async_test
async def test_what_cannot_be_seen_without_an_operator_is_said() -> None:
    async with world() as cluster:
        token = await cluster.token_async()
        await settled(cluster)
        seen = dict((await examine(attempt(cluster, token), SystemClock())).facts)
        assert "give --kubeconfig" in seen["not seen"] and "which addresses" in seen["not seen"]
        seen = dict((await examine(attempt(cluster, token), SystemClock(), cluster.client())).facts)
        assert "not seen" not in seen


def node_kubeconfig_of(cluster: Cluster, name: str) -> str:
    authority, key = cluster.pki.authority, keys.generate(KeyAlgorithm.ECDSA_P256)
    pair = User(
        client_certificate_data=issue_leaf(authority, control_plane.kubelet(name), key, now=SystemClock().now()).pem(),
        client_key_data=keys.to_pem(key),
    )
    where = kubeconfig.Cluster(server=cluster.url, certificate_authority_data=authority.certificate.pem())
    return kubeconfig.dump(
        Kubeconfig(
            clusters={"c": where},
            users={"u": pair},
            contexts={"x": Context(cluster="c", user="u")},
            current_context="x",
        )
    )


@async_test
async def test_a_machine_that_has_joined_elsewhere(tmp_path: Path) -> None:
    async with world() as here, world() as elsewhere:
        token = await here.token_async()
        await settled(here)
        assert codes(await examine(attempt(here, token, root=tmp_path), SystemClock())) == []
        path = tmp_path / KUBELET_CONF
        path.parent.mkdir(parents=True)
        path.write_text(node_kubeconfig_of(elsewhere, "worker-1"))
        report = await examine(attempt(here, token, root=tmp_path), SystemClock())
        assert codes(report) == [Code.JOINED_ALREADY] and "another cluster" in cause(report)
        path.write_text(node_kubeconfig_of(here, "worker-1"))
        report = await examine(attempt(here, token, root=tmp_path), SystemClock())
        assert codes(report) == [] and "has joined already" in dict(report.facts)["machine"]
