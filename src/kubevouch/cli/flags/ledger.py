"""Which ledger a command is about."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags import together
from kubevouch.cli.flags.paths import FOLDER

if TYPE_CHECKING:
    from kubevouch.client.interface import Client

T = TypeVar("T")
CLUSTER = "cluster"


class LedgerPlace(click.Path):
    """A file, or the word ``cluster``; a file of that name is ``./cluster``."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return CLUSTER if value == CLUSTER else Path(os.fsdecode(super().convert(value, param, ctx)))


ledger_flags = together(
    click.option(
        "--ledger",
        type=LedgerPlace(),
        metavar="FILE",
        help="File of a ledger, or a copy of it; cluster reads the one in the cluster's objects.",
    ),
    click.option("--data-dir", type=FOLDER, help="Of kubevouch up, which keeps one.  [default: as for kubevouch up]"),
)


def ledger_path(ledger: Path | str | None, data_dir: Path | None) -> Path:
    """The file of a ledger; of one in the cluster a copy, which ends with the command. Raises CLIError, UsageError."""
    from kubevouch.ledger.opening import DEFAULT_FILE
    from kubevouch.standalone.options import default_data_dir

    if ledger is not None and data_dir is not None:
        raise click.UsageError("got --ledger and --data-dir, expected one of them")
    if ledger == CLUSTER:
        return _copied()
    path = Path(ledger) if ledger is not None else (data_dir or default_data_dir()) / DEFAULT_FILE
    if not path.is_file():
        absent = f"there is no ledger at {path}" if not path.exists() else f"got {path}, expected the file of a ledger"
        raise ui.CLIError(
            absent, hint="name the data directory of kubevouch up by --data-dir DIR, or the file by --ledger FILE;"
            " with --store memory: none is kept", code=ExitCode.INVALID,
        )  # fmt: skip
    return path


def signed_ledger_path(ledger: Path | str | None, data_dir: Path | None) -> Path:
    """As :func:`ledger_path`, for what its key signs. Raises CLIError, UsageError."""
    if ledger == CLUSTER:
        raise click.UsageError("the ledger in the cluster has no key and signs nothing; this needs a ledger in a file")
    return ledger_path(ledger, data_dir)


def with_cluster(work: Callable[[Client], Awaitable[T]]) -> T:
    """What ``work`` makes of the cluster that the command names, or that KUBECONFIG does."""
    from kubevouch.cli.cluster import connected, rest_config_of
    from kubevouch.cli.runner import run_async

    config = rest_config_of(click.get_current_context().params.get("kubeconfig"))

    async def connecting() -> T:
        async with connected(config) as client:
            return await work(client)

    return run_async(connecting())


def _copied() -> Path:
    from kubevouch.phases.cluster_ledger import copy

    folder = Path(click.get_current_context().with_resource(TemporaryDirectory(prefix="kubevouch-ledger-")))
    return with_cluster(lambda client: copy(client, folder))
