"""``kubevouch completion``."""

from __future__ import annotations

import click

from kubevouch.cli import ui

PROGRAM, VARIABLE = "kubevouch", "_KUBEVOUCH_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes SHELL complete kubevouch's commands and options.

    For this session: source <(kubevouch completion bash), or with fish: kubevouch completion fish | source.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # click knows all three
    ui.raw(found(ctx.find_root().command, {}, PROGRAM, VARIABLE).source() + "\n")
