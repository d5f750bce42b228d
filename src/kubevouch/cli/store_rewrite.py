"""``kubevouch store rewrite``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.encryption import configuration_option, refusing
from kubevouch.cli.flags.etcd import etcd_access_flags, take_etcd_access
from kubevouch.cli.runner import run_async
from kubevouch.cli.store_copy import DATA_DIR, data_dir_of, naming

if TYPE_CHECKING:
    from kubevouch.storage.copying.copy import Destination
    from kubevouch.storage.encryption.rewriting import Rewritten


@click.command()
@click.argument("spec", metavar="STORE", default="sqlite:")
@configuration_option("That of the servers, with every key that anything was written with.", required=True)
@DATA_DIR
@etcd_access_flags
@ui.facts_option("store", "revision", "lookedAt", "rewritten", "unreadable")
def rewrite(spec: str, config: Path, data_dir: Path | None, output: str, **flags: Any) -> int:
    """Write every value of a store again that the configuration would encrypt in another way by now.

    After it the keys that stand behind the first of each resource are needed no more, nor, with identity in front, any
    key. STORE is given as to kubevouch up --store; of a file nobody may use it, on etcd servers may go on. A run that
    was ended is gone on with by the same command.

    Ends with 1 if a value cannot be decrypted; all others are rewritten.
    """
    from kubevouch.phases.store_copy import destination
    from kubevouch.storage.interface import EncryptionFailed, StoreInUse

    with naming():
        place = destination(spec, data_dir_of(data_dir), take_etcd_access(flags))
    try:
        with refusing():
            done = run_async(_rewrite(place, config))
    except StoreInUse as err:
        hint = "stop its server first, or let kubectl get and kubectl replace rewrite what it serves"
        raise ui.CLIError(str(err), hint=hint, code=ExitCode.PREFLIGHT) from err
    except EncryptionFailed as err:
        raise ui.CLIError(f"a value cannot be encrypted: {err}", hint="run this again, it goes on") from err
    _say(done, str(place), output)
    if done.unreadable_count:
        count = f"{done.unreadable_count} value{'s' * (done.unreadable_count > 1)}"
        raise ui.CLIError(f"{place} holds {count} that cannot be decrypted", hint="give the configuration their keys")
    return ExitCode.DONE


async def _rewrite(place: Destination, config: Path) -> Rewritten:
    from kubevouch.standalone.encryption import EncryptionAtRest
    from kubevouch.storage.encryption.rewriting import rewrite
    from kubevouch.storage.sqlite.place import SQLitePlace
    from kubevouch.util.clock import SystemClock

    turn = 0
    shows = ui.shows_progress()

    def told(done: int, of: int) -> None:
        nonlocal turn
        if shows:
            turn += 1
            ui.progress(turn, f"{done} of {of} values rewritten" if of else f"{done} values looked at")

    clock = SystemClock()
    at_rest = EncryptionAtRest(config, clock, reloads=False)
    try:
        async with at_rest.running():
            shared = not isinstance(place, SQLitePlace)
            return await rewrite(place, at_rest.encryption, clock, told, shared=shared)
    finally:
        if shows:
            ui.no_progress()


def _say(done: Rewritten, store: str, output: str) -> None:
    if output != "text":
        tree = {
            "store": store, "revision": done.revision, "lookedAt": done.looked_at, "rewritten": done.rewritten,
            "unreadable": done.unreadable_count,
        }  # fmt: skip
        ui.document(tree, output)
        return
    ui.step(f"{done.rewritten} of {done.looked_at} values rewritten in {store}, now at revision {done.revision}")
    for key, why in done.unreadable:
        ui.say(f"  {ui.one_line(key)}: {ui.one_line(why)}")
