"""Tokens that another service knows: audiences, and what is remembered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

import aio
from kubevouch.authentication.interface import AuthenticationError, UserInfo
from kubevouch.authentication.webhook import MAX_TOKEN_BYTES, WebhookTokenAuthenticator
from kubevouch.testing.clock import FakeClock
from scripted_server import ScriptedServer, reply_json, reply_status
from webhook_peer import webhook_peer

Scenario = Callable[[ScriptedServer, WebhookTokenAuthenticator, FakeClock], Awaitable[None]]


def with_webhook(scenario: Scenario, *audiences: str, ttl: float = 120.0) -> None:
    async def run() -> None:
        async with webhook_peer() as (server, webhook, clock):
            authenticator = WebhookTokenAuthenticator(webhook, "v1", audiences, ttl, clock)
            try:
                await scenario(server, authenticator, clock)
            finally:
                await authenticator.close()

    aio.run(run())


def review(version: str = "v1", /, **status: Any) -> Any:
    return reply_json({"apiVersion": f"authentication.k8s.io/{version}", "kind": "TokenReview", "status": status})


@pytest.mark.parametrize(
    ("ours", "asked", "answered", "accepted"),
    [
        ((), (), None, ()),
        (("api",), (), None, ()),  # it does not speak of audiences: it answers for this server
        (("api",), (), ["api"], ()),
        (("api",), (), ["other"], None),
        (("api",), ("vault",), ["vault", "x"], ("vault",)),
        (("api",), ("vault", "api"), None, ("api",)),
        (("api",), ("vault",), None, None),
        ((), ("vault",), ["other"], None),
    ],
)
def test_audiences(
    ours: tuple[str, ...], asked: tuple[str, ...], answered: list[str] | None, accepted: tuple[str, ...] | None
) -> None:
    async def scenario(server: ScriptedServer, authenticator: WebhookTokenAuthenticator, _clock: FakeClock) -> None:
        more: dict[str, Any] = {} if answered is None else {"audiences": answered}
        server.script(review(authenticated=True, user={"username": "jane"}, **more))
        found = await authenticator.authenticate_token("t", asked)
        sent = msgspec.json.decode(server.seen[0].body)["spec"]
        assert sent == {"token": "t"} | ({"audiences": list(asked or ours)} if asked or ours else {})
        if accepted is None:
            assert found is None
            return
        assert found is not None
        assert (found.user, found.audiences) == (UserInfo("jane"), accepted)

    with_webhook(scenario, *ours)


def test_each_answer_is_remembered_but_no_failure_to_ask() -> None:
    async def scenario(server: ScriptedServer, authenticator: WebhookTokenAuthenticator, clock: FakeClock) -> None:
        server.script(reply_status(403, "Forbidden", "not now"), review(authenticated=False))
        with pytest.raises(AuthenticationError, match=r"^webhook: .*not now"):
            await authenticator.authenticate_token("t")
        for _ in range(3):
            assert await authenticator.authenticate_token("t") is None
        assert len(server.seen) == 2
        server.script(review(error="expired"))
        clock.advance(120)
        for _ in range(2):
            with pytest.raises(AuthenticationError, match=r"^expired$"):
                await authenticator.authenticate_token("t")
        assert len(server.seen) == 3
        # Other audiences are another question.
        server.script(review(authenticated=True, user={"username": "jane"}, audiences=["x"]))
        assert await authenticator.authenticate_token("t", ("x",)) is not None
        assert len(server.seen) == 4

    with_webhook(scenario)


@pytest.mark.parametrize(
    "answer",
    [
        review("v2", authenticated=True, user={"username": "jane"}),
        reply_json({"status": {"authenticated": True}}),
        review(authenticated="yes"),
        review(authenticated=True, user={"username": 5}),
        reply_json([]),
    ],
)
def test_answers_that_are_none(answer: Any) -> None:
    async def scenario(server: ScriptedServer, authenticator: WebhookTokenAuthenticator, _clock: FakeClock) -> None:
        server.script(answer)
        with pytest.raises(AuthenticationError, match=r"^webhook: "):
            await authenticator.authenticate_token("t")

    with_webhook(scenario)


def test_a_token_without_end_is_not_passed_on() -> None:
    async def scenario(server: ScriptedServer, authenticator: WebhookTokenAuthenticator, _clock: FakeClock) -> None:
        server.script(review(authenticated=True))
        assert await authenticator.authenticate_token("t" * (MAX_TOKEN_BYTES + 1)) is None
        assert not server.seen

    with_webhook(scenario)
