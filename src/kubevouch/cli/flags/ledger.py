"""Which ledger a command is about."""

from __future__ import annotations

from pathlib import Path

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags import together
from kubevouch.cli.flags.paths import FOLDER

ledger_flags = together(
    click.option(
        "--ledger", type=click.Path(path_type=Path, dir_okay=False), help="The file of a ledger; a copy will do."
    ),
    click.option("--data-dir", type=FOLDER, help="Of kubevouch up, which keeps one.  [default: as for kubevouch up]"),
)


def ledger_path(ledger: Path | None, data_dir: Path | None) -> Path:
    """Raises CLIError, UsageError."""
    from kubevouch.ledger.opening import DEFAULT_FILE
    from kubevouch.standalone.options import default_data_dir

    if ledger is not None and data_dir is not None:
        raise click.UsageError("got --ledger and --data-dir, expected one of them")
    path = ledger or (data_dir or default_data_dir()) / DEFAULT_FILE
    if not path.is_file():
        absent = f"there is no ledger at {path}" if not path.exists() else f"got {path}, expected the file of a ledger"
        raise ui.CLIError(
            absent, hint="name the data directory of kubevouch up by --data-dir DIR, or the file by --ledger FILE;"
            " with --store memory: none is kept", code=ExitCode.INVALID,
        )  # fmt: skip
    return path
