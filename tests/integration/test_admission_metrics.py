"""What admission, authentication and authorization count."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import peers
from admission_webhook import AdmissionWebhook, config_map, configuration, deny, rule
from admission_world import binding, configure, install, policy, post, tree_of, with_cluster, with_webhook
from asynctest import async_test
from kubevouch.client.interface import Client
from kubevouch.client.kubeconfig import load
from kubevouch.client.rest_config import resolve
from kubevouch.server.metrics.catalog import Metrics, exposition
from kubevouch.storage.sqlite.store import SQLiteStore
from kubevouch.testing import Cluster
from served_world import served

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PREFIX = "apiserver_admission"


async def counted(client: Client) -> dict[str, float]:
    body = (await client.raw("GET", "/metrics")).body.decode()
    pairs = (line.rpartition(" ") for line in body.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def test_plug_ins_and_steps_are_timed() -> None:
    async def scenario(client: Client) -> None:
        def of(family: str, values: dict[str, float], **labels: str) -> float:
            wanted = {f'{name}="{value}"' for name, value in labels.items()}
            return sum(
                value
                for name, value in values.items()
                if name.startswith(f"{PREFIX}_{family}_admission_duration_seconds_count{{")
                and wanted <= set(re.findall(r'\w+="[^"]*"', name))
            )

        before = await counted(client)
        elsewhere = config_map() | {"metadata": {"name": "a"}}
        assert (await post(client, "/api/v1/namespaces/nowhere/configmaps", elsewhere)).status == 404
        assert (await post(client, CONFIG_MAPS, config_map())).status == 201
        after = await counted(client)
        for family, labels in (
            ("step", {"type": "admit", "operation": "CREATE", "rejected": "true"}),
            ("controller", {"name": "NamespaceLifecycle", "type": "admit", "rejected": "true"}),
        ):
            assert of(family, after, **labels) == of(family, before, **labels) + 1
        accepted = {"type": "validate", "operation": "CREATE", "rejected": "false"}
        assert of("step", after, **accepted) >= of("step", before, **accepted) + 1
        plugin = accepted | {"name": "ValidatingAdmissionWebhook"}
        assert of("controller", after, **plugin) >= of("controller", before, **plugin) + 1

    with_cluster(scenario)


@pytest.mark.parametrize(("kind", "word"), [("Validating", "validating"), ("Mutating", "admit")])
def test_webhooks_are_counted(tmp_path: Path, kind: str, word: str) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        nowhere = {"url": "https://127.0.0.1:1/"}
        entries = (
            webhook.entry("a.example.com"),
            webhook.entry("open.example.com", clientConfig=nowhere, failurePolicy="Ignore"),
            webhook.entry("closed.example.com", clientConfig=nowhere, rules=[rule("secrets")]),
        )
        await configure(client, configuration(kind, *entries))
        assert (await post(client, CONFIG_MAPS, config_map())).status == 201
        webhook.answer = deny("no", code=700)
        await post(client, CONFIG_MAPS, config_map("b"))
        secret = config_map("c", k="MQ==") | {"kind": "Secret"}
        assert (await post(client, "/api/v1/namespaces/default/secrets", secret)).status == 500
        found = await counted(client)
        requests, operation = f"{PREFIX}_webhook_request_total", 'operation="CREATE"'
        asked = f'name="a.example.com",{operation}'
        assert found[f'{requests}{{code="200",{asked},rejected="false",type="{word}"}}'] == 1
        assert found[f'{requests}{{code="600",{asked},rejected="true",type="{word}"}}'] == 1
        rejections = f"{PREFIX}_webhook_rejection_count"
        assert found[f'{rejections}{{error_type="no_error",{asked},rejection_code="600",type="{word}"}}'] == 1
        closed = f'error_type="calling_webhook_error",name="closed.example.com",{operation},rejection_code="503"'
        assert found[f'{rejections}{{{closed},type="{word}"}}'] == 1
        opened = found[f'{PREFIX}_webhook_fail_open_count{{name="open.example.com",type="{word}"}}']
        # The second request is refused before a mutating webhook behind the first is asked.
        assert opened == (2 if kind == "Validating" else 1)
        timed = f"{PREFIX}_webhook_admission_duration_seconds_count"
        assert found[f'{timed}{{{asked},rejected="false",type="{word}"}}'] == 1

    with_webhook(tmp_path, scenario)


def test_checks_of_policies_are_counted() -> None:
    async def scenario(client: Client) -> None:
        broken = {"expression": "object.data.missing == 'x'"}
        await install(client, policy({"expression": "false"}, broken), binding("Warn", "Audit"))
        await install(client, policy(broken, name="q", failurePolicy="Ignore"), binding(name="d", policy_name="q"))
        assert (await post(client, CONFIG_MAPS, config_map())).status == 201
        found = await counted(client)
        family = "apiserver_validating_admission_policy_check"
        for action, error, labels in (
            ("warn", "no_error", 'policy="p",policy_binding="b"'),
            ("audit", "no_error", 'policy="p",policy_binding="b"'),
            ("audit", "invalid_error", 'policy="p",policy_binding="b"'),
            ("allow", "invalid_error", 'policy="q",policy_binding="d"'),
        ):
            which = f'{{enforcement_action="{action}",error_type="{error}",{labels}}}'
            assert found[f"{family}_total{which}"] == found[f"{family}_duration_seconds_count{which}"] == 1
        assert not any("deny" in name for name in found if name.startswith(family))

    with_cluster(scenario)


@async_test
async def test_requests_are_counted_by_what_proves_who_sends_them(tmp_path: Path) -> None:
    async with served(tmp_path) as at, at.session(at.token) as session:
        async with session.get("/version") as answer:
            assert answer.status == 200
        async with session.get("/version", headers={"Authorization": "Bearer nonsense"}) as answer:
            assert answer.status == 401
        found = await counted(at.admin)
    assert found['authentication_attempts{result="success"}'] == 1
    assert found['authentication_attempts{result="failure"}'] == 1
    assert found['authenticated_user_requests{username="other"}'] == 1
    assert found['authorization_duration_seconds_count{result="allowed"}'] >= 1
    assert found["apiserver_client_certificate_expiration_seconds_count"] == 0


@async_test
async def test_client_certificates_and_service_account_tokens(tmp_path: Path) -> None:
    async with Cluster(https=True) as cluster:
        client = resolve(load(cluster.kubeconfig)).client(component="test")
        await client.raw("GET", "/version")
        found = await counted(client)
        await client.close()
        # The kubeconfig's certificate is good for a year; so many requests came with it.
        family = "apiserver_client_certificate_expiration_seconds"
        assert found[f"{family}_count"] >= 2
        assert found[f'{family}_bucket{{le="1.5552e+07"}}'] == 0
    async with served(tmp_path) as at:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await post(at.admin, accounts, account)
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        given = tree_of(await post(at.admin, f"{accounts}/a/token", asked))
        async with at.session(given["status"]["token"]) as session, session.get("/version") as answer:
            assert answer.status == 200
        assert (await counted(at.admin))["serviceaccount_valid_tokens_total"] == 1


@async_test
async def test_names_are_go_s_in_each_format() -> None:
    metrics = Metrics()
    metrics.authentication("success", 0.1)
    plain, _ = await exposition(metrics.registry, "")
    assert b'\nauthentication_attempts{result="success"} 1.0\n' in plain
    assert b"# TYPE authentication_attempts counter\n" in plain
    opened, _ = await exposition(metrics.registry, "application/openmetrics-text; version=1.0.0")
    assert b'\nauthentication_attempts_total{result="success"} 1.0\n' in opened


@async_test
async def test_the_size_of_the_store(tmp_path: Path) -> None:
    store = await SQLiteStore.open(tmp_path / "db")
    try:
        before = store.size()
        assert before >= (tmp_path / "db").stat().st_size > 0
        for number in range(50):
            await store.create(f"/registry/configmaps/default/{number}", b"x" * 10_000)
        assert store.size() > before
    finally:
        await store.close()


def test_every_metric_of_a_server_has_its_row() -> None:
    page = (peers.ROOT / "docs" / "reference" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))

    async def scenario(client: Client) -> None:
        body = (await client.raw("GET", "/metrics")).body.decode()
        served_ones = set(re.findall(r"^# TYPE (\w+)", body, re.MULTILINE))
        served_ones = {name for name in served_ones if not name.endswith("_created")}
        assert served_ones <= documented

    with_cluster(scenario)
