"""``kubevouch store``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.paths import FOLDER

if TYPE_CHECKING:
    from kubevouch.storage.sqlite.verification import Verified

_IN_USE = "stop kubevouch up first, or look at a copy of the file, its -wal and its .mark"


@click.group(cls=ui.Group)
def store() -> None:
    """Check the files of a store that is not in use, and go on after a loss."""


def _place(command: Any) -> Any:
    command = click.argument("path", type=click.Path(path_type=Path), required=False)(command)
    return click.option(
        "--data-dir", type=FOLDER, help="Of kubevouch up, if no PATH is given.  [default: as for kubevouch up]"
    )(command)


def _path(path: Path | None, data_dir: Path | None) -> Path:
    from kubevouch.standalone.options import default_data_dir
    from kubevouch.storage.options import DEFAULT_FILE

    if path is not None and data_dir is not None:
        raise click.UsageError("got PATH and --data-dir, expected one of them")
    path = path or (data_dir or default_data_dir()) / DEFAULT_FILE
    if not path.is_file():
        raise ui.CLIError(f"got {path}, expected the file of a store", code=ExitCode.INVALID)
    return path


@store.command()
@_place
@ui.output_option
def verify(path: Path | None, data_dir: Path | None, output: str) -> int:
    """Look at every row, page and log frame of a store, and at its mark.

    Nothing is changed. Ends with 0 if the store is whole, with 1 if it is not, with 2 if it is in use, with 3 if there
    is no such file.
    """
    from kubevouch.phases import store as phase
    from kubevouch.storage.interface import StoreInUse

    path = _path(path, data_dir)
    try:
        verified = phase.verify(path)
    except StoreInUse as err:
        raise ui.CLIError(str(err), hint=_IN_USE, code=ExitCode.PREFLIGHT) from err
    if output != "text":
        ui.document(_tree(path, verified), output)
    else:
        for finding in verified.findings:
            ui.say(f"  {ui.one_line(finding)}")
        if not verified.findings:
            ui.say(f"whole: {_summary(verified)}")
    if not verified.findings:
        return ExitCode.DONE
    count = f"{len(verified.findings)} finding{'s' * (len(verified.findings) > 1)}"
    if verified.damaged:
        raise ui.CLIError(f"{path} is damaged: {count}", hint="restore a backup")
    raise ui.CLIError(
        f"{path} has lost writes: {count}", hint=f"restore the newest backup, or kubevouch store accept-loss {path}"
    )


def _summary(verified: Verified) -> str:
    return (
        f"revision {verified.revision}, marked {verified.marked}; {verified.keys} keys,"
        f" {verified.versions} versions since revision {verified.compacted}, {verified.frames} frames in the log"
    )


def _tree(path: Path, verified: Verified) -> dict[str, Any]:
    return {
        "path": str(path),
        "whole": not verified.findings,
        "lost": verified.lost,
        "damaged": verified.damaged,
        "revision": verified.revision,
        "markedRevision": verified.marked,
        "compactedRevision": verified.compacted,
        "keys": verified.keys,
        "versions": verified.versions,
        "logFrames": verified.frames,
    }


@store.command("accept-loss")
@_place
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@ui.facts_option("store", "revision", "keptLog")
def accept_loss(path: Path | None, data_dir: Path | None, yes: bool, output: str) -> None:
    """Go on with what a store still has, after damage or a restored backup.

    Its resourceVersions jump beyond every one that a client may have seen, and watches begin anew.
    """
    from kubevouch.phases import store as phase
    from kubevouch.storage.interface import StoreInUse
    from kubevouch.util.clock import SystemClock

    path = _path(path, data_dir)
    if not yes and not ui.confirmed(f"Go on without what {path} has lost?"):
        raise ui.CLIError("aborted; nothing was changed", hint="--yes does not ask")
    try:
        revision, kept = phase.accept_loss(path, SystemClock().now())
    except StoreInUse as err:
        raise ui.CLIError(str(err), hint=_IN_USE, code=ExitCode.PREFLIGHT) from err
    if output != "text":
        tree = {"store": str(path), "revision": revision, "keptLog": "" if kept is None else str(kept)}
        ui.document(tree, output)
        return
    ui.step(f"{path} goes on at revision {revision}")
    if kept is not None:
        ui.say(f"  its log as it was is in {kept}; it may hold Secrets")
