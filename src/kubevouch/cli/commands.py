"""All commands there are, for those who write or check the manual."""

from __future__ import annotations

from collections.abc import Iterator

import click

from kubevouch.cli.main import cli, typed

_PROGRAM = "kubevouch"


def contexts() -> Iterator[click.Context]:
    """Every command, the whole program first, each before its own."""
    yield from _below(click.Context(cli, info_name=_PROGRAM, **cli.context_settings))


def _below(ctx: click.Context) -> Iterator[click.Context]:
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            command = ctx.command.get_command(ctx, name)
            assert command is not None  # it is listed
            yield from _below(click.Context(command, info_name=typed(name), parent=ctx))
