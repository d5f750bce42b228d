"""``kubevouch issued``."""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.flags import together
from kubevouch.cli.flags.ledger import ledger_flags, ledger_path, signed_ledger_path
from kubevouch.cli.flags.moments import LONG_DURATION, MOMENT, Moment, before

if TYPE_CHECKING:
    from kubevouch.ledger.entries import Entry, Query, Recorded

_LIMIT = click.IntRange(1, 1_000_000)
_HEX = re.compile(r"[0-9a-f]+", re.ASCII)
# Those of ledger.entries, which would be loaded for --help; a test compares.
KINDS = (
    "approved", "denied", "intended", "issued", "failed", "discarded", "revoked", "policy", "in-force",
    "released", "put-back", "begun", "restored", "all",
)  # fmt: skip
_COLUMNS = ("SERIAL", "SUBJECT", "SIGNER", "REQUESTER", "ISSUED", "ENDS")
_CSV = (
    "sequence", "kind", "at", "signer", "request", "uid", "requester", "approver", "reason", "message", "serial",
    "issuer_key", "subject", "names", "node", "token", "key", "not_before", "not_after",
)  # fmt: skip
_OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml", "csv"]),
    default="text",
    show_default=True,
    help="Format; a document has the keys entries, more.",
)
_FILTERS = together(
    click.option("--node", help="Of this node."),
    click.option("--name", "name", help="With this name: the common name, or an alternative one."),
    click.option("--serial", help="With this serial number, in hexadecimal digits; colons may be between them."),
    click.option("--requester", help="Asked for by this user."),
    click.option("--key", help="For this key: SHA-256 of its SubjectPublicKeyInfo, in hexadecimal digits."),
    click.option("--token", help="Let in by the bootstrap token with this ID."),
    click.option("--signer", help="By this signer."),
    click.option("--request", help="For the request with this name."),
    click.option("--since", type=MOMENT, help="Written since then: 30d, 2026-01-02."),
    click.option("--until", type=MOMENT, help="Written before then."),
    click.option(
        "--kind", "kinds", type=click.Choice(KINDS), multiple=True,
        help="Entries of these kinds, not of certificates issued; or all.",
    ),
)  # fmt: skip


@click.group(cls=ui.Group)
def issued() -> None:
    """Look at which certificates were issued: by the ledger, also while kubevouch up writes it.

    What another program has signed is not in it, such as kube-controller-manager: kubectl get csr shows the last hour.
    """


@issued.command("list")
@ledger_flags
@_FILTERS
@click.option("--limit", type=_LIMIT, default=100, show_default=True, help="Entries at most, the newest first.")
@click.option("--before", "before_sequence", type=click.IntRange(0), help="Entries before this one: the next page.")
@_OUTPUT
def list_command(
    ledger: Path | None, data_dir: Path | None, limit: int, before_sequence: int | None, output: str, **filters: Any
) -> None:
    """List what was issued, the newest first."""
    from kubevouch.phases.issued import pages

    path = ledger_path(ledger, data_dir)
    query = _query(filters, newest_first=True, limit=limit + 1, before=before_sequence)
    found = list(pages(path, query))
    more = found[limit - 1].sequence if len(found) > limit else None
    _show(found[:limit], output, more)


@issued.command()
@click.argument("serial")
@ledger_flags
@ui.facts_option("serial", "standing", "entries")
def show(serial: str, ledger: Path | None, data_dir: Path | None, output: str) -> None:
    """Show all that is known of a certificate: who asked, who approved and why, and what became of it."""
    from kubevouch.phases.issued import standing, story
    from kubevouch.util.clock import SystemClock

    digits = digits_of(serial)
    path = ledger_path(ledger, data_dir)
    found = story(path, digits)
    if not found:
        raise ui.CLIError(f"no certificate with the serial number {digits} is in {path}", hint=_LOOK)
    state = standing(found, digits, SystemClock().now())
    if output != "text":
        ui.document({"serial": digits, "standing": state, "entries": [_tree(each) for each in found]}, output)
        return
    ui.say(f"{digits} is {state}")
    for each in found:
        ui.say("")
        for label, value in _story(each):
            ui.field(label, value)


_LOOK = "kubevouch issued list --name finds one by a name in it"


@issued.command()
@click.argument("serial")
@ledger_flags
def receipt(serial: str, ledger: Path | None, data_dir: Path | None) -> None:
    """Print a signed receipt: by what evidence, rules and decision a certificate was given.

    An in-toto statement in a DSSE envelope, under the ledger's key; kubevouch verify receipt checks it anywhere.
    """
    from kubevouch.phases import receipts

    ui.raw(receipts.make(signed_ledger_path(ledger, data_dir), digits_of(serial)))


@issued.command()
@click.option("--within", type=LONG_DURATION, default="30d", show_default=True, help="How soon they end.")
@ledger_flags
@click.option("--limit", type=_LIMIT, default=10_000, show_default=True, help="Certificates to look at, at most.")
@_OUTPUT
def expiring(within: dt.timedelta, ledger: Path | None, data_dir: Path | None, limit: int, output: str) -> None:
    """List certificates that end soon and that none has followed, the soonest first."""
    from kubevouch.phases.issued import expiring as ending
    from kubevouch.util.clock import SystemClock

    path = ledger_path(ledger, data_dir)
    _show(ending(path, SystemClock().now(), within, limit), output, None)


@issued.command()
@ledger_flags
@_FILTERS
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True)
@click.option("--after", type=click.IntRange(-1), default=-1, help="Entries behind this one: what is new since then.")
def export(ledger: Path | None, data_dir: Path | None, form: str, after: int, **filters: Any) -> None:
    """Print entries for other programs, the oldest first, each on a line."""
    import msgspec

    from kubevouch.phases.issued import pages

    found = pages(ledger_path(ledger, data_dir), _query(filters, after=after, limit=1 << 62))
    if form == "csv":
        for line in _csv(found):
            ui.raw(line)
        return
    for each in found:
        ui.raw(msgspec.json.encode({"sequence": each.sequence} | _entry_tree(each.entry)).decode() + "\n")


def _query(filters: dict[str, Any], **more: Any) -> Query:
    from kubevouch.ledger.entries import ISSUED, Query
    from kubevouch.util.clock import SystemClock

    now = SystemClock().now()
    since, until, kinds = (filters.pop(name) for name in ("since", "until", "kinds"))
    given = {name: value for name, value in filters.items() if value}
    for name, what in (("serial", "a serial number"), ("key", "the SHA-256 of a public key")):
        if name in given:
            given[name] = digits_of(given[name], what)
    chosen = frozenset(kinds) or frozenset({ISSUED})
    try:
        times: dict[str, Moment | None] = {"since": before(since, now), "until": before(until, now)}
    except OverflowError as err:
        raise click.UsageError("got a time before the first year") from err
    return Query(kinds=frozenset() if "all" in chosen else chosen, **times, **given, **more)  # type: ignore[arg-type]


def digits_of(text: str, what: str = "a serial number") -> str:
    """As the ledger has them. Raises BadParameter."""
    digits = text.replace(":", "").lower()
    if not _HEX.fullmatch(digits.removeprefix("0x")):
        raise click.BadParameter(f"got {text[:80]!r}, expected {what} in hexadecimal digits")
    return digits.removeprefix("0x").lstrip("0") or "0" if len(digits) != 64 else digits


def _show(found: list[Recorded], output: str, more: int | None) -> None:
    if output == "csv":
        for line in _csv(found):
            ui.raw(line)
    elif output != "text":
        ui.document({"entries": [_tree(each) for each in found], "more": more is not None}, output)
    elif not found:
        ui.say("none")
    else:
        ui.lines(ui.table(_COLUMNS, [_row(each.entry) for each in found], whole=1))
    if more is not None and output == "text":
        ui.aside(f"there are more: --before {more}")


def _row(entry: Entry) -> tuple[str, ...]:
    signer = entry.signer.removeprefix("kubernetes.io/")
    serial = entry.serial or entry.kind
    # Decisions are about objects, not certificates.
    subject = f"{entry.resource}/{entry.request}" if entry.resource else entry.subject
    return (serial, subject, signer, entry.requester, _time(entry.at), _time(entry.not_after))


def _time(moment: dt.datetime | None) -> str:
    return "" if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _story(each: Recorded) -> Iterator[tuple[str, str]]:
    entry = each.entry
    yield entry.kind, f"{_time(entry.at)}, entry {each.sequence}"
    for label, value in (
        ("request", entry.request), ("requester", entry.requester), ("signer", entry.signer),
        ("approver", entry.approver), ("reason", entry.reason), ("message", entry.message), ("serial", entry.serial),
        ("subject", entry.subject), ("names", ", ".join(entry.names)), ("key", entry.key), ("token", entry.token),
        ("ends", _time(entry.not_after)),
    ):  # fmt: skip
        if value:
            yield label, value


def _tree(each: Recorded) -> dict[str, Any]:
    return {"sequence": each.sequence} | _entry_tree(each.entry)


def _entry_tree(entry: Entry) -> dict[str, Any]:
    import msgspec

    tree: dict[str, Any] = msgspec.to_builtins(entry)
    return tree


def _csv(found: Iterable[Recorded]) -> Iterator[str]:
    yield _line(_CSV)
    for each in found:
        entry = each.entry
        values = (getattr(entry, name) for name in _CSV[1:])
        yield _line([str(each.sequence), *map(_cell, values)])


def _cell(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return _time(value)
    text = " ".join(value) if isinstance(value, tuple) else str(value or "")
    # A name such as =HYPERLINK(…) is a formula to who opens the file with a spreadsheet.
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _line(cells: Iterable[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
