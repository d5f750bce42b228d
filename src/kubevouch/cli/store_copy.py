"""``kubevouch store copy``, ``backup`` and ``restore``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.etcd import etcd_access_flags, take_etcd_access
from kubevouch.cli.flags.paths import FOLDER, shown
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.storage.copying.copy import Copied, Progress


DATA_DIR = click.option(
    "--data-dir", type=FOLDER, help="Where sqlite: without a path is.  [default: as for kubevouch up]"
)
REPLACE = click.option("--replace", is_flag=True, help="Take away what is at the destination, whatever it is.")
ABOVE = click.option(
    "--above",
    type=click.IntRange(0, 1 << 62),  # storage.write.MAX_REVISION
    metavar="REVISION",
    help="The newest resourceVersion that anybody may have seen.  [default: far above that of FILE]",
)
_COPY_FACTS = ("sourceRevision", "revision", "keys", "bytes", "created", "updated", "deleted")


@click.command("copy")
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
@DATA_DIR
@etcd_access_flags
@REPLACE
@ui.facts_option("source", "destination", *_COPY_FACTS)
def copy(source: str, destination: str, data_dir: Path | None, replace: bool, output: str, **flags: Any) -> None:
    """Copy every key of the store SRC to the store DST, and compare them.

    Both are given as to kubevouch up --store, or as the path of a file; SRC may be a file of kubevouch store backup. A
    server may go on with SRC: what it writes meanwhile is left for the next run, which copies what has changed since.
    A run that was ended is gone on with by the same command. Nobody may use DST.

    DST goes on above every resourceVersion of SRC, so that all who watched list anew.
    """
    from kubevouch.phases import store_copy as phase
    from kubevouch.storage.copying.copy import copy as copied_to
    from kubevouch.util.clock import SystemClock

    folder, etcd = data_dir_of(data_dir), take_etcd_access(flags)
    with naming():
        origin, target = phase.source(source, folder, etcd), phase.destination(destination, folder, etcd)
    with telling() as told:
        copied = run_async(copied_to(origin, target, SystemClock(), told, replace=replace))
    _say_copied(copied, str(origin), str(target), output)
    if copied.source_in_use:
        ui.warning(
            f"{origin} is in use: what is written to it from now on is not in the copy; stop its server and run this "
            "again before another one starts from the copy"
        )


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--store", "spec", default="sqlite:", show_default=True, help="As it is given to kubevouch up.")
@DATA_DIR
@etcd_access_flags
@ui.facts_option("file", "store", "created", "revision", "keys", "sha256")
def backup(file: Path, spec: str, data_dir: Path | None, output: str, **flags: Any) -> None:
    """Write every key of a store to FILE, also while a server uses it.

    FILE is made with the mode 0600 and never overwritten. What is encrypted in the store is so in FILE, and nothing
    else. Keys of CAs, kubeconfigs and the ledger are no part of it; kubevouch backup takes them too.
    """
    from kubevouch.phases import store_copy as phase
    from kubevouch.util.clock import SystemClock

    with naming():
        place = phase.destination(spec, data_dir_of(data_dir), take_etcd_access(flags))
    with telling() as told:
        header, end = run_async(phase.backup(place, file, SystemClock(), told))
    if output == "text":
        ui.step(f"backup made: {end.keys} keys at revision {header.revision}", shown(file))
    else:
        facts = {"created": header.created, "revision": header.revision, "keys": end.keys, "sha256": end.sha256}
        ui.document({"file": str(file), "store": str(place)} | facts, output)
    ui.warning(f"{shown(file)} holds every Secret that is not encrypted in the store: whoever reads it has them")


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("destination", metavar="DST")
@ABOVE
@DATA_DIR
@etcd_access_flags
@REPLACE
@ui.facts_option("source", "destination", *_COPY_FACTS)
def restore(
    file: Path, destination: str, above: int | None, data_dir: Path | None, replace: bool, output: str, **flags: Any
) -> None:
    """Have the store DST hold what FILE does, a file of kubevouch store backup, and compare them.

    Stop every server that uses DST first. A run that was ended is gone on with by the same command.

    DST goes on above REVISION and above all resourceVersions of FILE, so that all who watched list anew.
    """
    from kubevouch.phases import store_copy as phase
    from kubevouch.storage.copying.backup_file import BackupFile
    from kubevouch.util.clock import SystemClock

    with naming():
        target = phase.destination(destination, data_dir_of(data_dir), take_etcd_access(flags))
    with telling() as told:
        copied = run_async(phase.restore(BackupFile(file), target, SystemClock(), told, replace=replace, above=above))
    _say_copied(copied, str(file), str(target), output)


def data_dir_of(data_dir: Path | None) -> Path:
    """The folder that a flag names, or the one of ``kubevouch up``."""
    from kubevouch.standalone.options import default_data_dir

    return data_dir or default_data_dir()


@contextmanager
def naming() -> Iterator[None]:
    """Around what looks at the name of a store."""
    from kubevouch.storage.options import InvalidStoreSpec

    try:
        yield
    except InvalidStoreSpec as err:
        raise ui.CLIError(str(err), code=ExitCode.INVALID) from err


@contextmanager
def telling() -> Iterator[Callable[[Progress | int], None]]:
    """On a terminal one line says how far it is."""
    turn = 0
    shows = ui.shows_progress()

    def told(progress: Progress | int) -> None:
        nonlocal turn
        if not shows:
            return
        turn += 1
        if isinstance(progress, int):
            ui.progress(turn, f"{progress} keys written")
        elif progress.step == "raise":
            ui.progress(turn, f"raising the revision: {progress.done} of {progress.of}")
        else:
            ui.progress(turn, f"{progress.done} keys {_DONE[progress.step]}")

    try:
        yield told
    finally:
        if shows:
            ui.no_progress()


_DONE = {"copy": "copied", "verify": "compared"}


def _say_copied(copied: Copied, source: str, destination: str, output: str) -> None:
    if output != "text":
        tree = {
            "source": source, "destination": destination,
            "sourceRevision": copied.source_revision, "revision": copied.revision,
            "keys": copied.keys, "bytes": copied.bytes,
            "created": copied.created, "updated": copied.updated, "deleted": copied.deleted,
        }  # fmt: skip
        ui.document(tree, output)
        return
    ui.step(f"{copied.keys} keys of revision {copied.source_revision} are in {destination}, each compared")
    ui.say(f"  {copied.created} created, {copied.updated} updated, {copied.deleted} deleted")
    ui.say(f"  it goes on at revision {copied.revision}")
