"""``kubevouch store``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.etcd import etcd_access_flags, take_etcd_access
from kubevouch.cli.flags.paths import FOLDER
from kubevouch.cli.runner import run_async
from kubevouch.cli.store_copy import DATA_DIR, backup, copy, data_dir_of, naming, restore
from kubevouch.cli.store_inspect import inspect
from kubevouch.cli.store_rewrite import rewrite

if TYPE_CHECKING:
    from kubevouch.phases.store_verification import LookedThrough
    from kubevouch.storage.copying.copy import Source
    from kubevouch.storage.sqlite.verification import Verified

_IN_USE = "stop kubevouch up first, or look at a copy of the file, its -wal and its .mark"


@click.group(cls=ui.Group)
def store() -> None:
    """Check, copy and look through what a cluster keeps, and go on after a loss."""


for _command in (copy, backup, restore, inspect, rewrite):
    store.add_command(_command)


def _path(place: str | None, data_dir: Path | None) -> Path:
    from kubevouch.standalone.options import default_data_dir
    from kubevouch.storage.options import DEFAULT_FILE

    if place is not None and data_dir is not None:
        raise click.UsageError("got a path and --data-dir, expected one of them")
    path = Path(place) if place is not None else (data_dir or default_data_dir()) / DEFAULT_FILE
    if not path.is_file():
        raise ui.CLIError(f"got {path}, expected the file of a store", code=ExitCode.INVALID)
    return path


@store.command()
@click.argument("place", metavar="[STORE]", required=False, default="sqlite:")
@DATA_DIR
@etcd_access_flags
@ui.output_option
def verify(place: str, data_dir: Path | None, output: str, **flags: Any) -> int:
    """Look at all of a store, of an etcd, or of a file of kubevouch store backup.

    STORE is given as to kubevouch up --store, or as the path of a file. Of SQLite every row, page and log frame is
    looked at, and the mark; of etcd every value, and whether its members hold the same.

    Nothing is changed. Ends with 0 if the store is whole, with 1 if it is not, with 2 if its file is in use, with 3 if
    there is no such file.
    """
    from kubevouch.phases import store_copy
    from kubevouch.storage.sqlite.place import SQLitePlace

    with naming():
        named = store_copy.source(place, data_dir_of(data_dir), take_etcd_access(flags), missing_ok=True)
    return _verify_file(named.path, output) if isinstance(named, SQLitePlace) else _verify_keys(named, output)


def _verify_keys(place: Source, output: str) -> int:
    from kubevouch.phases import store_verification as phase
    from kubevouch.util.clock import SystemClock

    looked = run_async(phase.verify(place, SystemClock()))
    if output != "text":
        facts = {
            "revision": looked.revision,
            "keys": looked.keys,
            "encrypted": looked.encrypted,
            "others": looked.others,
        }
        ui.document({"store": str(place), "whole": not looked.findings, "findings": looked.findings} | facts, output)
    else:
        for finding in looked.findings:
            ui.say(f"  {ui.one_line(finding)}")
        if not looked.findings:
            ui.say(f"whole: revision {looked.revision}; {looked.keys} keys{_not_looked_into(looked)}")
    if not looked.findings:
        return ExitCode.DONE
    raise ui.CLIError(f"{place} is not whole: {_count(looked.findings)}", hint="kubevouch store inspect shows a value")


def _not_looked_into(looked: LookedThrough) -> str:
    parts = [f"{looked.encrypted} encrypted"] * bool(looked.encrypted) + [
        f"{looked.others} of kinds that are not known"
    ] * bool(looked.others)
    return f", not looked into: {', '.join(parts)}" if parts else ""


def _count(findings: list[str]) -> str:
    return f"{len(findings)} finding{'s' * (len(findings) > 1)}"


def _verify_file(path: Path, output: str) -> int:
    from kubevouch.phases import store as phase
    from kubevouch.storage.interface import StoreInUse

    if not path.is_file():
        raise ui.CLIError(f"got {path}, expected the file of a store", code=ExitCode.INVALID)
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
    count = _count(verified.findings)
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
@click.argument("place", metavar="[STORE]", required=False)
@click.option("--data-dir", type=FOLDER, help="Data directory of the server.  [default: as for kubevouch up]")
@etcd_access_flags
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@ui.facts_option("store", "revision", "keptLog")
def accept_loss(place: str | None, data_dir: Path | None, yes: bool, output: str, **flags: Any) -> None:
    """Go on with what a store still has, after damage or a restored backup.

    STORE is the path of an SQLite file, or etcd://HOST:PORT[,HOST:PORT][/PREFIX] as given to kubevouch up --store. Its
    resourceVersions jump beyond every one that a client may have seen, and watches begin anew. For etcd, stop all its
    servers, and pass the --data-dir of each one that refuses to start.
    """
    from kubevouch.phases import store as phase
    from kubevouch.storage.interface import StoreInUse
    from kubevouch.util.clock import SystemClock

    if place is not None and place.startswith("etcd:"):
        _accept_loss_of_etcd(place, data_dir, yes, output, flags)
        return
    path = _path(place, data_dir)
    _confirm_loss(path, yes)
    try:
        revision, kept = phase.accept_loss(path, SystemClock().now())
    except StoreInUse as err:
        raise ui.CLIError(str(err), hint=_IN_USE, code=ExitCode.PREFLIGHT) from err
    _tell_loss(path, revision, kept, output)


def _confirm_loss(store: object, yes: bool) -> None:
    if not yes and not ui.confirmed(f"Go on without what {store} has lost?"):
        raise ui.CLIError("aborted; nothing was changed", hint="--yes does not ask")


def _tell_loss(store: object, revision: int, kept: Path | None, output: str) -> None:
    if output != "text":
        ui.document({"store": str(store), "revision": revision, "keptLog": "" if kept is None else str(kept)}, output)
        return
    ui.step(f"{store} goes on at revision {revision}")
    if kept is not None:
        ui.say(f"  its log as it was is in {kept}; it may hold Secrets")


def _accept_loss_of_etcd(place: str, data_dir: Path | None, yes: bool, output: str, flags: dict[str, Any]) -> None:
    from kubevouch.phases import store as phase
    from kubevouch.standalone import claims
    from kubevouch.standalone.errors import NotHereError
    from kubevouch.storage.options import EtcdSpec, parse_store
    from kubevouch.util.clock import SystemClock

    folder = data_dir_of(data_dir)
    with naming():
        spec = parse_store(place, folder, take_etcd_access(flags))
    assert isinstance(spec, EtcdSpec)  # it begins with etcd:
    if not folder.is_dir():
        raise ui.CLIError(f"got {folder}, expected the data directory of a server", code=ExitCode.INVALID)
    _confirm_loss(spec, yes)
    try:
        with claims.directory(folder):
            revision = run_async(phase.accept_loss_of_etcd(spec, SystemClock(), lambda _: None))
    except NotHereError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.PREFLIGHT) from err
    _tell_loss(spec, revision, None, output)
