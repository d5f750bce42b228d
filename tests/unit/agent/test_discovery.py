"""What answers and is not the cluster; ``tests/contract/test_node_cases.py`` has the rest."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path

import pytest
from aiohttp import web

from asynctest import async_test
from join_world import TOKEN, Told, join_world
from kubevouch.agent.discovery import discover, token_discovery
from kubevouch.agent.interface import NoClusterError, NotTrustedError, SettingsError, Step
from kubevouch.pki import jws, pins
from kubevouch.pki.x509 import x509_certificate
from kubevouch.records.cluster_info import ClusterInfo, build_kubeconfig
from kubevouch.util.clock import SystemClock
from scripted_server import Handler, ScriptedServer, cut_off, reply, reply_json, reply_status
from throwaway_ca import ThrowawayCA, server_context

PIN = "sha256:" + "a" * 64
CLOCK = SystemClock()


async def _cut_off(request: web.Request) -> web.StreamResponse:
    await cut_off(request)
    return web.Response()


async def _refusal(port: int, pin: str = PIN, timeout: float = 0.3, told: Told | None = None) -> Exception:
    settings = token_discovery(f"127.0.0.1:{port}", TOKEN.text, [pin], timeout=timeout)
    with pytest.raises((NoClusterError, NotTrustedError)) as refusal:
        await discover(settings, CLOCK, told or Told(), lambda: 0.1)
    assert "couldn't validate the identity of the API Server: " in str(refusal.value)
    assert refusal.value.hint
    return refusal.value


@async_test
async def test_plain_http_on_the_port() -> None:
    async with ScriptedServer(None, [reply("hello", content_type="text/plain")]) as server:
        refusal = await _refusal(server.port, timeout=120)
    assert isinstance(refusal, NotTrustedError)
    assert "does not speak TLS" in str(refusal)


@async_test
async def test_a_proxy_answers_in_the_servers_place(tmp_path: Path) -> None:
    page = reply("<html>Blocked</html>", 403, "text/html", {"Via": "1.1 proxy.example (squid)"})
    async with ScriptedServer(server_context(ThrowawayCA().issue(), tmp_path), [page]) as server:
        refusal = await _refusal(server.port, timeout=120)
    assert isinstance(refusal, NotTrustedError)
    assert "proxy" in str(refusal)


@async_test
async def test_nobody_listens(tmp_path: Path) -> None:
    told = Told()
    refusal = await _refusal(1, told=told)
    assert isinstance(refusal, NoClusterError)
    assert "connection refused" in str(refusal)
    assert len(told.waits) == 1


@pytest.mark.parametrize("answer", [reply_status(503, "", "later"), reply("bad gateway", 502, "text/html"), _cut_off])
def test_a_server_that_is_not_up_yet_is_waited_for(tmp_path: Path, answer: Handler) -> None:
    @async_test
    async def scenario() -> None:
        async with ScriptedServer(server_context(ThrowawayCA().issue(), tmp_path), [answer]) as server:
            assert isinstance(await _refusal(server.port), NoClusterError)
            assert len(server.seen) > 1

    scenario()


@async_test
async def test_a_balancer_without_servers_closes_at_once() -> None:
    async def close(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listener = await asyncio.start_server(close, "127.0.0.1", 0)
    async with listener:
        assert isinstance(await _refusal(listener.sockets[0].getsockname()[1]), NoClusterError)


@async_test
async def test_a_server_of_another_cluster_is_refused_at_once_signature_or_not(tmp_path: Path) -> None:
    async with join_world(tmp_path, signed=False) as world:
        refusal = await _refusal(world.server.endpoint.port, timeout=120)
    assert isinstance(refusal, NotTrustedError)
    assert "none of the public keys" in str(refusal)


@pytest.mark.parametrize("days", [-2, 2])
def test_a_serving_certificate_that_does_not_hold_now(tmp_path: Path, days: int) -> None:
    ca = ThrowawayCA()
    begin = CLOCK.now() + dt.timedelta(days=days)
    pair = ca.issue(not_before=begin - dt.timedelta(days=1), not_after=begin + dt.timedelta(days=1))
    text = build_kubeconfig(ClusterInfo("https://a:1", ca.bundle))
    signature = jws.sign(text.encode(), TOKEN.token_id, TOKEN.token_secret)
    data = {"kubeconfig": text, f"jws-kubeconfig-{TOKEN.token_id}": signature}
    metadata = {"name": "cluster-info", "namespace": "kube-public"}
    answer = reply_json({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    @async_test
    async def scenario() -> None:
        told = Told()
        async with ScriptedServer(server_context(pair, tmp_path), [answer]) as server:
            pin = pins.pin_of(x509_certificate.parse_pem(ca.bundle))
            refusal = await _refusal(server.port, pin, timeout=30, told=told)
        assert isinstance(refusal, NotTrustedError)
        assert ("is not yet valid" if days > 0 else "has expired") in str(refusal)
        assert told.steps[-1] is Step.CA_PINNED

    scenario()


@pytest.mark.parametrize(
    ("endpoint", "token", "pin", "text"),
    [
        ("a", TOKEN.text, PIN, "missing port in address"),
        ("a:1", "p9k2zq.short", PIN, "the bootstrap token is invalid"),
        ("a:1", TOKEN.text, "sha256:12", "expected a 32 byte SHA-256 hash, found 1 bytes"),
        ("a:1", TOKEN.text, "md5:12", 'unknown hash format "md5"'),
        ("a:1", TOKEN.text, "12", "invalid hash, expected"),
    ],
)
def test_settings_that_cannot_be_meant(endpoint: str, token: str, pin: str, text: str) -> None:
    with pytest.raises(SettingsError, match=text) as refusal:
        token_discovery(endpoint, token, [pin])
    assert token not in str(refusal.value) or token == TOKEN.text
    assert TOKEN.token_secret not in str(refusal.value)


@async_test
async def test_without_pins_it_says_so(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        settings = token_discovery(world.endpoint, TOKEN.text, [], unsafe_skip_ca_verification=True)
        told = Told()
        found = await discover(settings, CLOCK, told)
        assert found.certificate_authority_data == world.server.pki.ca_certificate
        assert "not checked against a hash" in told.warnings[0]
