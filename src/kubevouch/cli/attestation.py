"""``kubevouch attestation``: what the proofs of machines are held against."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubevouch.phases.attestation_roots import Anchor

_FOLDER = "/etc/kubernetes/kubevouch/attestation"
_SOON = dt.timedelta(days=60)
_COLUMNS = ("NAME", "SUBJECT", "KEY", "NOT AFTER", "STATE", "SHA-256")

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=_FOLDER,
    show_default=True,
    help="Where they are.",
)


@click.group(cls=ui.Group)
def attestation() -> None:
    """Look after what the proofs of machines are held against."""


@attestation.group(cls=ui.Group)
def roots() -> None:
    """Certificates and keys of clouds and makers of hardware, as files that settings name."""


@roots.command("list")
@folder_option
@ui.output_option
def list_roots(folder: Path, output: str) -> None:
    """List them, with when they end."""
    from kubevouch.phases import attestation_roots as phase
    from kubevouch.util.clock import SystemClock

    now = SystemClock().now()
    try:
        found = phase.known(folder)
    except phase.RootsError as err:
        raise ui.CLIError(str(err), hint=err.hint) from err
    if output != "text":
        ui.document([_tree(each) for each in found], output)
    elif found:
        ui.lines(ui.table(_COLUMNS, [(each.name, *_row(each, now)) for each in found], whole=1))
    else:
        ui.say(f"nothing is in {folder}")


@roots.command()
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--keep", is_flag=True, help="Leave what is there beside it, as long as it has not ended.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@folder_option
@ui.facts_option("path", "kept", "added", "removed")
def update(name: str, file: Path, keep: bool, yes: bool, folder: Path, output: str) -> None:
    """Put FILE, or standard input for -, in the place of NAME, once it is what NAME says.

    NAME is aws/REGION/FORM for the certificates with which AWS signs identity documents of a region, PROVIDER/roots,
    PROVIDER/intermediates or PROVIDER/keys for a JWK Set. Compare the SHA-256 with what the cloud publishes.
    """
    from kubevouch.phases import attestation_roots as phase
    from kubevouch.util.clock import SystemClock

    now = SystemClock().now()
    try:
        change = phase.change(folder, name, _contents(file, phase.MAX_BYTES), keep=keep, now=now)
        if output == "text":
            _show(change.kept, change.added, change.removed, now)
        if change.added or change.removed:
            if not yes and not ui.confirmed(f"replace {change.path}?"):
                raise ui.CLIError("aborted; nothing was changed", hint="--yes does not ask")
            phase.write(change)
    except phase.RootsError as err:
        raise ui.CLIError(str(err), hint=err.hint) from err
    if output != "text":
        groups = {"kept": change.kept, "added": change.added, "removed": change.removed}
        tree = {"path": str(change.path), **{key: [_tree(each) for each in some] for key, some in groups.items()}}
        ui.document(tree, output)
    elif change.added or change.removed:
        ui.say(f"wrote {change.path}")
    else:
        ui.say(f"{change.path} has these already")


def _contents(file: Path, most: int) -> bytes:
    from kubevouch.util import files

    if str(file) == "-":
        return sys.stdin.buffer.read(most + 1)
    try:
        return files.read_regular(file, most)
    except OSError as err:
        raise ui.CLIError(f"{file}: {err.strerror or err}") from err


def _show(kept: Sequence[Anchor], added: Sequence[Anchor], removed: Sequence[Anchor], now: dt.datetime) -> None:
    rows = [(sign, *_row(each, now)) for sign, some in (("=", kept), ("+", added), ("-", removed)) for each in some]
    ui.lines(ui.table(("", *_COLUMNS[1:]), rows, whole=1))


def _row(each: Anchor, now: dt.datetime) -> tuple[str, str, str, str, str]:
    until = each.not_after
    state = "ended" if each.ended(now) else "ends soon" if until is not None and until - now < _SOON else "counts"
    return each.subject, each.key, f"{until:%Y-%m-%d}" if until is not None else "", state, each.fingerprint


def _tree(each: Anchor) -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(each)
    return found
