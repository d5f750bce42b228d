from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

import pytest

from asynctest import async_test
from join_world import TOKEN, join_world
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.core_v1 import Secret
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases import bootstrap_token as phase
from kubevouch.records.bootstrap_tokens import Token, parse_token
from kubevouch.records.token_bounds import Bounds

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)


def test_defaults_are_kubeadms() -> None:
    plan = phase.plan(TOKEN, now=NOW)
    assert plan.expires == NOW + dt.timedelta(hours=24)
    assert plan.usages == ("authentication", "signing")
    assert plan.groups == (wellknown.DEFAULT_NODE_TOKEN_GROUP,)
    assert phase.plan(TOKEN, now=NOW, ttl=dt.timedelta()).expires is None
    assert phase.plan(TOKEN, now=NOW, usages=["signing"]).groups == ()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"usages": ["signing"], "groups": ["system:bootstrappers:x"]}, "token groups cannot be specified unless"),
        ({"usages": ["foo"]}, "invalid bootstrap token usage string: foo"),
        ({"groups": ["system:masters"]}, 'bootstrap group "system:masters" is invalid'),
        ({"ttl": dt.timedelta(seconds=-1)}, "invalid ttl -1s"),
    ],
)
def test_settings_that_no_token_may_have(settings: dict[str, object], text: str) -> None:
    with pytest.raises(phase.TokenPhaseError, match=text):
        phase.plan(TOKEN, now=NOW, **settings)  # type: ignore[arg-type]  # the cases differ in type


def test_a_token_is_named_whole_or_by_its_id() -> None:
    assert phase.token_id_of("p9k2zq") == phase.token_id_of(TOKEN.text) == "p9k2zq"
    for text in ("", "p9k2z", "P9K2ZQ", "p9k2zq.", "p9k2zq\n", TOKEN.text + "\n"):
        with pytest.raises(phase.TokenPhaseError, match="given token didn't match pattern"):
            phase.token_id_of(text)


@async_test
async def test_create_list_delete(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        client = world.server.client
        with pytest.raises(phase.TokenPhaseError, match='a token with id "p9k2zq" already exists'):
            await phase.create(client, phase.plan(TOKEN, now=NOW))
        forever = phase.plan(Token("aaaaaa", "b" * 16), now=NOW, ttl=dt.timedelta(), description="for ever")
        await phase.create(client, forever)
        stored = await client.get(catalog.SECRETS, "bootstrap-token-aaaaaa", "kube-system")
        assert "expiration" not in stored.data
        broken = Secret(
            metadata=ObjectMeta(name="bootstrap-token-cccccc", namespace="kube-system"),
            type=wellknown.BOOTSTRAP_TOKEN_SECRET,
            data={"token-id": b"cccccc"},
        )
        await client.create(catalog.SECRETS, broken)
        tokens, problems = await phase.list_tokens(client)
        assert [each.token.token_id for each in tokens] == ["aaaaaa", "p9k2zq"]
        assert tokens[0] == forever
        assert len(problems) == 1 and "bootstrap-token-cccccc" in problems[0]
        await phase.delete(client, "aaaaaa")
        with pytest.raises(phase.TokenPhaseError, match='failed to delete bootstrap token "aaaaaa"'):
            await phase.delete(client, "aaaaaa")


@async_test
async def test_ensure_gives_tokens_that_last_and_are_for_one_thing_each(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        client, now, day = world.server.client, world.clock.now(), dt.timedelta(days=1)
        pair = await phase.ensure(client, day, now=now)
        assert TOKEN not in pair
        assert await phase.ensure(client, day, now=now) == pair
        usages = {each.token: each.usages for each in (await phase.list_tokens(client))[0]}
        assert [usages[each] for each in (pair.discovery, pair.authentication)] == [("signing",), ("authentication",)]
        # One of the two is used up: the other stays; what a person has made for something is not handed on.
        await phase.delete(client, pair.authentication.token_id)
        other = phase.plan(parse_token("aaaaaa.k4x09zq7m2w8r5tj"), now=now, ttl=day, usages=("authentication",))
        await phase.create(client, other)
        again = await phase.ensure(client, day, now=now)
        assert again.discovery == pair.discovery and again.authentication not in (pair.authentication, other.token)
        later = now + dt.timedelta(days=3)
        assert not set(await phase.ensure(client, day, now=later)) & {*pair[:2], *again[:2]}


@pytest.mark.parametrize(
    ("groups", "left", "words"),
    [
        (phase.DEFAULT_GROUPS, None, "can become any node whose name is free, for ever"),
        (phase.DEFAULT_GROUPS, 86400, "can become any node whose name is free, for 24h"),
        (("system:bootstrappers:x",), 5, "has the rights of system:bootstrappers:x, for 35s"),
        ((), -5, "has the rights of system:bootstrappers, for 30s"),
    ],
)
def test_the_power_of_a_token(groups: tuple[str, ...], left: int | None, words: str) -> None:
    now = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    expires = None if left is None else now + dt.timedelta(seconds=left)
    told = phase.power(groups, expires, now)
    assert told == f"whoever has the token {words}"


def test_the_power_of_a_bound_token() -> None:
    now = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    bounds = Bounds(1, ("worker-7", "gpu-*"), (ipaddress.ip_network("10.0.0.0/8"),), ("sha256:ab",))
    assert phase.power(phase.DEFAULT_GROUPS, None, now, bounds) == (
        "whoever has the token can become worker-7 or gpu-*, 1 of them at most, from 10.0.0.0/8, with a key that it is "
        "for, for ever"
    )
