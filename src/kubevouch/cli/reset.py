"""``kubevouch reset``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.control_plane import layout_flags, take_layout

_LEFT = (
    "not touched: running programs, mounts, CNI configuration, iptables and IPVS rules, $HOME/.kube/config, "
    "and the Node object in the cluster"
)


@click.command()
@click.option("-f", "--force", is_flag=True, help="Do not ask.")
@click.option("--cleanup-tmp-dir", is_flag=True, help="Also empty /etc/kubernetes/tmp.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@ui.output_option
@layout_flags
def reset(force: bool, cleanup_tmp_dir: bool, dry_run: bool, output: str, **flags: Any) -> int:
    """Remove what init and join have written on this machine, keys of the cluster included."""
    from kubevouch.phases import reset as phase

    rootfs: Path | None = flags["rootfs"]
    if rootfs is None and os.geteuid() != 0 and not dry_run:
        raise ui.CLIError("user is not running as root", hint="use sudo, or --rootfs", code=ExitCode.PREFLIGHT)
    found = phase.find(take_layout(flags), rootfs or Path("/"), temporary=cleanup_tmp_dir)
    if output != "text":
        return _quietly(found, output, force=force, dry_run=dry_run)
    if not found:
        ui.say("there is nothing to remove")
        return ExitCode.DONE
    for path in found:
        ui.say(f"  {'would remove' if dry_run else 'to remove'} {path}")
    if dry_run:
        return ExitCode.DONE
    if not force and not ui.confirmed("Are you sure you want to proceed?"):
        raise ui.CLIError("aborted; nothing was removed", hint="--force does not ask")
    phase.remove(found)
    ui.step(f"{len(found)} files and folders removed")
    ui.say(f"  {_LEFT}")
    return ExitCode.DONE


def _quietly(found: list[Path], output: str, *, force: bool, dry_run: bool) -> int:
    """For a script, which is not asked."""
    from kubevouch.phases import reset as phase

    if not (force or dry_run):
        raise ui.CLIError(f"got -o {output}, expected --force or --dry-run beside it", code=ExitCode.INVALID)
    if not dry_run:
        phase.remove(found)
    ui.document({"wouldRemove" if dry_run else "removed": [str(path) for path in found]}, output)
    return ExitCode.DONE
