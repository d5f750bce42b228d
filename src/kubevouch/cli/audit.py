"""``kubevouch audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.ledger import CLUSTER, ledger_flags, signed_ledger_path, with_cluster

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_KEY = click.option(
    "--key", default="", help="Whose signatures count, NAME+HASH+KEY or a file with it.  [default: the key beside the"
    " ledger]",
)  # fmt: skip
_CHECKPOINTS = click.option(
    "--checkpoint", "kept", type=_FILE, multiple=True, help="A file with a checkpoint that was kept elsewhere."
)


@click.group(cls=ui.Group)
def audit() -> None:
    """Show that the ledger is what was written, and what is in it, also to who has no ledger."""


@audit.command()
@ledger_flags
@_KEY
@_CHECKPOINTS
@click.option("--proof", type=_FILE, help="Look at this proof, and at no ledger; with --key.")
@ui.facts_option("whole", "entries", "checkpoints", "findings", "key", "keySource")
def verify(
    ledger: Path | str | None, data_dir: Path | None, key: str, kept: tuple[Path, ...], proof: Path | None, output: str
) -> int:
    """Look at every entry, at what ties it to those before it, and at every checkpoint. Nothing is changed.

    Ends with 0 if nothing was changed, taken out or put into another order, else with 1. Only a checkpoint that was
    kept elsewhere shows that nobody who has the ledger's key has written it anew, or cut it back.
    """
    from kubevouch.ledger.verification import PROGRESS
    from kubevouch.phases import ledger_audit

    if proof is not None:
        return _verify_proof(proof, key, kept, output)
    if ledger == CLUSTER:
        return _verify_cluster(has_keys=bool(key or kept), output=output)
    path = signed_ledger_path(ledger, data_dir)
    known = ledger_audit.key_for(path, key)

    def tell(entry: int) -> None:
        if ui.shows_progress():
            ui.progress(entry // PROGRESS, f"{entry} entries")

    try:
        report = ledger_audit.verify(path, known.key, kept, tell)
    finally:
        if ui.shows_progress():
            ui.no_progress()
    if output != "text":
        tree: dict[str, Any] = {
            "whole": not report.findings,
            "entries": report.size,
            "checkpoints": report.checkpoints,
            "findings": report.findings,
            "key": str(known.key),
            "keySource": known.source,
        }
        ui.document(tree, output)
    else:
        for finding in report.findings:
            ui.say(f"  {ui.one_line(finding)}")
        if not report.findings:
            ui.say(f"whole: {report.size} entries, {report.checkpoints} checkpoints")
            if known.is_the_ledgers_word:
                ui.warning("whose signatures count was told by the file itself; --key says it for sure")
            if not report.is_marked:
                ui.aside("no mark beside the file says how far it once was: entries may be lost at its end")
            if not kept:
                ui.aside("a checkpoint kept elsewhere shows more: --checkpoint")
    if not report.findings:
        return ExitCode.DONE
    count = f"{len(report.findings)} finding{'s' * (len(report.findings) > 1)}"
    raise ui.CLIError(f"{path} is not what was written: {count}", hint="keep this file, and restore a backup")


def _verify_cluster(*, has_keys: bool, output: str) -> int:
    from kubevouch.ledger.interface import LedgerDamaged
    from kubevouch.phases.cluster_ledger import read

    if has_keys:
        raise click.UsageError(
            "the ledger in the cluster has no key and no checkpoints; leave --key and --checkpoint out"
        )
    tree: dict[str, Any] = {"whole": True, "entries": 0, "checkpoints": 0, "findings": [], "key": "", "keySource": ""}
    try:
        loaded = with_cluster(read)
    except LedgerDamaged as err:
        if output != "text":
            ui.document({**tree, "whole": False, "findings": [str(err)]}, output)
        raise
    if output != "text":
        ui.document({**tree, "entries": loaded.position.size}, output)
        return ExitCode.DONE
    noted = "its head is noted nowhere" if loaded.noted is None else f"the head was noted at {loaded.noted.size}"
    ui.say(f"whole: {loaded.position.size} entries; {noted}")
    return ExitCode.DONE


def _verify_proof(proof: Path, key: str, kept: tuple[Path, ...], output: str) -> int:
    from kubevouch.ledger.proof_text import Inclusion
    from kubevouch.phases import ledger_audit

    if not key:
        raise click.UsageError("--proof needs --key: whose signatures count is not for the proof to say")
    known = ledger_audit.parse_key(key)
    shown = ledger_audit.verify_proof(proof, known, kept)
    if isinstance(shown, Inclusion):
        entry = shown.entry
        about = f"entry {shown.sequence} of {shown.checkpoint.size}: {entry.kind} {entry.serial} {entry.subject}"
        size = shown.checkpoint.size
    else:
        size = shown.later.size
        about = f"the ledger of {shown.former.size} entries went on to {size}, and nothing in it was changed"
    if output != "text":
        ui.document(
            {"whole": True, "entries": size, "checkpoints": 1, "findings": [], "key": str(known), "keySource": "given"},
            output,
        )
    else:
        ui.say(f"proven: {about}")
    return ExitCode.DONE


@audit.command()
@click.argument("serial", required=False)
@ledger_flags
@_KEY
@click.option("--since", "former", type=_FILE, help="In place of SERIAL: a checkpoint that was kept elsewhere.")
def prove(serial: str | None, ledger: Path | None, data_dir: Path | None, key: str, former: Path | None) -> None:
    """Print a proof that a certificate is in the ledger, or that the ledger went on from a checkpoint.

    Who has the ledger's key checks it with kubevouch audit verify --proof, without the ledger.
    """
    from kubevouch.cli.issued import digits_of
    from kubevouch.phases import ledger_audit

    if (serial is None) == (former is None):
        raise click.UsageError("got neither or both of SERIAL and --since, expected one of them")
    digits = "" if serial is None else digits_of(serial)
    path = signed_ledger_path(ledger, data_dir)
    if former is not None:
        ui.raw(ledger_audit.prove_growth(path, former, ledger_audit.key_for(path, key).key))
    else:
        ui.raw(ledger_audit.prove(path, digits))


@audit.command()
@ledger_flags
@ui.facts_option("checkpoint", "key")
def checkpoint(ledger: Path | None, data_dir: Path | None, output: str) -> None:
    """Print the newest checkpoint, to be kept where nobody can change it who can change the ledger."""
    from kubevouch.phases import ledger_audit

    path = signed_ledger_path(ledger, data_dir)
    note, key = ledger_audit.newest_checkpoint(path), ledger_audit.key_for(path, "").key
    if output != "text":
        ui.document({"checkpoint": note, "key": str(key)}, output)
    else:
        ui.raw(note)
        ui.aside(f"its key is {key}")
