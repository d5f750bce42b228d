"""One-time join tokens are made, and those that are over cleared away."""

from __future__ import annotations

import datetime as dt

import pytest
from click.testing import CliRunner

from asynctest import async_test
from controller_world import NOW, world
from kubevouch import wellknown
from kubevouch.api.catalog import SECRETS
from kubevouch.api.core_v1 import Secret
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.main import cli
from kubevouch.cli.ui import CLIError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases import join_tokens as phase
from kubevouch.records import join_tokens
from kubevouch.records.join_tokens import JoinToken

HOUR = dt.timedelta(hours=1)


@async_test
async def test_a_token_is_made_and_older_ones_are_cleared_away() -> None:
    async with world() as at:

        async def made(now: dt.datetime) -> JoinToken:
            token = join_tokens.generate()
            await phase.create(at.client, token, join_tokens.plan(token, "worker-7", HOUR, now), now)
            return token

        async def there() -> set[str]:
            return {each.metadata.name for each in (await at.client.list(SECRETS, namespace)).items}

        namespace = wellknown.JOIN_TOKENS_NAMESPACE
        other = Secret(metadata=ObjectMeta(name="other", namespace=namespace), data={"a": b"b"})
        await at.client.create(SECRETS, other)
        first = await made(NOW)
        second = await made(NOW + 2 * HOUR)
        assert await there() == {join_tokens.secret_name(each.token_id) for each in (first, second)} | {"other"}
        third = await made(NOW + 26 * HOUR)
        assert await there() == {join_tokens.secret_name(each.token_id) for each in (second, third)} | {"other"}
        with pytest.raises(phase.JoinTokenPhaseError, match="already exists"):
            await phase.create(at.client, third, join_tokens.plan(third, "worker-8", HOUR, NOW), NOW)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--one-time"], "expected --one-time and --machine together"),
        (["--machine", "worker-7"], "expected --one-time and --machine together"),
        (["--one-time", "--machine", "worker-7", "--uses", "2"], "cannot use --uses with --one-time"),
        (["--one-time", "--machine", "worker-7", "--print-join-command"], "cannot use --print-join-command with"),
        (["--one-time", "--machine", "worker-7", "abcdef.0123456789abcdef"], "cannot use TOKEN with --one-time"),
        (["--one-time", "--machine", "Worker 7"], "is no name of a machine"),
        (["--one-time", "--machine", "worker-7", "--ttl", "0"], "expected 1 second to 30 days"),
    ],
)
def test_what_cannot_be_asked_for(arguments: list[str], told: str) -> None:
    ended = CliRunner().invoke(cli, ["token", "create", *arguments])
    assert isinstance(ended.exception, CLIError)
    assert ended.exception.code is ExitCode.INVALID
    assert told in str(ended.exception)
