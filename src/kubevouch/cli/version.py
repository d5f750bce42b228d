"""``kubevouch version``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kubevouch import __version__
from kubevouch.cli import ui
from kubevouch.cli.cluster import kubeconfig_option, rest_config_of
from kubevouch.cli.runner import run_async

_SECONDS = 3.0


@click.command()
@click.option("--client", "only_client", is_flag=True, help="Do not ask the server.")
@kubeconfig_option
@ui.output_option
def version(only_client: bool, kubeconfig: Path | None, output: str) -> None:
    """Say which version this is, and which the server's, if there is one that answers."""
    import platform

    python = platform.python_version()
    server, problem = ({}, "") if only_client else run_async(_server(kubeconfig))
    if output != "text":
        tree: dict[str, Any] = {"clientVersion": {"version": __version__, "python": python}}
        ui.document(tree | ({"serverVersion": server} if server else {}) | _named("serverProblem", problem), output)
        return
    ui.field("client", f"{__version__}, on Python {python}")
    if server:
        ui.field("server", str(server.get("gitVersion", "<unknown>")))
    elif problem:
        ui.field("server", f"not asked or no answer: {problem}")


def _named(key: str, text: str) -> dict[str, str]:
    return {key: text} if text else {}


async def _server(kubeconfig: Path | None) -> tuple[dict[str, Any], str]:
    """What the server says at /version, or why nothing does."""
    import json

    from msgspec.structs import replace

    from kubevouch.client.interface import ClientConfigurationError, TransportError
    from kubevouch.client.options import Retry, Timeouts

    try:
        config = rest_config_of(kubeconfig)
        options = replace(config.options, timeouts=Timeouts.all(_SECONDS), retry=Retry(attempts=1))
        async with replace(config, options=options).client(component="cli") as client:
            answer = await client.raw("GET", "/version")
        found = json.loads(answer.body)
    except (ClientConfigurationError, TransportError) as err:
        return {}, str(err)
    except ValueError:
        return {}, "what it says is no JSON"
    if answer.status != 200 or not isinstance(found, dict):
        return {}, f"it answers {answer.status}"
    return found, ""
