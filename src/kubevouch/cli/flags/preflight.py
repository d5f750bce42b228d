"""``--ignore-preflight-errors``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode

ignore_option = click.option(
    "--ignore-preflight-errors",
    multiple=True,
    metavar="CHECK,...",
    help="Checks that only warn, such as Swap,Port-10250; 'all' is all of them.",
)


def take_ignored(texts: Iterable[str]) -> frozenset[str]:
    """The checks in lower case. Raises :class:`CLIError`."""
    from kubevouch.phases.preflight import verify_ignored

    try:
        return verify_ignored(part for text in texts for part in text.split(","))
    except ValueError as err:
        raise ui.CLIError(str(err), code=ExitCode.INVALID) from err


@contextmanager
def findings_told() -> Iterator[None]:
    """Each finding that stands in the way becomes an ``error:`` line of its own, before the one that ends the command.

    Raises:
        CLIError
    """
    from kubevouch.phases.preflight import PreflightError

    try:
        yield
    except PreflightError as err:
        for each in err.findings:
            ui.error(f"{each.check}: {each.message}", each.hint)
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.PREFLIGHT) from err
