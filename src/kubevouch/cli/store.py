"""``kubevouch store``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.paths import FOLDER, shown
from kubevouch.cli.store_rewrite import rewrite

if TYPE_CHECKING:
    from kubevouch.phases.store_inspection import Listed
    from kubevouch.storage.copying.copy import Copied, Progress
    from kubevouch.storage.snapshot import Record
    from kubevouch.storage.sqlite.verification import Verified

_IN_USE = "stop kubevouch up first, or look at a copy of the file, its -wal and its .mark"


@click.group(cls=ui.Group)
def store() -> None:
    """Check, copy and look through what a cluster keeps, and go on after a loss."""


store.add_command(rewrite)


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


# ------------------------------------------------------------------ copies

_STORE_DIR = click.option(
    "--data-dir", type=FOLDER, help="Where sqlite: without a path is.  [default: as for kubevouch up]"
)
_REPLACE = click.option("--replace", is_flag=True, help="Take away what is at the destination, whatever it is.")
_COPY_FACTS = ("sourceRevision", "revision", "keys", "bytes", "created", "updated", "deleted")


@store.command("copy")
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
@_STORE_DIR
@_REPLACE
@ui.facts_option("source", "destination", *_COPY_FACTS)
def copy_store(source: str, destination: str, data_dir: Path | None, replace: bool, output: str) -> None:
    """Copy every key of the store SRC to the store DST, and compare them.

    Both are given as to kubevouch up --store, or as the path of a file; SRC may be a file of kubevouch store backup. A
    server may go on with SRC: what it writes meanwhile is left for the next run, which copies what has changed since.
    A run that was ended is gone on with by the same command. Nobody may use DST.

    DST goes on above every resourceVersion of SRC, so that all who watched list anew.
    """
    import asyncio

    from kubevouch.phases import store_copy as phase
    from kubevouch.storage.copying.copy import copy
    from kubevouch.util.clock import SystemClock

    folder = _data_dir(data_dir)
    with _placing():
        origin, target = phase.source(source, folder), phase.destination(destination, folder)
    with _told() as told:
        copied = asyncio.run(copy(origin, target, SystemClock(), told, replace=replace))
    _say_copied(copied, str(origin), str(target), output)
    if copied.source_in_use:
        ui.warning(
            f"{origin} is in use: what is written to it from now on is not in the copy; stop its server and run this "
            "again before another one starts from the copy"
        )


@store.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--store", "spec", default="sqlite:", show_default=True, help="As it is given to kubevouch up.")
@_STORE_DIR
@ui.facts_option("file", "store", "created", "revision", "keys", "sha256")
def backup_store(file: Path, spec: str, data_dir: Path | None, output: str) -> None:
    """Write every key of a store to FILE, also while a server uses it.

    FILE is made with the mode 0600 and never overwritten. What is encrypted in the store is so in FILE, and nothing
    else. Keys of CAs, kubeconfigs and the ledger are no part of it; kubevouch backup takes them too.
    """
    import asyncio

    from kubevouch.phases import store_copy as phase
    from kubevouch.util.clock import SystemClock

    with _placing():
        place = phase.destination(spec, _data_dir(data_dir))
    with _told() as told:
        header, end = asyncio.run(phase.backup(place, file, SystemClock(), told))
    if output == "text":
        ui.step(f"backup made: {end.keys} keys at revision {header.revision}", shown(file))
    else:
        facts = {"created": header.created, "revision": header.revision, "keys": end.keys, "sha256": end.sha256}
        ui.document({"file": str(file), "store": str(place)} | facts, output)
    ui.warning(f"{shown(file)} holds every Secret that is not encrypted in the store: whoever reads it has them")


@store.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("destination", metavar="DST")
@click.option(
    "--above",
    type=click.IntRange(min=0),
    metavar="REVISION",
    help="The newest resourceVersion that anybody may have seen.  [default: far above that of FILE]",
)
@_STORE_DIR
@_REPLACE
@ui.facts_option("source", "destination", *_COPY_FACTS)
def restore_store(
    file: Path, destination: str, above: int | None, data_dir: Path | None, replace: bool, output: str
) -> None:
    """Have the store DST hold what FILE does, a file of kubevouch store backup, and compare them.

    Stop every server that uses DST first. A run that was ended is gone on with by the same command.

    DST goes on above REVISION and above all resourceVersions of FILE, so that all who watched list anew.
    """
    import asyncio

    from kubevouch.phases import store_copy as phase
    from kubevouch.storage.copying.backup_file import BackupFile
    from kubevouch.util.clock import SystemClock

    with _placing():
        target = phase.destination(destination, _data_dir(data_dir))
    with _told() as told:
        copied = asyncio.run(phase.restore(BackupFile(file), target, SystemClock(), told, replace=replace, above=above))
    _say_copied(copied, str(file), str(target), output)


def _data_dir(data_dir: Path | None) -> Path:
    from kubevouch.standalone.options import default_data_dir

    return data_dir or default_data_dir()


@contextmanager
def _placing() -> Iterator[None]:
    from kubevouch.storage.options import InvalidStoreSpec

    try:
        yield
    except InvalidStoreSpec as err:
        raise ui.CLIError(str(err), code=ExitCode.INVALID) from err


@contextmanager
def _told() -> Iterator[Callable[[Progress | int], None]]:
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


# ------------------------------------------------------------------ looking through it


@store.command("inspect")
@click.argument("key", metavar="KEY|PREFIX", required=False, default="")
@click.option("--store", "spec", default="sqlite:", show_default=True, help="As for kubevouch up, or FILE.")
@_STORE_DIR
@click.option("--show-secrets", is_flag=True, help="Show what is in Secrets.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml", "raw"]),
    default="text",
    show_default=True,
    help="Format of the object, or of the list; raw is the value as it is stored.",
)
def inspect(key: str, spec: str, data_dir: Path | None, show_secrets: bool, output: str) -> None:
    """Show what a store, or a file of kubevouch store backup, keeps under a key, also while a server uses it.

    A key is shown with its object, whoever wrote it and in whatever form; if there is none of that name, the keys that
    begin so are listed. Without KEY the kinds are counted. /registry/ need not be typed.
    """
    import asyncio

    from kubevouch.phases import store_copy
    from kubevouch.phases import store_inspection as phase
    from kubevouch.util.clock import SystemClock

    with _placing():
        place = store_copy.source(spec, _data_dir(data_dir))
    wanted = phase.whole_key(key) if key else ""
    found = asyncio.run(phase.look(place, wanted, SystemClock()))
    if found.exact is not None:
        _show(found.exact, show_secrets, output)
    elif output == "raw":
        raise ui.CLIError(f"got {wanted}, expected the whole key of a value", code=ExitCode.INVALID)
    elif not found.keys and key:
        raise ui.CLIError(f"{place} has no key that begins with {wanted}", hint="without a key, all kinds are listed")
    elif key:
        _list(found.keys, output)
    else:
        _count(found.keys, output)


def _show(record: Record, show_secrets: bool, output: str) -> None:
    from kubevouch.phases import store_inspection as phase

    read = phase.read(record.key, record.value)
    is_hidden = phase.is_secret(record.key, read) and not show_secrets
    if output == "raw":
        if is_hidden:
            raise ui.CLIError(f"{record.key} is a Secret", hint="--show-secrets shows it", code=ExitCode.INVALID)
        if sys.stdout.isatty():
            raise ui.CLIError("got a terminal, expected a file or a pipe for bytes", code=ExitCode.INVALID)
        sys.stdout.buffer.write(record.value)
        return
    if output == "text":
        ui.field("key", record.key)
        ui.field("revision", str(record.revision))
        ui.field("stored as", f"{read.form}, {len(record.value)} bytes")
        if record.expires is not None:
            ui.field("expires", phase.moment(record.expires))
    if read.wrong:
        hint = "kubevouch store inspect -o raw gives the bytes"
        raise ui.CLIError(f"{record.key}: got a value that cannot be shown: {read.wrong}", hint=hint)
    tree = phase.hidden(read.tree) if is_hidden else read.tree
    if output == "text":
        ui.say("")
        ui.raw(ui.yaml_text(tree))
    else:
        ui.document(tree, output)


def _list(keys: Sequence[Listed], output: str) -> None:
    if output != "text":
        ui.document({"keys": [_listed(each) for each in keys]}, output)
        return
    rows = [(each.key, str(each.revision), str(each.bytes), each.form, each.expires) for each in keys]
    ui.lines(ui.table(("KEY", "REVISION", "BYTES", "STORED AS", "EXPIRES"), rows, whole=1))


def _listed(each: Listed) -> dict[str, Any]:
    tree = {"key": each.key, "revision": each.revision, "bytes": each.bytes, "storedAs": each.form}
    return tree | ({"expires": each.expires} if each.expires else {})


def _count(keys: Sequence[Listed], output: str) -> None:
    from kubevouch.phases import store_inspection as phase

    counted = phase.counted(keys)
    if output != "text":
        rows = [
            {"resource": name, "storedAs": form, "keys": one.keys, "bytes": one.bytes} for (name, form), one in counted
        ]
        ui.document({"resources": rows}, output)
        return
    lines = [(name, str(one.keys), str(one.bytes), form) for (name, form), one in counted]
    ui.lines(ui.table(("RESOURCE", "KEYS", "BYTES", "STORED AS"), lines, whole=1))
