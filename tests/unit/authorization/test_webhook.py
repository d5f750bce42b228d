"""Access reviews asked of a webhook: what is sent, what is remembered, what an answer comes to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import aio
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Decision
from kubevouch.authorization.webhook import MAX_CACHED, WebhookAuthorizer, WebhookSettings, review_spec
from kubevouch.testing.clock import FakeClock
from scripted_server import ScriptedServer, reply_json, reply_status
from webhook_peer import webhook_peer

JANE = UserInfo("jane", "7", ("dev", "ops"), {"example.com/k": ("v", "w")})
READ = Attributes(user=JANE, verb="get", group="", api_version="v1", resource="secrets", namespace="a", name="s")


@pytest.mark.parametrize(
    ("attributes", "spec"),
    [
        (
            READ,
            {
                "resourceAttributes": {
                    "namespace": "a", "verb": "get", "version": "v1", "resource": "secrets", "name": "s",
                },
                "user": "jane", "groups": ["dev", "ops"], "extra": {"example.com/k": ["v", "w"]}, "uid": "7",
            },
        ),
        (
            Attributes(user=UserInfo("x"), verb="get", path="/healthz"),
            {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}, "user": "x"},
        ),
        (
            Attributes(
                user=UserInfo("x"), verb="list", group="g", api_version="v1", resource="r", subresource="status",
                field_selector="metadata.name=a,spec.b!=c",
                label_selector="a in (b,c),d!=e,f,!g",
            ),
            {
                "resourceAttributes": {
                    "verb": "list", "group": "g", "version": "v1", "resource": "r", "subresource": "status",
                    "fieldSelector": {
                        "requirements": [
                            {"key": "metadata.name", "operator": "In", "values": ["a"]},
                            {"key": "spec.b", "operator": "NotIn", "values": ["c"]},
                        ]
                    },
                    "labelSelector": {
                        "requirements": [
                            {"key": "a", "operator": "In", "values": ["b", "c"]},
                            {"key": "d", "operator": "NotIn", "values": ["e"]},
                            {"key": "f", "operator": "Exists"},
                            {"key": "g", "operator": "DoesNotExist"},
                        ]
                    },
                },
                "user": "x",
            },
        ),
        (
            msgspec.structs.replace(READ, user=UserInfo("x"), name="", field_selector="((", label_selector="in in in"),
            {
                "resourceAttributes": {"namespace": "a", "verb": "get", "version": "v1", "resource": "secrets"},
                "user": "x",
            },
        ),
    ],
)  # fmt: skip
def test_what_is_sent(attributes: Attributes, spec: dict[str, Any]) -> None:
    assert review_spec(attributes) == spec


Scenario = Callable[[ScriptedServer, WebhookAuthorizer, FakeClock], Awaitable[None]]


def with_webhook(scenario: Scenario, **settings: Any) -> None:
    async def run() -> None:
        async with webhook_peer() as (server, webhook, clock):
            authorizer = WebhookAuthorizer(webhook, WebhookSettings("w", **settings), clock)
            try:
                await scenario(server, authorizer, clock)
            finally:
                await authorizer.close()

    aio.run(run())


@pytest.mark.parametrize(
    ("status", "decision", "error"),
    [
        ({"allowed": True, "reason": "why"}, Decision.ALLOW, ""),
        ({"allowed": False, "reason": "why"}, Decision.NO_OPINION, ""),
        ({"denied": True, "reason": "why"}, Decision.DENY, ""),
        (
            {"allowed": True, "denied": True, "reason": "why"},
            Decision.DENY,
            "webhook subject access review returned both allow and deny response",
        ),
    ],
)
def test_what_an_answer_comes_to(status: dict[str, Any], decision: Decision, error: str) -> None:
    async def scenario(server: ScriptedServer, authorizer: WebhookAuthorizer, _clock: FakeClock) -> None:
        server.script(reply_json({"status": status}))
        verdict = await authorizer.authorize(READ)
        assert (verdict.decision, verdict.reason, verdict.error) == (decision, "why", error)

    with_webhook(scenario)


@pytest.mark.parametrize("on_error", [Decision.NO_OPINION, Decision.DENY])
@pytest.mark.parametrize("answer", [reply_status(403, "Forbidden", "no"), reply_json({"status": {"allowed": "yes"}})])
def test_no_usable_answer_is_never_remembered(answer: Any, on_error: Decision) -> None:
    async def scenario(server: ScriptedServer, authorizer: WebhookAuthorizer, _clock: FakeClock) -> None:
        server.script(answer, reply_json({"status": {"allowed": True}}))
        verdict = await authorizer.authorize(READ)
        assert verdict.decision is on_error
        assert verdict.error
        assert (await authorizer.authorize(READ)).decision is Decision.ALLOW

    with_webhook(scenario, on_error=on_error)


def test_answers_are_remembered_by_what_they_say_and_for_whom() -> None:
    async def scenario(server: ScriptedServer, authorizer: WebhookAuthorizer, clock: FakeClock) -> None:
        server.script(reply_json({"status": {"allowed": True}}))
        for _ in range(2):
            await authorizer.authorize(READ)
        assert len(server.seen) == 1
        await authorizer.authorize(msgspec.structs.replace(READ, user=replace(JANE, groups=("dev",))))
        await authorizer.authorize(msgspec.structs.replace(READ, name="t"))
        assert len(server.seen) == 3
        clock.advance(10)
        await authorizer.authorize(READ)
        assert len(server.seen) == 4

        server.script(reply_json({"status": {"allowed": False}}))
        other = msgspec.structs.replace(READ, verb="delete")
        await authorizer.authorize(other)
        clock.advance(2)
        await authorizer.authorize(other)
        assert len(server.seen) == 6

    with_webhook(scenario, authorized_ttl=10.0, unauthorized_ttl=2.0)


def test_a_large_question_is_not_remembered() -> None:
    async def scenario(server: ScriptedServer, authorizer: WebhookAuthorizer, _clock: FakeClock) -> None:
        server.script(reply_json({"status": {"allowed": True}}))
        for _ in range(2):
            await authorizer.authorize(msgspec.structs.replace(READ, name="n" * MAX_CACHED))
        assert len(server.seen) == 2

    with_webhook(scenario)


@pytest.mark.parametrize(("version", "groups"), [("v1", "groups"), ("v1beta1", "group")])
def test_the_old_version_names_groups_otherwise(version: str, groups: str) -> None:
    async def scenario(server: ScriptedServer, authorizer: WebhookAuthorizer, _clock: FakeClock) -> None:
        server.script(reply_json({"status": {"allowed": True}}))
        await authorizer.authorize(READ)
        sent = msgspec.json.decode(server.seen[0].body)
        assert sent["apiVersion"] == f"authorization.k8s.io/{version}"
        assert sent["spec"][groups] == ["dev", "ops"]
        assert len({"group", "groups"} & set(sent["spec"])) == 1

    with_webhook(scenario, version=version)


def test_it_cannot_list_rules() -> None:
    async def scenario(_server: ScriptedServer, authorizer: WebhookAuthorizer, _clock: FakeClock) -> None:
        rules = await authorizer.rules_for(JANE, "a")
        assert rules.incomplete
        assert rules.error == "webhook authorizer does not support user rule resolution"

    with_webhook(scenario)
