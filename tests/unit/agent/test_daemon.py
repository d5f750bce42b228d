from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
import re
import ssl
import stat
from pathlib import Path

import msgspec
import pytest

from aio import until
from asynctest import async_test
from join_world import TOKEN, Told, join_world
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.daemon import Agent
from kubevouch.agent.interface import NotTrustedError, SettingsError
from kubevouch.agent.node_access import ClusterFiles
from kubevouch.agent.options import AgentOptions, algorithm
from kubevouch.agent.report import words
from kubevouch.agent.rotation_plan import Reason
from kubevouch.agent.serving import PREFIX
from kubevouch.api import catalog
from kubevouch.api.core_v1 import Node, NodeAddress, NodeStatus
from kubevouch.config import kubeconfig
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases.join import CERTIFICATE_FOLDER, KUBELET_CONF, JoinOptions, join
from kubevouch.phases.join_wait import read
from kubevouch.pki import authority, keys, pins, rotation
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.testing.clock import FakeClock
from kubevouch.util.clock import SystemClock

CASES = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parents[2] / "vectors" / "node.jsonl").read_text().splitlines())
}
NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
CA = authority.create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW - dt.timedelta(days=1000))

OTHER_CA = authority.create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW - dt.timedelta(days=1))


def _pair(not_after: dt.datetime) -> tuple[bytes, bytes]:
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    begin = not_after - dt.timedelta(days=300)
    spec = authority.LeafSpec(
        common_name="system:node:worker-7",
        organizations=("system:nodes",),
        purposes=("client auth",),
        validity=dt.timedelta(days=300) - authority.BACKDATE,
    )
    return authority.issue_leaf(CA, spec, key, now=begin + authority.BACKDATE).pem(), keys.to_pem(key)


def _machine(root: Path, user: kubeconfig.User) -> AgentOptions:
    path = root / "kubelet.conf"
    path.write_text(
        kubeconfig.dump(
            kubeconfig.Kubeconfig(
                clusters={
                    "c": kubeconfig.Cluster(
                        server="https://127.0.0.1:1", certificate_authority_data=CA.certificate.pem()
                    )
                },
                users={"u": user},
                contexts={"x": kubeconfig.Context(cluster="c", user="u")},
                current_context="x",
            )
        )
    )
    files = ClusterFiles(path, root / "bootstrap-kubelet.conf")
    return AgentOptions("worker-7", files, cert_dir=root / "pki", socket=root / "run" / "agent.sock", healthz=None)


def test_bootstrap_state_012_an_expired_kubeconfig_without_another_is_used_as_it_is(tmp_path: Path) -> None:
    case = CASES["bootstrap-state-012"]
    assert case["then"]["action"] == "use kubeconfig as is"
    certificate, key = _pair(dt.datetime.fromisoformat(case["given"]["kubeconfig"]["user"]["cert"]["notAfter"]))
    options = _machine(tmp_path, kubeconfig.User(client_certificate_data=certificate, client_key_data=key))
    before = options.files.kubeconfig.read_bytes()
    agent = Agent(options, FakeClock(dt.datetime.fromisoformat(case["given"]["now"])))
    agent.prepare()
    assert options.files.kubeconfig.read_bytes() == before
    assert agent.client.pair is not None and agent.client.pair.leaf.pem() == certificate
    assert not agent.client.usable and "has expired" not in agent.client.standing.last_error


@pytest.mark.parametrize("name", ["bootstrap-state-021", "bootstrap-state-022"])
@async_test
async def test_bootstrap_state_021_022_a_pair_inside_of_the_kubeconfig(tmp_path: Path, name: str) -> None:
    then = CASES[name]["then"]
    inside, key = _pair(NOW + dt.timedelta(days=200))
    options = _machine(tmp_path, kubeconfig.User(client_certificate_data=inside, client_key_data=key))
    stored = b""
    if CASES[name]["given"]["store"] != "empty":
        stored, its_key = _pair(NOW + dt.timedelta(days=200))
        CertificateStore(options.cert_dir).update(stored, keys.load_pem(its_key), now=NOW)
    clock = FakeClock(NOW)
    agent = Agent(options, clock)
    agent.prepare()
    assert agent.client.pair is not None
    assert agent.client.pair.leaf.pem() == (inside if then.get("store_seeded") else stored)
    step = asyncio.create_task(agent.client.step())
    if then["first_rotation"] == "immediate":
        await step  # nobody listens there
        assert agent.client.standing.asking == Reason.FORCED
    else:
        await clock.until_asleep()
        assert agent.client.standing.asking == "" and agent.client.standing.next_rotation is not None
        step.cancel()
        await asyncio.wait({step})


def test_nothing_to_begin_with(tmp_path: Path) -> None:
    options = AgentOptions("a", ClusterFiles(tmp_path / "kubelet.conf", tmp_path / "bootstrap"), cert_dir=tmp_path)
    with pytest.raises(SettingsError, match="neither"):
        Agent(options, FakeClock(NOW)).prepare()


@async_test
async def test_status_in_plain_words(tmp_path: Path) -> None:
    certificate, key = _pair(NOW + dt.timedelta(days=200))
    options = _machine(tmp_path, kubeconfig.User(client_certificate_data=certificate, client_key_data=key))
    clock = FakeClock(NOW)
    agent = Agent(options, clock)
    agent.prepare()
    await agent.client.step()
    shown = "\n".join(words(agent.status()["certificates"][0], NOW))
    assert "system:node:worker-7 until 2031-09-17T12:00:00Z (200d left)" in shown
    assert "last error at 2031-03-01T12:00:00Z: " in shown and "tried again by itself" in shown
    assert agent.status()["healthy"] is True
    clock.set(NOW + dt.timedelta(days=201))
    assert agent.status()["healthy"] is False
    assert agent.status()["certificates"][0]["state"] == "expired"
    assert "has expired" in words(agent.status()["certificates"][0], clock.now())[0]


@async_test
async def test_the_serving_certificate_is_asked_for_as_the_node(tmp_path: Path) -> None:
    root = tmp_path / "node"
    async with join_world(tmp_path) as world, world.clerk_at_work():
        await join(JoinOptions(world.discovery(), "worker-1", root, 120.0), SystemClock(), Told())
        options = AgentOptions(
            "worker-1",
            ClusterFiles(root / KUBELET_CONF),
            cert_dir=root / CERTIFICATE_FOLDER,
            serving=True,
            socket=tmp_path / "agent.sock",
            healthz=None,
        )
        agent = Agent(options, SystemClock())
        stop = asyncio.Event()
        running = asyncio.create_task(agent.run(stop))
        try:
            status = NodeStatus(addresses=[NodeAddress(type="InternalIP", address="192.0.2.17")])
            await world.server.client.create(catalog.NODES, Node(metadata=ObjectMeta(name="worker-1"), status=status))
            serving = agent.managers[1]
            async with asyncio.timeout(120):
                await until(lambda: serving.pair is not None)
            assert serving.pair is not None
            names = serving.pair.leaf.meaning.alt_names
            assert [str(each) for each in names.ip_addresses] == ["192.0.2.17"]
        finally:
            stop.set()
            await running


@async_test
async def test_a_machine_begins_with_a_bare_token(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path / "etc" / "kubelet.conf", tmp_path / "etc" / "bootstrap-kubelet.conf")
    async with join_world(tmp_path) as world, world.clerk_at_work():
        files = msgspec.structs.replace(files, discovery=world.discovery())
        options = AgentOptions(
            "worker-1", files, cert_dir=tmp_path / "pki", socket=tmp_path / "agent.sock", healthz=None, recovery=False
        )
        agent = Agent(options, SystemClock())
        stop = asyncio.Event()
        running = asyncio.create_task(agent.run(stop))
        try:
            async with asyncio.timeout(30):
                await until(lambda: running.done() or files.kubeconfig.exists())
                # The token was on disk, and does not stay.
                await until(lambda: running.done() or not (tmp_path / "etc" / "bootstrap-kubelet.conf").exists())
        finally:
            stop.set()
            await running
        written = kubeconfig.load(files.kubeconfig.read_bytes())
        assert written.clusters["default-cluster"].server == world.server.endpoint.url
        assert TOKEN.text not in files.kubeconfig.read_text()


@async_test
async def test_a_self_signed_certificate_fills_the_time_until_one_is_issued(tmp_path: Path) -> None:
    root = tmp_path / "node"
    store = CertificateStore(root / CERTIFICATE_FOLDER, PREFIX)
    async with join_world(tmp_path) as world:
        async with world.clerk_at_work():
            told = Told()
            asked = JoinOptions(world.discovery(), "worker-1", root, serve_self_signed=True)
            await join(asked, SystemClock(), told)
        assert "self-signed" in told.warnings[-1]
        # As a kubelet finds its own: a link to a private file with certificate and key, which openssl takes.
        made = store.current()
        assert made is not None and store.current_path.is_symlink()
        assert stat.S_IMODE(store.current_path.stat().st_mode) == 0o600
        assert re.fullmatch(r"kubelet-server-[0-9]{4}(-[0-9]{2}){5}\.pem", store.current_path.readlink().name)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(store.current_path)
        assert made.leaf.meaning.alt_names.dns_names == ("worker-1",)
        assert not made.leaf.meaning.is_ca
        # Not what is wanted, so that whoever finds it asks at once; and not what join --wait waits for.
        assert not rotation.satisfies(made.leaf, rotation.WantedCertificate(common_name="system:node:worker-1"))
        assert read(root) is None
        await join(asked, SystemClock(), Told())
        again = store.current()
        assert again is not None and again.chain == made.chain
        options = AgentOptions(
            "worker-1", ClusterFiles(root / KUBELET_CONF), cert_dir=root / CERTIFICATE_FOLDER, serving=True,
            serve_self_signed=True, socket=tmp_path / "agent.sock", healthz=None, recovery=False,
        )  # fmt: skip
        agent, stop = Agent(options, SystemClock()), asyncio.Event()
        serving = agent.managers[1]
        running = asyncio.create_task(agent.run(stop))
        try:
            status = NodeStatus(addresses=[NodeAddress(type="InternalIP", address="192.0.2.17")])
            async with asyncio.timeout(120):
                await until(lambda: running.done() or serving.pair is not None)
                await world.server.client.create(
                    catalog.NODES, Node(metadata=ObjectMeta(name="worker-1"), status=status)
                )
                async with world.clerk_at_work():
                    await until(lambda: running.done() or serving.standing.rotations > 0)
        finally:
            stop.set()
            await running
        issued = store.current()
        assert issued is not None and issued.leaf.issuer_name == world.server.pki.authority.certificate.subject_name
        found = read(root)
        assert found is not None and found.certificate == issued.leaf
        # What is issued is never replaced by what is not, also when it has ended.
        Agent(options, FakeClock(SystemClock().now() + dt.timedelta(days=4000))).prepare()
        kept = store.current()
        assert kept is not None and kept.chain == issued.chain


def test_an_ended_self_signed_certificate_is_made_again_and_none_without_being_asked(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path / "kubelet.conf", tmp_path / "bootstrap.conf")
    (tmp_path / "bootstrap.conf").write_text("{}")
    options = AgentOptions("worker-1", files, cert_dir=tmp_path / "pki", serving=True, addresses=("192.0.2.7", "a.b"))
    store = CertificateStore(tmp_path / "pki", PREFIX)
    Agent(options, FakeClock(NOW)).prepare()
    assert store.current() is None
    options = dataclasses.replace(options, serve_self_signed=True)
    leaves = []
    for time in (NOW, NOW + dt.timedelta(days=364), NOW + dt.timedelta(days=366)):
        Agent(options, FakeClock(time)).prepare()
        pair = store.current()
        assert pair is not None
        leaves.append(pair.leaf)
    assert leaves[0] == leaves[1] != leaves[2]
    assert leaves[0].meaning.alt_names.dns_names == ("a.b", "worker-1")
    assert list(map(str, leaves[0].meaning.alt_names.ip_addresses)) == ["192.0.2.7"]


async def _run_until_certified(options: AgentOptions) -> None:
    agent, stop = Agent(options, SystemClock()), asyncio.Event()
    running = asyncio.create_task(agent.run(stop))
    try:
        async with asyncio.timeout(30):
            await until(lambda: running.done() or (agent.client.usable and options.files.kubeconfig.exists()))
    finally:
        stop.set()
        await running


@async_test
async def test_the_first_certificate_has_the_key_that_was_made_beforehand(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path / "etc" / "kubelet.conf", tmp_path / "etc" / "bootstrap-kubelet.conf")
    key = keys.generate(KeyAlgorithm.ECDSA_P384)
    async with join_world(tmp_path) as world, world.clerk_at_work():
        files = msgspec.structs.replace(files, discovery=world.discovery())
        options = AgentOptions(
            "worker-1", files, cert_dir=tmp_path / "pki", socket=tmp_path / "agent.sock", healthz=None, recovery=False,
            algorithm=algorithm("", key), key=key,
        )  # fmt: skip
        store = CertificateStore(tmp_path / "pki")
        left = keys.generate(KeyAlgorithm.ECDSA_P384)
        for first in (True, False):
            # What a former attempt has left; and what is asked for after the first certificate has a key of its own.
            store.put_pending_key(left)
            await _run_until_certified(options)
            pair = store.current()
            assert pair is not None and keys.to_pem(pair.key) == keys.to_pem(key)
            assert first or store.pending_key_path.read_bytes() == keys.to_pem(left)


@async_test
async def test_a_token_of_another_cluster_begins_nothing(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path / "kubelet.conf", tmp_path / "bootstrap.conf")
    async with join_world(tmp_path) as world:
        elsewhere = msgspec.structs.replace(world.discovery(), pins=pins.parse([pins.pin_of(CA.certificate)]))
        options = AgentOptions(
            "worker-1", msgspec.structs.replace(files, discovery=elsewhere), cert_dir=tmp_path / "pki"
        )
        with pytest.raises(NotTrustedError):
            await Agent(options, SystemClock()).begin()
    assert not (tmp_path / "bootstrap.conf").exists()


@pytest.mark.parametrize(("authorities", "seconds"), [([CA], 600.0), ([CA, OTHER_CA], 60.0)])
@async_test
async def test_cluster_info_is_read_more_often_while_the_ca_changes(
    tmp_path: Path, authorities: list[CertificateAuthority], seconds: float
) -> None:
    options = _machine(tmp_path, kubeconfig.User())
    path = options.files.kubeconfig
    bundle = b"".join(each.certificate.pem() for each in authorities)
    found = kubeconfig.load(path.read_bytes())
    cluster = msgspec.structs.replace(found.clusters["c"], certificate_authority_data=bundle)
    path.write_text(kubeconfig.dump(msgspec.structs.replace(found, clusters={"c": cluster})))
    clock = FakeClock(NOW)
    agent = Agent(options, clock, lambda: 0.5)
    running = asyncio.create_task(agent.follow_cluster_info())
    try:
        await clock.until_asleep()
        clock.advance(seconds - 1)
        assert clock.sleepers == 1
        clock.advance(1)
        assert clock.sleepers == 0
    finally:
        running.cancel()
        await asyncio.wait({running})
