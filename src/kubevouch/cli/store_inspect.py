"""``kubevouch store inspect``."""

from __future__ import annotations

from collections.abc import Sequence
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
    from kubevouch.phases.store_inspection import Listed
    from kubevouch.storage.snapshot import Record


@click.command("inspect")
@click.argument("key", metavar="KEY|PREFIX", required=False, default="")
@click.option("--store", "spec", default="sqlite:", show_default=True, help="As for kubevouch up, or FILE.")
@DATA_DIR
@etcd_access_flags
@configuration_option("EncryptionConfiguration whose keys decrypt the object.")
@click.option("--show-secrets", is_flag=True, help="Show what is in Secrets.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml", "raw"]),
    default="text",
    show_default=True,
    help="Format of the object, or of the list; raw is the value as it is stored.",
)
def inspect(
    key: str, spec: str, data_dir: Path | None, config: Path | None, show_secrets: bool, output: str, **flags: Any
) -> None:
    """Show what a store, or a file of kubevouch store backup, keeps under a key, also while a server uses it.

    A key is shown with its object, whoever wrote it and in whatever form; if there is none of that name, the keys that
    begin so are listed. Without KEY the kinds are counted. /registry/ need not be typed.
    """
    from kubevouch.phases import store_copy
    from kubevouch.phases import store_inspection as phase
    from kubevouch.util.clock import SystemClock

    with naming():
        place = store_copy.source(spec, data_dir_of(data_dir), take_etcd_access(flags))
    wanted = phase.whole_key(key) if key else ""
    found = run_async(phase.look(place, wanted, SystemClock()))
    if found.exact is not None:
        plain = None
        if config is not None and output != "raw":
            with refusing():
                plain = run_async(_decrypted(found.exact, config, f"{found.prefix}/"))
        _show(found.exact, plain, show_secrets, output)
    elif output == "raw":
        raise ui.CLIError(f"got {wanted}, expected the whole key of a value", code=ExitCode.INVALID)
    elif not found.keys and key:
        raise ui.CLIError(f"{place} has no key that begins with {wanted}", hint="without a key, all kinds are listed")
    elif key:
        _list(found.keys, output)
    else:
        _count(found.keys, output)


async def _decrypted(record: Record, config: Path, root: str) -> bytes:
    from kubevouch.standalone.encryption import EncryptionAtRest
    from kubevouch.storage.encryption.interface import TransformError
    from kubevouch.util.clock import SystemClock

    at_rest = EncryptionAtRest(config, SystemClock(), reloads=False, root=root)
    try:
        return (await at_rest.encryption.read(record.key, record.value)).plain
    except TransformError as err:
        hint = "give the configuration the key that it was encrypted with"
        raise ui.CLIError(f"{record.key}: got a value that cannot be decrypted: {err}", hint=hint) from err
    finally:
        await at_rest.close()


def _show(record: Record, plain: bytes | None, show_secrets: bool, output: str) -> None:
    """``plain``: its value, decrypted."""
    from kubevouch.phases import store_inspection as phase

    read = phase.read(record.key, record.value if plain is None else plain)
    is_hidden = phase.is_secret(record.key, read) and not show_secrets
    if output == "raw":
        if is_hidden:
            raise ui.CLIError(f"{record.key} is a Secret", hint="--show-secrets shows it", code=ExitCode.INVALID)
        ui.octets(record.value)
        return
    if output == "text":
        ui.field("key", record.key)
        ui.field("revision", str(record.revision))
        ui.field("stored as", f"{phase.form_of(record.value)}, {len(record.value)} bytes")
        if record.expires is not None:
            ui.field("expires", phase.moment(record.expires))
    if read.wrong:
        hint = "kubevouch store inspect -o raw gives the bytes"
        if read.form.startswith("encrypted"):
            hint = "--encryption-provider-config FILE decrypts it"
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
