"""The cases of ``node.jsonl`` about joining: discovery, tokens, waiting for a certificate, files, over real sockets.

OpenSSL looks at the machine's clock, and the fixture CAs begin in 2030, so that those of discovery are made again with
the same keys: pins stay as the cases have them, texts with such a CA are signed anew.

:data:`LEFT` names the cases that are about what is not here, each with its reason.
"""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import hashlib
import ipaddress
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

import aio
from join_world import Told
from kubevouch.agent import csr_wait, discovery
from kubevouch.agent.bootstrap_state import judge_kubeconfig
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.interface import (
    AgentError,
    CertificateStoreError,
    NoClusterError,
    NotIssuedError,
    NotTrustedError,
    SettingsError,
)
from kubevouch.agent.signing_requests import SigningRequests
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Secret
from kubevouch.client.https import HTTPSClient
from kubevouch.client.options import ClientOptions
from kubevouch.config import kubeconfig
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.phases.join import JoinOptions, kubelet_kubeconfig
from kubevouch.pki import authority, jws, keys
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.records.bootstrap_tokens import (
    TokenRefusedError,
    TokenSyntaxError,
    accept_for_authentication,
    parse_token,
)
from kubevouch.records.cluster_info import ClusterInfo, build_kubeconfig
from kubevouch.testing.clock import FakeClock
from kubevouch.util.clock import SystemClock
from kubevouch.util.files import write_new
from scripted_server import Handler, ScriptedServer, Seen, reply_json, reply_status, stream
from throwaway_ca import Pair, server_context

VECTORS = Path(__file__).parents[1] / "vectors"
ALL: dict[str, dict[str, Any]] = {
    case["id"]: case for case in map(json.loads, (VECTORS / "node.jsonl").read_text().splitlines())
}
AREAS = ("discovery", "tokens", "csr-wait", "bootstrap-state", "store")
LEFT = {
    "discovery-022": "tests/contract/test_node_tools.py",
    "discovery-026": "tests/contract/test_node_tools.py",
    "discovery-027": "tests/contract/test_node_tools.py",
    "discovery-030": "tests/contract/test_node_tools.py",
    "discovery-035": "tests/contract/test_node_tools.py",
    "discovery-036": "tests/contract/test_node_tools.py",
    "discovery-039": "tests/contract/test_node_tools.py",
    "discovery-040": "tests/contract/test_node_tools.py",
    "discovery-044": "tests/unit/phases/test_join.py::test_a_node_that_is_ready_is_not_taken_over",
    "discovery-046": "tests/unit/phases/test_join.py::test_the_token_does_not_stay_when_the_join_fails",
    "bootstrap-state-012": "tests/unit/agent/test_daemon.py",
    "bootstrap-state-018": "the blocking kubelet's wait for /healthz; discovery has just been answered",
    "bootstrap-state-021": "tests/unit/agent/test_daemon.py",
    "bootstrap-state-022": "tests/unit/agent/test_daemon.py",
    "bootstrap-state-025": "tests/unit/client/test_https.py",
    "bootstrap-state-027": "tests/unit/agent/test_servers.py",
}
PLAYED = [case for case in ALL.values() if case["area"] in AREAS and case["id"] not in LEFT]
NOW = SystemClock().now()


def _of(area: str, *whens: str) -> pytest.MarkDecorator:
    cases = [case for case in PLAYED if case["area"] == area and (not whens or case["when"] in whens)]
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


def test_the_cases_left_out_exist() -> None:
    assert {name for name, case in ALL.items() if case["area"] in AREAS} >= LEFT.keys()


def _key(label: str) -> ec.EllipticCurvePrivateKey:
    """The rule of ``fx-keys``."""
    scalar = int.from_bytes(hashlib.sha256(label.encode()).digest(), "big") % (1 << 255)
    return ec.derive_private_key(scalar, ec.SECP256R1())


# ------------------------------------------------------------------ discovery

CAS = {
    name: authority.create_authority(f"{name}-root", _key(f"ca {name}"), now=NOW - dt.timedelta(days=1))
    for name in ("alpha", "beta", "gamma")
}
SERVER = "https://api.blue.test:6443"


def _text_of(fixture: str) -> str:
    """``fx-kubeconfig-alpha-beta`` with CAs that OpenSSL takes."""
    names = fixture.removeprefix("fx-kubeconfig-").split("-")
    bundle = b"".join(CAS[name].certificate.pem() for name in names)
    return build_kubeconfig(ClusterInfo(SERVER, bundle))


def _entries(case: dict[str, Any], described: dict[str, str]) -> dict[str, str]:
    token_id, _, secret = case["given"]["token"].partition(".")
    text = described.get("kubeconfig", "")
    if text.startswith("fx-"):
        fixture, _, more = text.partition(".text")
        text = _text_of(fixture) + ("\n" if more else "")
    entries = {"kubeconfig": text} if "kubeconfig" in described else {}
    for key, value in described.items():
        if key != "kubeconfig":
            signed = value.startswith("fx-") and value.endswith(".jws")
            entries[key] = jws.sign(text.encode(), token_id, secret) if signed else value
    return entries


def _answer(case: dict[str, Any], step: dict[str, Any]) -> Handler:
    if step["status"] != 200:
        return reply_status(step["status"], "", "as the case says")
    metadata = {"name": "cluster-info", "namespace": "kube-public"}
    data = _entries(case, step["cluster_info"])
    return reply_json({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def _serving(name: str) -> Pair:
    key = keys.generate(keys.KeyAlgorithm.ECDSA_P256)
    names = SubjectAltNames(ip_addresses=(ipaddress.ip_address("127.0.0.1"),))
    spec = authority.LeafSpec(common_name="kube-apiserver", purposes=("server auth",), alt_names=names)
    return Pair(authority.issue_leaf(CAS[name], spec, key, now=NOW).pem(), keys.to_pem(key))


class _Relay:
    """One address that hands each connection to the server whose turn it is: so the serving certificate changes."""

    def __init__(self, ports: Iterator[int]) -> None:
        self._ports = ports

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", next(self._ports))
        await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while received := await reader.read(65536):
            writer.write(received)
    except OSError:
        pass
    finally:
        writer.close()


async def _discover(case: dict[str, Any], folder: Path) -> tuple[discovery.DiscoveredCluster, Told, list[Seen]]:
    given = case["given"]
    steps = given.get("server") or [given["server_repeat"]]
    told = Told()
    seen: list[Seen] = []
    async with AsyncExitStack() as stack:
        # The unverified fetches come over one connection, the verified ones over another.
        first, second = steps[0]["tls_chain_signed_by"], steps[-1]["tls_chain_signed_by"]
        answers = [_answer(case, step) for step in steps]
        servers: list[ScriptedServer] = []
        for name in (first, second):
            where = folder / f"{len(servers)}-{name}"
            where.mkdir()
            server = ScriptedServer(server_context(_serving(name), where), answers, seen)
            servers.append(await stack.enter_async_context(server))
        ports = iter([servers[0].port, *[servers[1].port] * 9])
        relay = await asyncio.start_server(_Relay(ports).handle, "127.0.0.1", 0)
        stack.push_async_callback(relay.wait_closed)
        stack.callback(relay.close)
        port = relay.sockets[0].getsockname()[1]
        settings = discovery.token_discovery(
            f"127.0.0.1:{port}", given["token"], given["pins"], timeout=1.0 if not given.get("interval_s") else 3.0
        )
        try:
            return await discovery.discover(settings, SystemClock(), told, lambda: 0.1), told, seen
        except AgentError as err:
            err.args = (*err.args, len(seen))
            raise
        finally:
            # The first fetch shows nothing, whatever the machine has.
            assert all("Authorization" not in request.headers for request in seen)
            assert all(not request.peer_certificate for request in seen)


@_of("discovery", "discover")
def test_discovery(case: dict[str, Any], tmp_path: Path) -> None:
    then = case["then"]
    if "recommended" in then and then["recommended"].startswith("refused"):
        then = {"ok": False}
    if then.get("ok", True):
        found, told, _ = aio.run(_discover(case, tmp_path))
        trusted = x509_certificate.parse_bundle(found.certificate_authority_data)
        wanted = [name.removeprefix("fx-ca-") for name in then.get("ca_in_result", ["fx-ca-alpha"])]
        assert trusted == [CAS[name].certificate for name in wanted]
        assert found.server.startswith("https://127.0.0.1:")
        assert any(SERVER in warning for warning in told.warnings)
        return
    with pytest.raises((NoClusterError, NotTrustedError)) as refusal:
        aio.run(_discover(case, tmp_path))
    text, count = refusal.value.args
    parts = then.get("error_contains", "couldn't validate the identity of the API Server")
    assert all(part in text for part in ([parts] if isinstance(parts, str) else parts))
    if "request_count" in then:
        assert count == then["request_count"]


@_of("discovery", "validate config")
def test_discovery_settings(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]
    with pytest.raises(SettingsError) as refusal:
        discovery.token_discovery(given["endpoint"], given["token"], given["pins"])
    assert then["error_contains"] in str(refusal.value)


# ------------------------------------------------------------------ tokens


@_of("tokens", "parse")
def test_token_syntax(case: dict[str, Any]) -> None:
    if case["then"]["ok"]:
        assert parse_token(case["given"]["token"]).text == case["given"]["token"]
        return
    with pytest.raises(TokenSyntaxError):
        parse_token(case["given"]["token"])


@_of("tokens", "authenticate")
def test_token_authentication(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]
    values = dict(given["secret"])
    deleted = values.pop("deletionTimestamp", None)
    metadata = ObjectMeta(
        name=values.pop("name"), namespace="kube-system", deletion_timestamp=Time.parse(deleted) if deleted else None
    )
    secret = Secret(
        metadata=metadata, type=values.pop("type"), data={key: value.encode() for key, value in values.items()}
    )
    token = parse_token(given["bearer"])
    now = dt.datetime.fromisoformat(given["now"])
    if not then["ok"]:
        with pytest.raises(TokenRefusedError):
            accept_for_authentication(secret, token.token_secret, now)
        return
    assert accept_for_authentication(secret, token.token_secret, now) == then["groups"]
    assert then.get("user", token.user) == token.user


# ------------------------------------------------------------------ waiting


def _csr(uid: str = "u1", conditions: Any = (), certificate: str = "", version: str = "5") -> dict[str, Any]:
    status: dict[str, Any] = {"conditions": [{"status": "True", **condition} for condition in conditions]}
    if certificate:
        status["certificate"] = base64.b64encode(certificate.encode()).decode()
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "node-csr-x", "uid": uid, "resourceVersion": version},
        "spec": {"request": "", "signerName": "a.b/c", "usages": ["client auth"]},
        "status": status,
    }


@_of("csr-wait")
def test_csr_wait(case: dict[str, Any], tmp_path: Path) -> None:
    given, then = case["given"], case["then"]
    refusing = "server" in given
    clock = FakeClock()

    async def scenario() -> CertificateSigningRequest:
        told = asyncio.Event()
        events = [
            {"type": each["type"], "object": _csr(each["uid"], each["conditions"], each.get("certificate", ""))}
            for each in given.get("events", ())
        ]
        done = _csr("u1", [{"type": "Approved"}], "CERT", "6")

        async def answer(request: Any) -> Any:
            if "watch" not in request.query:
                listed = {"apiVersion": done["apiVersion"], "kind": "CertificateSigningRequestList"}
                items = [done] if refusing else [_csr()]
                return await reply_json({**listed, "metadata": {"resourceVersion": "9"}, "items": items})(request)
            assert request.query["fieldSelector"] == "metadata.name=node-csr-x"
            if refusing:
                return await reply_status(400, "BadRequest", "no such watch")(request)
            return await _held_open(events, told)(request)

        async with ScriptedServer(None, [answer]) as server:
            client = HTTPSClient(ClientOptions(server=server.url, protobuf=False), clock=clock)
            async with client:
                start = CertificateSigningRequest(
                    metadata=ObjectMeta(name="node-csr-x", uid="u1", resource_version="5")
                )
                seconds = given.get("deadline_s", 60)
                waiting = csr_wait.wait_for_certificate(
                    SigningRequests(client), start, clock, Told(), timeout=seconds, random=lambda: 0.0
                )
                wait = asyncio.create_task(waiting)
                if not refusing:
                    await told.wait()
                    assert not wait.done()
                    clock.advance(seconds)
                return await wait

    if refusing:
        assert aio.run(scenario()).status.certificate == b"CERT"
        return
    with pytest.raises(NotIssuedError, match=then.get("error_contains", "timed out")):
        aio.run(scenario())


def _held_open(events: list[dict[str, Any]], told: asyncio.Event) -> Handler:
    async def hold(_request: Any) -> None:
        told.set()
        await asyncio.Event().wait()

    return stream([msgspec.json.encode(event) + b"\n" for event in events], then=hold)


# ------------------------------------------------------------------ kubeconfig on disk


@_of("bootstrap-state", "judge")
def test_kubeconfig_state(case: dict[str, Any], tmp_path: Path) -> None:
    given, then = case["given"], case["then"]
    path = tmp_path / "kubelet.conf"
    described = given["kubeconfig"]
    if isinstance(described, dict):
        path.write_text(_kubeconfig(described["user"]))
    elif described != "missing":
        path.write_text("{{{ not yaml")
    state = judge_kubeconfig(path, dt.datetime.fromisoformat(given["now"]))
    assert (state is not None and not state.problem) is then["valid"]


def _kubeconfig(described: dict[str, Any]) -> str:
    user = kubeconfig.User(token=described.get("token", ""))
    if "exec" in described:
        user = kubeconfig.User(exec=kubeconfig.ExecConfig(command=described["exec"]["command"]))
    if "cert" in described:
        end = dt.datetime.fromisoformat(described["cert"]["notAfter"])
        begin = dt.datetime.fromisoformat(described["cert"].get("notBefore", "2030-01-01T00:00:00Z"))
        certificate, key = _pair(begin, end)
        user = kubeconfig.User(client_certificate_data=certificate, client_key_data=key)
    return kubeconfig.dump(
        kubeconfig.Kubeconfig(
            clusters={"c": kubeconfig.Cluster(server=SERVER)},
            users={"u": user},
            contexts={"x": kubeconfig.Context(cluster="c", user="u")},
            current_context="x",
        )
    )


def _pair(begin: dt.datetime, end: dt.datetime) -> tuple[bytes, bytes]:
    ca = authority.create_authority("ca", _key("ca alpha"), now=begin)
    key = _key("kubelet worker-7")
    spec = authority.LeafSpec(
        common_name="system:node:worker-7",
        organizations=("system:nodes",),
        purposes=("client auth",),
        validity=end - begin - authority.BACKDATE,
    )
    return authority.issue_leaf(ca, spec, key, now=begin + authority.BACKDATE).pem(), keys.to_pem(key)


@_of("bootstrap-state", "start")
def test_kubeconfig_written(case: dict[str, Any]) -> None:
    """Unlike a kubelet, the join writes it when the certificate is there, so that it never names a missing file."""
    wanted = case["then"]["kubeconfig_written"]
    settings = discovery.token_discovery("127.0.0.1:6443", "aaaaaa.bbbbbbbbbbbbbbbb", ["sha256:" + "a" * 64])
    cluster = discovery.DiscoveredCluster(SERVER, CAS["alpha"].certificate.pem())
    config = kubeconfig.load(kubelet_kubeconfig(cluster, JoinOptions(settings, "worker-7")))
    context = config.contexts[wanted["context"]]
    assert config.current_context == wanted["context"]
    assert (context.cluster, context.user) == (wanted["cluster"], wanted["user"])
    assert context.namespace == wanted["namespace"]
    user = config.users[wanted["user"]]
    assert user.client_certificate == wanted["client-certificate"].replace("<cert-dir>", "/var/lib/kubelet/pki")
    assert user.client_key == user.client_certificate


# ------------------------------------------------------------------ certificate store


@_of("store")
def test_certificate_store(case: dict[str, Any], tmp_path: Path) -> None:
    given, then = case["given"], case["then"]
    certificate, key = _pair(NOW, NOW + dt.timedelta(days=1))
    current, updated = tmp_path / "kubelet-client-current.pem", tmp_path / "kubelet-client-updated.pem"
    dated = tmp_path / "kubelet-client-2031-01-01-00-00-00.pem"
    if given.get("current") == "regular file":
        current.write_bytes(certificate + key)
        with pytest.raises(CertificateStoreError, match=then["error_contains"]):
            CertificateStore(tmp_path).update(certificate, keys.load_pem(key), now=NOW)
        assert current.read_bytes() == certificate + key
    elif given.get("current") == "absent":
        write_new(dated, certificate + key)
        updated.symlink_to(dated)
        assert CertificateStore(tmp_path).current() is not None
        assert current.readlink() == dated
        assert not updated.is_symlink()
    elif given.get("current") == "dangling symlink":
        current.symlink_to(dated)
        (tmp_path / "c.pem").write_bytes(certificate)
        (tmp_path / "k.pem").write_bytes(key)
        store = CertificateStore(tmp_path, certificate_file=tmp_path / "c.pem", key_file=tmp_path / "k.pem")
        found = store.current()
        assert found is not None and found.leaf.pem() == certificate
    else:
        assert given["file"] == "key block before certificate block"
        write_new(dated, key + certificate)
        current.symlink_to(dated)
        found = CertificateStore(tmp_path).current()
        assert found is not None and found.leaf.pem() == certificate
