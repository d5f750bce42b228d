"""An exception in one request, one watch, or one object's reconcile is nobody else's business."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import aio
from aio import until
from join_world import JoinWorld, join_world
from kubevouch.api import core_v1
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.controllers.approval import kubelet_client
from kubevouch.machinery.field import FieldError
from kubevouch.phases import kubeconfig
from kubevouch.pki import control_plane, keys, recognizers
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.registry.core import configmaps
from kubevouch.server.bootstrap import own_kinds
from kubevouch.standalone.controllers import start_controllers
from kubevouch.testing.logs import capture_logs
from wire import CSRS, Reply, Wire

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Surprise(Exception):
    pass


Ask = Callable[..., Awaitable[Reply]]


def _wire(world: JoinWorld, folder: Path) -> Wire:
    path = folder / "super-admin.conf"
    pki = world.server.pki
    now = world.clock.now()
    kubeconfig.ensure(path, world.server.endpoint.url, pki.authority, control_plane.SUPER_ADMIN, now=now)
    return Wire.of_kubeconfig(path, folder)


def played(folder: Path, scenario: Callable[[JoinWorld, Wire, Ask], Awaitable[None]]) -> None:
    """Against a real server, with requests that do not hold up its loop."""

    async def play() -> None:
        async with join_world(folder) as world:
            wire = _wire(world, folder)

            async def ask(method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
                return await asyncio.to_thread(wire.request, method, path, body, "application/json", **headers)

            await scenario(world, wire, ask)

    aio.run(play(), blocked_seconds=10.0)


def config_map(name: str) -> bytes:
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return json.dumps(tree).encode()


def test_in_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    validate = core_v1.validate_config_map

    def raising(obj: ConfigMap) -> list[FieldError]:
        if obj.metadata.name == "boom":
            raise Surprise("the secret is 42")
        return validate(obj)

    monkeypatch.setattr(core_v1, "validate_config_map", raising)

    async def scenario(_: JoinWorld, wire: Wire, ask: Ask) -> None:
        replies = await asyncio.gather(*(ask("POST", MAPS, config_map(name)) for name in ("a", "boom", "b")))
        assert [reply.code for reply in replies] == [201, 500, 201]
        code, reason, message = replies[1].told
        assert (code, reason) == (500, "InternalError")
        assert "Surprise" in message
        # The client learns no details; the log has them.
        assert "42" not in message
        assert (await ask("GET", f"{MAPS}/boom")).code == 404
        assert (await ask("GET", "/readyz")).code == 200

    with capture_logs() as logs:
        played(tmp_path, scenario)
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["request failed"]


def test_in_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a table's row: of one object, of a list, and of a watch that is under way."""
    cells = configmaps.DEFINITION.printer.cells

    def raising(obj: ConfigMap, now: Any) -> Any:
        if obj.metadata.name == "boom":
            raise Surprise("42")
        return cells(obj, now)

    printer = replace(configmaps.DEFINITION.printer, cells=raising)
    monkeypatch.setattr(configmaps, "DEFINITION", replace(configmaps.DEFINITION, printer=printer))

    async def scenario(world: JoinWorld, wire: Wire, ask: Ask) -> None:
        assert (await ask("POST", MAPS, config_map("a"))).code == 201
        before = world.server.api.cacher.watchers

        def watched() -> bytes:
            line = f"GET {MAPS}?watch=true HTTP/1.1\r\nHost: here\r\nAccept: {TABLE}\r\nConnection: close\r\n\r\n"
            return wire.raw(line.encode())

        watching = asyncio.create_task(asyncio.to_thread(watched))
        plain = asyncio.create_task(asyncio.to_thread(_first_event, wire))
        # A watch that begins after the object is there fails as a list does.
        await until(lambda: world.server.api.cacher.watchers == before + 2)
        assert (await ask("POST", MAPS, config_map("boom"))).code == 201
        stream = await watching
        assert stream.startswith(b"HTTP/1.1 200 OK")
        assert b'"boom"' not in stream
        assert b'"boom"' in await plain
        for path in (f"{MAPS}/boom", MAPS):
            assert (await ask("GET", path, Accept=TABLE)).code == 500
        assert (await ask("GET", f"{MAPS}/a", Accept=TABLE)).code == 200
        assert (await ask("GET", MAPS)).code == 200
        assert (await ask("GET", "/readyz")).code == 200

    with capture_logs() as logs:
        played(tmp_path, scenario)
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["request failed"] * 3


def _first_event(wire: Wire) -> bytes:
    """The event of ``boom`` on a watch without a table."""
    with wire.connected() as connection:
        connection.sendall(f"GET {MAPS}?watch=true HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        return next(line for line in connection.makefile("rb") if b'"name":"boom"' in line)


def _request(name: str) -> bytes:
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    request = build_request(key, Subject(common_name=f"system:node:{name}", organizations=("system:nodes",)))
    tree = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    }
    return json.dumps(tree).encode()


def test_in_a_reconcile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recognize = recognizers.recognize
    raised = 0

    def raising(signer_name: str, wanted: CertificateRequest, *rest: Any, **more: Any) -> Any:
        nonlocal raised
        if wanted.subject.common_name == "system:node:boom":
            raised += 1
            raise Surprise("42")
        return recognize(signer_name, wanted, *rest, **more)

    monkeypatch.setattr(kubelet_client, "recognize", raising)

    async def scenario(world: JoinWorld, wire: Wire, ask: Ask) -> None:
        await own_kinds.ensure(world.server.client)
        controllers = start_controllers(world.server, ("*",))
        try:
            for name in ("boom", "a", "b"):
                assert (await ask("POST", CSRS, _request(name))).code == 201
            for name in ("a", "b"):
                await asyncio.to_thread(_issued, wire, name)
            await until(lambda: raised > 1)  # it is tried again
            boom = json.loads((await ask("GET", f"{CSRS}/boom")).body)
            assert boom["status"] == {}
        finally:
            await controllers.close()

    with capture_logs():
        played(tmp_path, scenario)


def _issued(wire: Wire, name: str) -> None:
    with wire.connected() as connection:
        query = f"?watch=true&fieldSelector=metadata.name={name}"
        connection.sendall(f"GET {CSRS}{query} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        assert any(b'"certificate":' in line for line in connection.makefile("rb"))
