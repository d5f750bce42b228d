"""``kubevouch reset``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kubevouch.cli import ui
from kubevouch.cli.control_plane_flags import layout_flags, take_layout
from kubevouch.cli.exit_codes import ExitCode

_LEFT = (
    "not touched: running programs, mounts, CNI configuration, iptables and IPVS rules, $HOME/.kube/config, "
    "and the Node object in the cluster"
)


@click.command()
@click.option("-f", "--force", is_flag=True, help="Do not ask.")
@click.option("--cleanup-tmp-dir", is_flag=True, help="Also empty /etc/kubernetes/tmp.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@layout_flags
def reset(force: bool, cleanup_tmp_dir: bool, dry_run: bool, **flags: Any) -> int:
    """Remove what init and join have written on this machine, keys of the cluster included."""
    from kubevouch.phases import reset as phase
    from kubevouch.phases.preflight import Machine

    rootfs: Path | None = flags["rootfs"]
    machine = Machine.here(rootfs)
    if machine.is_live and machine.user_id != 0 and not dry_run:
        raise ui.CLIError("user is not running as root", hint="use sudo, or --rootfs", code=ExitCode.PREFLIGHT)
    found = phase.find(take_layout(flags), machine.root, temporary=cleanup_tmp_dir)
    if not found:
        ui.say("there is nothing to remove")
        return ExitCode.DONE
    for path in found:
        ui.say(f"  {'would remove' if dry_run else 'to remove'} {path}")
    if dry_run:
        return ExitCode.DONE
    if not force and not _confirmed():
        raise ui.CLIError("aborted; nothing was removed", hint="--force does not ask")
    phase.remove(found)
    ui.step(f"{len(found)} files and folders removed")
    ui.say(f"  {_LEFT}")
    return ExitCode.DONE


def _confirmed() -> bool:
    try:
        return click.confirm("Are you sure you want to proceed?", default=False, err=True)
    except click.Abort:  # nobody is there to answer
        click.echo(err=True)
        return False
