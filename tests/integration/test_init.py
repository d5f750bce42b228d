"""``init`` beside a running API server, and a second control plane that joins it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import yaml

from asynctest import async_test
from join_world import Told
from kubevouch.agent.discovery import token_discovery
from kubevouch.api import catalog
from kubevouch.api.core_v1 import Node
from kubevouch.client.interface import Client, ClientConfigurationError
from kubevouch.client.rest_config import rest_config
from kubevouch.config.kubeadm_v1beta4 import APIEndpoint, ClusterConfiguration, InitConfiguration
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases import cluster_settings
from kubevouch.phases.bootstrap_token import list_tokens
from kubevouch.phases.certificates import control_plane_pki
from kubevouch.phases.certificates.certs import CertsError
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.phases.control_plane_join import ControlPlane
from kubevouch.phases.init import Initialized, InitOptions, Phase, init
from kubevouch.phases.join import KUBELET_CONF, JoinOptions, join, run
from kubevouch.phases.join_phases import Phase as JoinPhase
from kubevouch.phases.join_rehearsal import rehearse
from kubevouch.pki import pins
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.up import Running, running
from kubevouch.util.clock import SystemClock
from kubevouch.wellknown import CONTROL_PLANE_LABEL

CLOCK = SystemClock()


class Quiet:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, done: str, detail: str = "") -> None:
        self.steps.append(done)

    def waiting(self, text: str) -> None:
        pass

    def warning(self, text: str) -> None:
        pass


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _options(folder: Path, port: int, shared: str = "127.0.0.1") -> InitOptions:
    settings = cluster_settings.complete(
        ClusterConfiguration(control_plane_endpoint=f"{shared}:{port}" if shared else ""),
        InitConfiguration(local_api_endpoint=APIEndpoint(advertise_address="127.0.0.1", bind_port=port)),
        host_name="first",
        address="127.0.0.1",
        version="v1.36.2",
    )
    layout = Layout(folder / "pki", folder)
    return InitOptions(settings, layout, upload_certs=True, rootfs=folder, timeout=5)


async def _init(options: InitOptions, *phases: Phase) -> Initialized:
    async with AsyncExitStack() as stack:

        async def connect(path: Path) -> Client:
            return await stack.enter_async_context(rest_config(path).client(component="test"))

        return await init(msgspec.structs.replace(options, phases=frozenset(phases or Phase)), connect, CLOCK, Quiet())


def _up(folder: Path, port: int) -> StandaloneOptions:
    return StandaloneOptions(data_dir=folder, bind_address="127.0.0.1", secure_port=port, store="memory:")


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _discovery(cluster: Running, token: str) -> JoinOptions:
    pin = pins.pin_of(cluster.server.pki.authority.certificate)
    return JoinOptions(token_discovery(cluster.endpoint.address, token, [pin], timeout=120.0), "second")


@async_test
async def test_a_control_plane_is_made_and_a_second_one_joins(tmp_path: Path) -> None:
    first, second, port = tmp_path / "first", tmp_path / "second", _free_port()
    first.mkdir()
    options = _options(first, port)
    await _init(options, Phase.CERTS, Phase.KUBECONFIG)
    before = _contents(first / "pki")
    async with running(_up(first, port), CLOCK) as cluster:
        after = _contents(first / "pki")
        # The server names itself more than kubeadm would; every other file is as init has left it.
        assert {name for name in before if before[name] != after[name]} <= {"apiserver.crt", "apiserver.key"}
        made = await _init(options)
        again = await _init(options)
        client = cluster.server.client
        known = {each.token.text for each in (await list_tokens(client))[0]}
        assert {each.token.text for each in (*made.tokens, *again.tokens)} <= known
        published = await client.get(catalog.CONFIG_MAPS, "kubeadm-config", "kube-system")
        tree = yaml.safe_load(published.data["ClusterConfiguration"])
        assert tree["controlPlaneEndpoint"] == f"127.0.0.1:{port}"
        assert tree["networking"] == {"dnsDomain": "cluster.local", "serviceSubnet": "10.96.0.0/12"}
        kubelet = yaml.safe_load(
            (await client.get(catalog.CONFIG_MAPS, "kubelet-config", "kube-system")).data["kubelet"]
        )
        assert kubelet["rotateCertificates"] is True and kubelet["clusterDNS"] == ["10.96.0.10"]

        wanted = replace(
            _discovery(cluster, made.tokens[0].token.text),
            rootfs=second,
            control_plane=ControlPlane("127.0.0.1", again.certificate_key, 6444),
            ignored=frozenset(),
        )
        expected = await rehearse(wanted, CLOCK, Told())
        assert not second.exists()
        joined = await join(wanted, CLOCK, Told())
        assert all(path.exists() for path in expected)
        for name in ("ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key", "etcd/ca.key"):
            assert (second / "etc/kubernetes/pki" / name).read_bytes() == (first / "pki" / name).read_bytes()
        assert joined.kubelet_conf == second / KUBELET_CONF
        assert not (second / "etc/kubernetes/super-admin.conf").exists()
        assert "rotateCertificates: true" in (second / "var/lib/kubelet/config.yaml").read_text()
        async with rest_config(second / "etc/kubernetes/admin.conf").client(component="test") as admin:
            await admin.list(catalog.NODES)

        # The Node comes with the kubelet, later.
        marking, told = replace(wanted, phases=frozenset({JoinPhase.MARK_CONTROL_PLANE})), Told()
        await run(marking, CLOCK, told)
        assert "there is no Node second to be marked" in told.warnings[0]
        admin_conf = second / "etc/kubernetes/admin.conf"
        kept = await asyncio.to_thread(admin_conf.read_bytes)
        await asyncio.to_thread(admin_conf.write_bytes, b"{}")
        assert (await join(wanted, CLOCK, told)).already
        assert "could not be marked as a control plane: " in told.warnings[1]
        with pytest.raises(ClientConfigurationError):
            await run(marking, CLOCK, told)
        await asyncio.to_thread(admin_conf.write_bytes, kept)
        await client.create(catalog.NODES, Node(metadata=ObjectMeta(name="second")))
        await run(marking, CLOCK, told)
        assert CONTROL_PLANE_LABEL in (await client.get(catalog.NODES, "second")).metadata.labels


@async_test
async def test_the_files_of_a_control_plane_phase_by_phase(tmp_path: Path) -> None:
    first, second, port = tmp_path / "first", tmp_path / "second/etc/kubernetes", _free_port()
    first.mkdir()
    options = _options(first, port)
    await _init(options, Phase.CERTS, Phase.KUBECONFIG)
    async with running(_up(first, port), CLOCK) as cluster:
        made = await _init(options)
        plane = ControlPlane("127.0.0.1", made.certificate_key, 6444)
        wanted = replace(
            _discovery(cluster, made.tokens[0].token.text),
            rootfs=tmp_path / "second",
            control_plane=plane,
            ignored=frozenset(),
        )
        seen: set[str] = set()
        for phase, expected in (
            (JoinPhase.DOWNLOAD_CERTS, {"pki/ca.key", "pki/sa.key", "pki/etcd/ca.crt"}),
            (JoinPhase.CERTS, {"pki/apiserver.crt", "pki/etcd/peer.key"}),
            (JoinPhase.KUBECONFIG, {"admin.conf", "scheduler.conf"}),
        ):
            assert await run(replace(wanted, phases=frozenset({phase})), CLOCK, Told()) is None
            now = set(_contents(second))
            assert expected <= now - seen
            seen = now
        assert not {"kubelet.conf", "bootstrap-kubelet.conf"} & seen


@async_test
async def test_the_files_of_another_cluster_and_another_key_are_refused(tmp_path: Path) -> None:
    first, port = tmp_path / "first", _free_port()
    first.mkdir()
    options = _options(first, port)
    await _init(options, Phase.CERTS, Phase.KUBECONFIG)
    async with running(_up(first, port), CLOCK) as cluster:
        made = await _init(options)
        base = replace(_discovery(cluster, made.tokens[0].token.text), rootfs=tmp_path / "second")
        with pytest.raises(CertsError, match="error decrypting"):
            await join(replace(base, control_plane=ControlPlane("127.0.0.1", "0" * 64)), CLOCK, Told())
        with pytest.raises(CertsError, match="one or more required certificates or keys are missing"):
            await join(replace(base, control_plane=ControlPlane("127.0.0.1")), CLOCK, Told())
        assert not list((tmp_path / "second").rglob("*.key"))
        # Copied files of another cluster.
        other = _options(tmp_path / "second", port)
        layout = Layout(tmp_path / "second/etc/kubernetes/pki", tmp_path / "second/etc/kubernetes")
        await asyncio.to_thread(control_plane_pki.ensure_certificates, other.settings, layout, now=CLOCK.now())
        with pytest.raises(CertsError, match=r"is not the CA that discovery has proven"):
            await join(replace(base, control_plane=ControlPlane("127.0.0.1")), CLOCK, Told())
        key = made.certificate_key
        with pytest.raises(CertsError, match=r"is there and differs"):
            await join(replace(base, control_plane=ControlPlane("127.0.0.1", key)), CLOCK, Told())


@async_test
async def test_control_planes_need_an_address_to_share(tmp_path: Path) -> None:
    port = _free_port()
    options = _options(tmp_path, port, shared="")
    await _init(options, Phase.CERTS, Phase.KUBECONFIG)
    async with running(_up(tmp_path, port), CLOCK) as cluster:
        made = await _init(options)
        wanted = replace(_discovery(cluster, made.tokens[0].token.text), rootfs=tmp_path / "second")
        key = made.certificate_key
        with pytest.raises(CertsError, match="doesn't have a stable controlPlaneEndpoint"):
            await join(replace(wanted, control_plane=ControlPlane("127.0.0.1", key)), CLOCK, Told())
