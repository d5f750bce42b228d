"""``kubevouch token create --one-time``."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, rest_config_of
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.records.join_tokens import JoinToken, Record


def create(machine: str, ttl: dt.timedelta, output: str, kubeconfig: Path | None) -> None:
    """Make a token for ``machine`` and print it, once: the cluster does not know it. Raises CLIError."""
    from kubevouch.machinery.text.times import Time
    from kubevouch.records import join_tokens
    from kubevouch.util.clock import SystemClock

    now = SystemClock().now()
    token = join_tokens.generate()
    try:
        record = join_tokens.plan(token, machine, ttl, now)
    except join_tokens.JoinTokenError as err:
        raise ui.CLIError(str(err), code=ExitCode.INVALID) from err
    run_async(_create(rest_config_of(kubeconfig), token, record, now))
    if output == "text":
        ui.say(token.text)
    else:
        ui.document({"token": token.text, "expires": str(Time.of(record.expires))}, output)


def delete(token_id: str, kubeconfig: Path | None) -> None:
    """Raises CLIError."""
    run_async(_delete(rest_config_of(kubeconfig), token_id))
    ui.say(f'join token "{token_id}" deleted')


async def _delete(config: RESTConfig, token_id: str) -> None:
    from kubevouch.phases import join_tokens as phase

    async with connected(config) as client:
        try:
            await phase.delete(client, token_id)
        except phase.JoinTokenPhaseError as err:
            raise ui.CLIError(str(err)) from err


def id_of(text: str) -> str:
    """The id of a join token that is given whole or by it; empty for another text."""
    from kubevouch.records import join_tokens

    try:
        join_tokens.secret_name(text.partition(".")[0])
        return join_tokens.parse(text).token_id if "." in text else text
    except join_tokens.JoinTokenError:
        return ""


async def _create(config: RESTConfig, token: JoinToken, record: Record, now: dt.datetime) -> None:
    from kubevouch.phases import join_tokens as phase

    async with connected(config) as client:
        try:
            await phase.create(client, token, record, now)
        except phase.JoinTokenPhaseError as err:
            raise ui.CLIError(str(err)) from err
