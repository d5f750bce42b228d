"""Reviews asked of a webhook: what is tried again, and what is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

import aio
from kubevouch.client.interface import ClientConfigurationError
from kubevouch.client.webhook import ATTEMPTS, Webhook, WebhookError, from_kubeconfig
from kubevouch.testing.clock import FakeClock
from scripted_server import ScriptedServer, reply, reply_json, reply_status
from webhook_peer import webhook_peer

REVIEW = {"kind": "TokenReview", "spec": {"token": "t"}}
Scenario = Callable[[ScriptedServer, Webhook, FakeClock], Awaitable[None]]


def with_webhook(scenario: Scenario) -> None:
    async def run() -> None:
        async with webhook_peer("/review", random=lambda: 0.0, seconds=1e9) as (server, webhook, clock):
            try:
                await scenario(server, webhook, clock)
            finally:
                await webhook.close()

    aio.run(run())


def test_the_answer_is_a_tree() -> None:
    async def scenario(server: ScriptedServer, webhook: Webhook, _clock: FakeClock) -> None:
        server.script(reply_json({"status": {"authenticated": True}}, 201))
        assert await webhook.ask(REVIEW, (("timeout", "5s"),)) == {"status": {"authenticated": True}}
        (seen,) = server.seen
        assert (seen.method, seen.path, seen.query) == ("POST", "/review", {"timeout": "5s"})
        assert msgspec.json.decode(seen.body) == REVIEW
        assert seen.headers["Content-Type"] == "application/json"

    with_webhook(scenario)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 502, 503])
def test_most_refusals_are_final(status: int) -> None:
    async def scenario(server: ScriptedServer, webhook: Webhook, _clock: FakeClock) -> None:
        server.script(reply_status(status, "Reason", "not like this"))
        with pytest.raises(WebhookError, match="not like this"):
            await webhook.ask(REVIEW)
        assert len(server.seen) == 1

    with_webhook(scenario)


async def waited(clock: FakeClock, asking: asyncio.Task[object]) -> float:
    """Lets time pass until the answer is there; how much of it."""
    begun = clock.monotonic()
    while not asking.done():
        clock.advance(0.01)
        await asyncio.sleep(0)
    return clock.monotonic() - begun


@pytest.mark.parametrize("status", [429, 500, 504])
def test_some_are_tried_again(status: int) -> None:
    async def scenario(server: ScriptedServer, webhook: Webhook, clock: FakeClock) -> None:
        server.script(reply_status(status, "Reason", "later"), reply_json({"ok": 1}))
        asking = asyncio.create_task(webhook.ask(REVIEW))
        assert await waited(clock, asking) >= 0.5
        assert await asking == {"ok": 1}
        assert len(server.seen) == 2

    with_webhook(scenario)


def test_not_for_ever() -> None:
    async def scenario(server: ScriptedServer, webhook: Webhook, clock: FakeClock) -> None:
        server.script(reply_status(500, "InternalError", "oops"))
        asking = asyncio.create_task(webhook.ask(REVIEW))
        assert await waited(clock, asking) >= 0.5 + 0.75 + 1.125 + 1.6875
        with pytest.raises(WebhookError, match="oops"):
            await asking
        assert len(server.seen) == ATTEMPTS

    with_webhook(scenario)


def test_once_when_once_was_asked_for() -> None:
    async def scenario(server: ScriptedServer, webhook: Webhook, _clock: FakeClock) -> None:
        server.script(reply_status(500, "InternalError", "oops"))
        with pytest.raises(WebhookError, match="oops"):
            await webhook.ask(REVIEW, attempts=1)
        assert len(server.seen) == 1

    with_webhook(scenario)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"<html>", b"[" * 100_000])
def test_an_answer_that_is_no_json(body: bytes) -> None:
    async def scenario(server: ScriptedServer, webhook: Webhook, _clock: FakeClock) -> None:
        server.script(reply(body))
        with pytest.raises(WebhookError, match="answered with no JSON"):
            await webhook.ask(REVIEW)

    with_webhook(scenario)


def test_an_answer_without_end_and_nobody_at_all() -> None:
    async def scenario(server: ScriptedServer, webhook: Webhook, _clock: FakeClock) -> None:
        server.script(reply(b'"' + b"x" * (2 << 20) + b'"'))
        with pytest.raises(WebhookError):
            await webhook.ask(REVIEW)
        await server.__aexit__(None, None, None)
        with pytest.raises(WebhookError):
            await webhook.ask(REVIEW)

    with_webhook(scenario)


def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ClientConfigurationError):
        from_kubeconfig(tmp_path / "missing", FakeClock(), component="test", seconds=1.0)
