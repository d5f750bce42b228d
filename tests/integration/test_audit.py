"""Audit through a real server: what stands in the file, and at a webhook."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from asynctest import async_test
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.pki.control_plane import SUPER_ADMIN
from kubevouch.server.audit.options import (
    AuditOptions,
    BatchOptions,
    LogFileOptions,
    Mode,
    TruncateOptions,
    WebhookOptions,
)
from served_world import Served, served

Event = dict[str, Any]
EVERYTHING = "{level: RequestResponse}"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def policy(folder: Path, rules: str, more: str = "") -> Path:
    path = folder / "policy.yaml"
    path.write_text(f"apiVersion: audit.k8s.io/v1\nkind: Policy\n{more}\nrules: [{rules}]\n")
    return path


@asynccontextmanager
async def audited(folder: Path, rules: str = EVERYTHING, more: str = "") -> AsyncIterator[tuple[Served, list[Event]]]:
    """The server, and the events, which are there when it has stopped."""
    log = folder / "audit.log"
    events: list[Event] = []
    (folder / "server").mkdir(exist_ok=True)
    options = AuditOptions(policy(folder, rules, more), LogFileOptions(str(log)))
    try:
        async with served(folder / "server", options) as at:
            yield at, events
    finally:
        events += [json.loads(line) for line in log.read_text().splitlines()]


def about(events: list[Event], path: str, stage: str = "ResponseComplete") -> list[Event]:
    return [event for event in events if event["requestURI"].startswith(path) and event["stage"] == stage]


@async_test
async def test_an_event_says_who_how_and_why(tmp_path: Path) -> None:
    async with audited(tmp_path) as (at, events), at.session(at.token) as session:
        headers = {"User-Agent": "test/1", "X-Forwarded-For": "192.0.2.9", "Audit-Id": "mine"}
        async with session.delete(f"{CSRS}/missing?pretty=1", headers=headers) as answer:
            assert answer.status == 403
    received, complete = (about(events, CSRS, stage)[0] for stage in ("RequestReceived", "ResponseComplete"))
    token_id = at.token.partition(".")[0]
    assert received["auditID"] == complete["auditID"] == "mine"
    assert received["level"] == "RequestResponse"
    assert "responseStatus" not in received
    assert complete["requestURI"] == f"{CSRS}/missing?pretty=1"
    assert complete["verb"] == "delete"
    assert complete["user"]["username"] == f"system:bootstrap:{token_id}"
    assert complete["sourceIPs"] == ["192.0.2.9", "127.0.0.1"]
    assert complete["userAgent"] == "test/1"
    assert complete["objectRef"] == {
        "resource": "certificatesigningrequests",
        "name": "missing",
        "apiGroup": "certificates.k8s.io",
        "apiVersion": "v1",
    }
    assert complete["responseStatus"]["code"] == 403
    assert complete["responseStatus"]["reason"] == "Forbidden"
    assert complete["responseObject"]["kind"] == "Status"
    assert complete["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert complete["annotations"]["authentication.kubevouch.io/method"] == "bootstrap-token"
    assert complete["stageTimestamp"] >= complete["requestReceivedTimestamp"]
    assert len(complete["stageTimestamp"]) == len("2026-01-01T00:00:00.000000Z")


@async_test
async def test_who_is_refused_is_recorded_without_a_user(tmp_path: Path) -> None:
    wrong = "abcdef.0123456789abcdef"
    async with audited(tmp_path) as (at, events), at.session(wrong) as session, session.get("/version") as answer:
        assert answer.status == 401
    [event] = about(events, "/version", "ResponseStarted")
    assert event["user"] == {}
    assert event["responseStatus"]["code"] == 401
    assert event["responseStatus"]["message"] == "Authentication failed, attempted: bearer"
    assert not about(events, "/version")
    assert wrong not in json.dumps(events)


@async_test
async def test_no_secret_reaches_the_file(tmp_path: Path) -> None:
    async with audited(tmp_path) as (at, events), at.session() as session:
        await at.admin.raw("GET", "/api/v1/namespaces/kube-system/secrets")
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": at.token}}
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        await at.admin.raw("POST", path, json.dumps(review).encode(), {"Content-Type": "application/json"})
        await at.admin.raw(
            "POST",
            "/api/v1/namespaces/default/serviceaccounts/default/token",
            json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}).encode(),
            {"Content-Type": "application/json"},
        )
        async with session.get(f"/version?access_token={at.token}") as answer:
            assert answer.status == 200
    text = (tmp_path / "audit.log").read_text()
    assert at.token.partition(".")[2] not in text
    assert base64.b64encode(at.token.partition(".")[2].encode()).decode() not in text
    assert "eyJ" not in text
    for where in ("/api/v1/namespaces/kube-system/secrets", path):
        assert {event["level"] for event in about(events, where)} == {"Metadata"}


@async_test
async def test_bodies_of_requests_and_answers(tmp_path: Path) -> None:
    created = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    merge = {"Content-Type": "application/merge-patch+json"}
    async with audited(tmp_path, more="omitManagedFields: true") as (at, events):
        path = "/api/v1/namespaces/default/configmaps"
        await at.admin.raw("POST", path, json.dumps(created).encode(), {"Content-Type": "application/json"})
        await at.admin.raw("PATCH", f"{path}/a", b'{"data":{"k":"w"}}', merge)
        await at.admin.raw("GET", path)
        await at.admin.raw("DELETE", f"{path}/a")
    create, patch, listing, delete = about(events, "/api/v1/namespaces/default/configmaps")
    assert create["requestObject"]["data"] == {"k": "v"}
    assert create["requestObject"]["kind"] == "ConfigMap"
    assert create["objectRef"]["name"] == "a"
    assert create["sourceIPs"] == ["::1"]
    assert create["responseStatus"] == {"metadata": {}, "code": 201}
    assert create["responseObject"]["metadata"]["uid"]
    assert patch["requestObject"] == {"data": {"k": "w"}}
    assert patch["responseObject"]["data"] == {"k": "w"}
    assert [item["metadata"]["name"] for item in listing["responseObject"]["items"] if item["data"] == {"k": "w"}]
    assert delete["responseStatus"]["status"] == "Success"
    assert "managedFields" not in json.dumps(events)


@async_test
async def test_a_watch_has_a_start_and_an_end(tmp_path: Path) -> None:
    async with audited(tmp_path, "{level: Metadata, verbs: [watch]}") as (at, events):
        async with at.session() as session:
            path = "/api/v1/namespaces/kube-public/configmaps?watch=1&fieldSelector=metadata.name%3Dcluster-info"
            async with session.get(path) as answer:
                assert answer.status == 403
        watching = at.admin.watch(CONFIG_MAPS, "kube-public")
        await anext(watching)
        await watching.aclose()
    assert [event["stage"] for event in events if event["verb"] == "watch" and "configmaps" in event["requestURI"]] == [
        "RequestReceived",
        "ResponseComplete",
        "RequestReceived",
        "ResponseStarted",
        "ResponseComplete",
    ]


@async_test
async def test_both_users_of_an_impersonation(tmp_path: Path) -> None:
    async with audited(tmp_path, "{level: Metadata}", "omitStages: [RequestReceived]") as (at, events):
        path = tmp_path / "super.conf"
        path.write_text(at.kubeconfig(SUPER_ADMIN))
        client = client_from_kubeconfig(path, component="test")
        answer = await client.raw("GET", "/api/v1/nodes", None, {"Impersonate-User": "jane"})
        await client.close()
        assert answer.status == 403
    [event] = [each for each in events if "impersonatedUser" in each]
    assert event["user"]["username"] == SUPER_ADMIN.common_name
    assert event["impersonatedUser"]["username"] == "jane"
    assert event["annotations"]["authentication.kubevouch.io/method"] == "x509"


@async_test
async def test_stages_and_users_that_the_policy_leaves_out(tmp_path: Path) -> None:
    rules = "{level: None, users: ['system:apiserver']}, {level: Metadata}"
    async with audited(tmp_path, rules, "omitStages: [RequestReceived]") as (at, events), at.session() as session:
        await at.admin.raw("GET", "/version")
        async with session.get("/version"):
            pass
    assert [(event["stage"], event["user"]["username"]) for event in events] == [
        ("ResponseComplete", "system:anonymous")
    ]


@async_test
async def test_an_event_is_in_the_file_before_its_answer(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    rules = "{level: Metadata, nonResourceURLs: [/version]}"
    (tmp_path / "server").mkdir()
    options = AuditOptions(policy(tmp_path, rules), LogFileOptions(str(log)))
    async with served(tmp_path / "server", options) as at, at.session() as session:
        for count in (1, 2):
            async with session.get("/version") as answer:
                assert answer.status == 200
            stages = [json.loads(line)["stage"] for line in log.read_text().splitlines()]
            assert stages == ["RequestReceived", "ResponseComplete"] * count


def _webhook_that_is_gone(folder: Path) -> Path:
    config = folder / "webhook.conf"
    cluster = {"name": "w", "cluster": {"server": "http://127.0.0.1:9/"}}  # the discard port
    context = {"name": "w", "context": {"cluster": "w", "user": ""}}
    tree = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context], "current-context": "w"}
    config.write_text(json.dumps(tree))
    return config


@async_test
async def test_blocking_strict_refuses_what_it_cannot_record_and_blocking_does_not(tmp_path: Path) -> None:
    config = _webhook_that_is_gone(tmp_path)
    rules = "{level: Metadata, nonResourceURLs: [/version]}"
    for mode, status in ((Mode.BLOCKING_STRICT, 500), (Mode.BLOCKING, 200)):
        (tmp_path / mode).mkdir()
        webhook = WebhookOptions(config, mode=mode, initial_backoff=0.001)
        async with served(tmp_path / mode, AuditOptions(policy(tmp_path, rules), webhook=webhook)) as at:
            async with at.session() as session, session.get("/version") as answer:
                assert answer.status == status
                if status == 500:
                    assert await answer.text() == 'Internal Server Error: "/version": failed to store audit event\n'
            metrics = (await at.admin.raw("GET", "/metrics")).body.decode()
        rejected = 1.0 if status == 500 else 0.0
        assert f"apiserver_audit_requests_rejected_total {rejected}" in metrics
        assert 'apiserver_audit_error_total{plugin="webhook"}' in metrics


@async_test
async def test_a_large_event_loses_its_objects(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    (tmp_path / "server").mkdir()
    truncate = TruncateOptions(enabled=True, max_event_size=2000)
    options = AuditOptions(policy(tmp_path, EVERYTHING), LogFileOptions(str(log), truncate=truncate))
    created = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v" * 3000}}
    path = "/api/v1/namespaces/default/configmaps"
    async with served(tmp_path / "server", options) as at:
        await at.admin.raw("POST", path, json.dumps(created).encode(), {"Content-Type": "application/json"})
    [event] = about([json.loads(line) for line in log.read_text().splitlines()], path)
    assert event["annotations"]["audit.k8s.io/truncated"] == "true"
    assert "requestObject" not in event and "responseObject" not in event
    assert event["objectRef"]["name"] == "a"


@async_test
async def test_a_webhook_gets_lists_and_a_broken_one_stops_nobody(tmp_path: Path) -> None:
    got: list[Any] = []
    statuses = [503, 200]
    arrived = asyncio.Event()

    async def take(request: web.Request) -> web.Response:
        status = statuses.pop(0) if statuses else 200
        if status == 200:
            got.append(await request.json())
            if sum(len(each["items"]) for each in got) == 6:
                arrived.set()
        return web.Response(status=status)

    runner = web.AppRunner(_app(take))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    config = tmp_path / "webhook.conf"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "w", "cluster": {"server": f"http://127.0.0.1:{port}/audit"}}],
                "contexts": [{"name": "w", "context": {"cluster": "w", "user": ""}}],
                "current-context": "w",
            }
        )
    )
    options = AuditOptions(
        policy(tmp_path, "{level: Metadata, nonResourceURLs: [/version]}"),
        webhook=WebhookOptions(config, batch=BatchOptions(max_size=3, max_wait=3600), initial_backoff=0.01),
    )
    async with served(tmp_path, options) as at, at.session() as session:
        for _ in range(3):
            async with session.get("/version") as answer:
                assert answer.status == 200
        await arrived.wait()
        metrics = (await at.admin.raw("GET", "/metrics")).body.decode()
    await runner.cleanup()
    assert {(each["kind"], each["apiVersion"]) for each in got} == {("EventList", "audit.k8s.io/v1")}
    items = [item for each in got for item in each["items"]]
    assert len(items) == 6
    assert 'apiserver_audit_error_total{plugin="webhook"}' not in metrics
    assert "apiserver_audit_event_total 6.0" in metrics


def _app(take: Any) -> web.Application:
    app = web.Application()
    app.router.add_post("/audit/", take)
    return app
