"""Names that a shell completes. Whatever goes wrong on the way, there are just none."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kubevouch.client.interface import Client

Complete = Callable[[click.Context, click.Parameter, str], list[str]]

_SECONDS = 2.0  # a person waits with a finger on the key
_LIMIT = 500
JOIN_WORDS = ("phase", "status")


# A name from a cluster is put into the line that the person is about to run: nothing that a shell or a terminal reads
# otherwise than as a letter.
_HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*", re.ASCII)


def starting(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete) and _HARMLESS.fullmatch(name))


def certificates(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """A control plane's certificates, and ``all``."""
    from kubevouch.phases.certificates.control_plane_files import CREDENTIALS

    return starting(["all", *(each.name for each in CREDENTIALS)], incomplete)


def join_phases(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from kubevouch.phases.join_phases import NAMES

    return [] if param.name is not None and ctx.params.get(param.name) else starting(NAMES, incomplete)


def join_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """What may stand behind ``join`` in an address's place."""
    taken = param.name is not None and ctx.params.get(param.name)
    return [] if taken else starting(JOIN_WORDS, incomplete)


def _of_cluster(names: Callable[[Client], Awaitable[Iterable[str]]]) -> Complete:
    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        from kubevouch.client.interface import ClientConfigurationError, TransportError
        from kubevouch.machinery.errors import APIStatusError

        with contextlib.suppress(ClientConfigurationError, TransportError, APIStatusError, OSError):
            return starting(_ask(ctx, names), incomplete)
        return []

    return complete


def _ask(ctx: click.Context, names: Callable[[Client], Awaitable[Iterable[str]]]) -> Iterable[str]:
    from msgspec.structs import replace

    from kubevouch.cli.cluster import rest_config_of
    from kubevouch.cli.runner import run_async
    from kubevouch.client.options import Retry, Timeouts

    config = rest_config_of(ctx.params.get("kubeconfig"))
    options = replace(config.options, timeouts=Timeouts.all(_SECONDS), retry=Retry(attempts=1))

    async def ask() -> list[str]:
        async with replace(config, options=options).client(component="completion") as client:
            return list(await names(client))

    return run_async(ask())


async def _requests(client: Client) -> list[str]:
    from kubevouch.api import catalog
    from kubevouch.client.interface import ListOptions

    found = await client.list(catalog.CERTIFICATE_SIGNING_REQUESTS, options=ListOptions(limit=_LIMIT))
    return [each.metadata.name for each in found.items]


async def _nodes(client: Client) -> list[str]:
    from kubevouch.api import catalog
    from kubevouch.client.interface import ListOptions

    return [each.metadata.name for each in (await client.list(catalog.NODES, options=ListOptions(limit=_LIMIT))).items]


async def _tokens(client: Client) -> list[str]:
    from kubevouch.phases.bootstrap_token import list_tokens

    return [each.token.token_id for each in (await list_tokens(client))[0]]


requests = _of_cluster(_requests)
nodes = _of_cluster(_nodes)
tokens = _of_cluster(_tokens)
