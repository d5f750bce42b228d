"""``kubevouch backup`` and ``kubevouch restore``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.etcd import etcd_access_flags, take_etcd_access
from kubevouch.cli.flags.paths import FOLDER, shown
from kubevouch.cli.runner import run_async
from kubevouch.cli.store_copy import ABOVE, REPLACE, naming, telling

if TYPE_CHECKING:
    from kubevouch.phases.backup import Fill, Manifest
    from kubevouch.storage.etcd.options import EtcdOptions

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("file", type=_FILE)
@click.option("--data-dir", type=FOLDER, help="Where the cluster lives.  [default: as for kubevouch up]")
@click.option("--store", default="sqlite:", show_default=True, help="As it is given to kubevouch up.")
@etcd_access_flags
@ui.output_option
def backup(file: Path, data_dir: Path | None, store: str, output: str, **flags: Any) -> None:
    """Copy store, certificates, keys and kubeconfigs of a cluster to FILE, also while it runs.

    FILE is made with the mode 0600 and never overwritten. It is not encrypted.
    """
    from kubevouch.phases import backup as phase
    from kubevouch.standalone.options import default_data_dir
    from kubevouch.storage.options import InvalidStoreSpec, parse_store
    from kubevouch.util.clock import SystemClock

    folder = data_dir or default_data_dir()
    try:
        spec = parse_store(store, folder, take_etcd_access(flags))
    except InvalidStoreSpec as err:
        raise ui.CLIError(str(err), code=ExitCode.INVALID) from err
    try:
        made = phase.backup(folder, spec, file, SystemClock().now())
    except phase.BackupError as err:
        raise ui.CLIError(str(err), hint=err.hint) from err
    if output == "text":
        ui.step(f"backup made: {len(made.files)} files, the store at revision {made.revision}", shown(file))
    else:
        ui.document(_tree(made) | {"file": str(file)}, output)
    _warn(file, made)


@click.command()
@click.argument("file", type=_FILE)
@click.option("--data-dir", type=FOLDER, help="The folder to make.  [default: as for kubevouch up]")
@click.option("--store", help="The store to fill, such as etcd://HOST:PORT.  [default: a file in that folder]")
@ABOVE
@REPLACE
@etcd_access_flags
@ui.output_option
def restore(
    file: Path,
    data_dir: Path | None,
    store: str | None,
    above: int | None,
    replace: bool,
    output: str,
    **flags: Any,
) -> None:
    """Make a data directory from a backup, and its store in it or elsewhere.

    A directory that exists is refused. The store goes on at a resourceVersion that nobody has seen, so that watches and
    caches of before begin anew.
    """
    from kubevouch.phases import backup as phase
    from kubevouch.standalone.options import default_data_dir
    from kubevouch.util.clock import SystemClock

    folder = data_dir or default_data_dir()
    fill = None if store is None else _filling(store, folder, take_etcd_access(flags), above, replace)
    if fill is None and (above is not None or replace):
        raise click.UsageError("got --above or --replace without --store; a folder is made anew, far above")
    try:
        done = phase.restore(file, folder, SystemClock().now(), fill)
    except phase.BackupError as err:
        raise ui.CLIError(str(err), hint=err.hint) from err
    if output == "text":
        ui.step(f"restored: the cluster of {done.manifest.created}", shown(folder))
        ui.step(f"the store goes on at revision {done.revision}, after {done.manifest.revision}")
        ui.say(f"  kubevouch up --data-dir {shown(folder)}{'' if store is None else f' --store {store}'}")
    else:
        ui.document(_tree(done.manifest) | {"dataDir": str(folder), "goesOnAt": done.revision}, output)
    # Two are one cluster to whoever reaches either: a name is given twice, what one denies the other grants.
    ui.warning(
        "if the server that the backup was made from still runs, stop it before you start this one, and keep it "
        "stopped: with the same CA they would give one name to two machines, and neither would know what the other has "
        "denied"
    )
    _warn(folder, done.manifest)


def _filling(store: str, folder: Path, etcd: EtcdOptions, above: int | None, replace: bool) -> Fill:
    from kubevouch.phases import store_copy
    from kubevouch.storage.interface import Revision
    from kubevouch.util.clock import SystemClock

    with naming():
        place = store_copy.destination(store, folder, etcd)

    def fill(path: Path) -> Revision:
        with telling() as told:
            copied = run_async(store_copy.restore_file(path, place, SystemClock(), told, replace=replace, above=above))
        return Revision(copied.revision)

    return fill


def _warn(place: Path, manifest: Manifest) -> None:
    from kubevouch.phases.backup import is_secret

    count = sum(map(is_secret, manifest.files))
    ui.warning(
        f"{shown(place)} holds {count} files of secrets (keys of the CAs, Secrets, the administrator's credentials), "
        "not encrypted: whoever reads it is the cluster"
    )


def _tree(manifest: Manifest) -> dict[str, Any]:
    return {"created": manifest.created, "revision": manifest.revision, "files": sorted(manifest.files)}
