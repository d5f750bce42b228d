"""Discovery by every way that leads to a server, and by those that lead elsewhere first."""

from __future__ import annotations

import asyncio
import io
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest

from aio import until
from asynctest import async_test, on_both_loops
from join_world import TOKEN, JoinWorld, Told, join_world
from kubevouch.agent import file_discovery
from kubevouch.agent.discovery import DiscoveredCluster, discover, token_discovery
from kubevouch.agent.interface import NoClusterError, NotTrustedError, SettingsError, Step
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Cluster, Kubeconfig
from kubevouch.phases import cluster_info
from kubevouch.phases.join import JoinOptions, join
from kubevouch.records.cluster_info import ClusterInfo
from kubevouch.util.clock import SystemClock
from scripted_server import ScriptedServer, reply
from throwaway_ca import ThrowawayCA, server_context

CLOCK = SystemClock()
PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def _file(world: JoinWorld, *, proxy: str = "", name: str = "", ca: bool = True) -> bytes:
    cluster = Cluster(
        server=world.server.endpoint.url,
        certificate_authority_data=world.server.pki.ca_certificate if ca else b"",
        proxy_url=proxy,
        tls_server_name=name,
    )
    return kubeconfig.dump(Kubeconfig(clusters={"": cluster})).encode()


async def _by_token(world: JoinWorld, endpoint: str, told: Told) -> DiscoveredCluster:
    return await discover(token_discovery(endpoint, TOKEN.text, [world.pin], timeout=120), CLOCK, told, lambda: 0.1)


# ------------------------------------------------------------------ files from elsewhere


@asynccontextmanager
async def _site(folder: Path, text: bytes, ca: ThrowawayCA) -> AsyncIterator[ScriptedServer]:
    context = server_context(ca.issue(), folder)
    async with ScriptedServer(context, [reply(text, content_type="application/octet-stream")]) as site:
        yield site


@pytest.mark.parametrize("ca_in_the_file", [True, False])
def test_a_file_from_an_https_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ca_in_the_file: bool) -> None:
    @async_test
    async def scenario() -> None:
        ca, roots = ThrowawayCA(), tmp_path / "roots.pem"
        async with join_world(tmp_path) as world:
            # Without a CA in the file, the system's roots vouch for the API server, and cluster-info has the CA.
            roots.write_bytes(ca.bundle + (b"" if ca_in_the_file else world.server.pki.ca_certificate))
            monkeypatch.setenv("SSL_CERT_FILE", str(roots))
            async with _site(tmp_path, _file(world, ca=ca_in_the_file), ca) as site:
                settings = await file_discovery.read(f"{site.url}/clusters/one.conf?v=2", CLOCK, timeout=120)
                assert [(each.method, each.raw_path) for each in site.seen] == [("GET", "/clusters/one.conf?v=2")]
                assert "Authorization" not in site.seen[0].headers
            told = Told()
            found = await file_discovery.discover(settings, CLOCK, told)
            assert found == DiscoveredCluster(world.server.endpoint.url, world.server.pki.ca_certificate)
            assert told.steps == [Step.FETCHED] and not told.warnings

    scenario()


@async_test
async def test_an_address_that_has_no_file_for_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ca = ThrowawayCA()
    (tmp_path / "roots.pem").write_bytes(ca.bundle)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "roots.pem"))
    async with _site(tmp_path, b"", ca) as site:
        site.script(reply("gone", 404, "text/plain"))
        with pytest.raises(NoClusterError, match="cannot be fetched: got status 404"):
            await file_discovery.read(f"{site.url}/d.conf", CLOCK, timeout=120)


@async_test
async def test_a_file_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with join_world(tmp_path) as world, world.clerk_at_work():
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(_file(world))))
        settings = await file_discovery.read("-", CLOCK, timeout=120)
        options = JoinOptions(settings, "worker-1", tmp_path / "node", tls_bootstrap_token=TOKEN)
        joined = await join(options, CLOCK, Told())
        async with client_from_kubeconfig(joined.kubelet_conf, component="test") as client:
            assert (await client.raw("GET", "/api")).status == 200


# ------------------------------------------------------------------ addresses


@on_both_loops
async def test_an_ipv6_address(tmp_path: Path) -> None:
    folder = Path(mkdtemp(dir=tmp_path))
    async with join_world(folder, host="::1") as world, world.clerk_at_work():
        assert world.endpoint.startswith("[::1]:")
        joined = await join(JoinOptions(world.discovery(), "worker-1", folder / "node"), CLOCK, Told())
        async with client_from_kubeconfig(joined.kubelet_conf, component="test") as client:
            assert (await client.raw("GET", "/api")).status == 200


@async_test
async def test_the_second_address_of_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the three addresses one refuses, one is of another family, and the last one answers."""
    asked = []
    resolve = socket.getaddrinfo

    def addresses(host: str | None, port: int | None, *rest: int, **more: int) -> object:
        if host != "localhost":
            return resolve(host, port, *rest, **more)
        asked.append(host)
        return [
            (family, socket.SOCK_STREAM, 6, "", address)
            for family, address in (
                (socket.AF_INET, ("127.0.0.2", port)),
                (socket.AF_INET6, ("::1", port, 0, 0)),
                (socket.AF_INET, ("127.0.0.1", port)),
            )
        ]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    async with join_world(tmp_path) as world:
        told = Told()
        found = await _by_token(world, f"localhost:{world.server.endpoint.port}", told)
        assert asked and not told.waits
        assert found.server == f"https://localhost:{world.server.endpoint.port}"


@async_test
async def test_the_typed_address_wins_over_that_of_cluster_info(tmp_path: Path) -> None:
    async with join_world(tmp_path, signed=False) as world:
        published = ClusterInfo("https://lb.example:6443", world.server.pki.ca_certificate)
        await cluster_info.ensure(world.server.client, published)
        await world.sign_cluster_info()
        warning = "cluster-info names https://lb.example:6443 as the API server; "
        told = Told()
        found = await _by_token(world, world.endpoint, told)
        assert found.server == world.server.endpoint.url
        assert [each for each in told.warnings if each.startswith(warning)]
        told = Told()
        settings = file_discovery.parse(_file(world), None, timeout=120)
        found = await file_discovery.discover(settings, CLOCK, told)
        assert found.server == world.server.endpoint.url
        assert [each for each in told.warnings if each.startswith(warning)]


# ------------------------------------------------------------------ proxies


@async_test
async def test_a_proxy_of_the_environment_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = []

    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(writer)
        writer.close()

    proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with proxy, join_world(tmp_path) as world:
        for name in PROXIES:
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        await _by_token(world, world.endpoint, Told())
        await file_discovery.discover(file_discovery.parse(_file(world), None, timeout=120), CLOCK, Told())
        assert not reached


@async_test
async def test_a_proxy_that_the_file_names_is_used_and_kept(tmp_path: Path) -> None:
    reached: list[str] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        reached.append(target)
        host, _, port = target.rpartition(":")
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))

    proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    async with proxy, join_world(tmp_path) as world, world.clerk_at_work():
        url = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        settings = file_discovery.parse(_file(world, proxy=url, name="localhost"), None, timeout=120)
        options = JoinOptions(settings, "worker-1", tmp_path / "node", tls_bootstrap_token=TOKEN)
        joined = await join(options, CLOCK, Told())
        assert set(reached) == {world.endpoint}
        (cluster,) = kubeconfig.load(joined.kubelet_conf.read_bytes()).clusters.values()
        assert (cluster.proxy_url, cluster.tls_server_name) == (url, "localhost")


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@async_test
async def test_an_error_of_a_proxy_says_so(tmp_path: Path) -> None:
    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with proxy, join_world(tmp_path) as world:
        url = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        settings = file_discovery.parse(_file(world, proxy=url), None, timeout=120)
        with pytest.raises(NotTrustedError, match=r"403.* came from the proxy .*, not from") as refusal:
            await file_discovery.discover(settings, CLOCK, Told())
        assert "proxy" in refusal.value.hint


# ------------------------------------------------------------------ when


@async_test
async def test_a_server_that_comes_up_late(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
        told = Told()
        task = asyncio.create_task(_by_token(world, f"127.0.0.1:{port}", told))
        await until(lambda: bool(told.waits))
        assert "connection refused" in told.waits[0]

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there = await asyncio.open_connection("127.0.0.1", world.server.endpoint.port)
            await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))

        late = await asyncio.start_server(forward, "127.0.0.1", port)
        async with late:
            found = await task
        assert found.server == f"https://127.0.0.1:{port}"
        assert len(told.waits) == 1


# ------------------------------------------------------------------ several addresses


@async_test
async def test_of_several_addresses_the_first_that_proves_itself_counts(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with socket.socket() as deaf:
        # Bound and not listening: whoever connects is refused.
        deaf.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{deaf.getsockname()[1]}"
        async with join_world(tmp_path) as world, join_world(tmp_path / "other") as other:
            for first, warnings, others in (
                (dead, 0, (f"https://{dead}",)),
                # Another cluster, which knows the token, and what a machine of it would believe it.
                (other.endpoint, 1, ()),
                (f"{dead}, {other.endpoint}", 1, (f"https://{dead}",)),
            ):
                told = Told()
                found = await _by_token(world, f"{first},{world.endpoint}", told)
                assert (found.server, found.servers) == (world.server.endpoint.url, others)
                assert found.certificate_authority_data == world.server.pki.ca_certificate
                assert len(told.warnings) == warnings
                assert all(other.endpoint in each and "the next address is tried" in each for each in told.warnings)
                assert not told.waits
            # The first that is good ends it.
            assert (await _by_token(world, f"{world.endpoint},{dead}", told)).server == world.server.endpoint.url
            with pytest.raises(NotTrustedError):
                await _by_token(world, f"{other.endpoint},{other.endpoint.replace('127.0.0.1', 'localhost')}", told)


@async_test
async def test_when_none_of_several_answers_each_is_named(tmp_path: Path) -> None:
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
        dead = [f"127.0.0.1:{each.getsockname()[1]}" for each in (one, two)]
        settings = token_discovery(",".join(dead), TOKEN.text, ["sha256:" + "a" * 64], timeout=0.01)
        with pytest.raises(NoClusterError) as refusal:
            await discover(settings, CLOCK, Told(), lambda: 0.1)
    assert all(each in str(refusal.value) for each in dead)


@pytest.mark.parametrize(
    ("text", "why"),
    [("a:1,", "HOST:PORT"), ("a:1,,b:1", "HOST:PORT"), (",".join(f"a{n}:1" for n in range(18)), "17 at most")],
)
def test_addresses_that_cannot_be_meant(text: str, why: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        token_discovery(text, TOKEN.text, ["sha256:" + "a" * 64])
    assert why in f"{refusal.value} {refusal.value.hint}"
