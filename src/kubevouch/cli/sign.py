"""``kubevouch sign``."""

from __future__ import annotations

import asyncio
import datetime as dt
import pwd
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.flags.identity import profile_option
from kubevouch.cli.flags.signing import signing_flags, take_signing
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.standalone.sign import SignOptions

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.option(
    "--socket", type=_FILE, default="/run/kubevouch-sign/sign.sock", show_default=True, help="Unix socket to listen on."
)
@click.option("--ledger", type=_FILE, required=True, help="Ledger of who asks, which is read only.")
@click.option(
    "--user",
    "users",
    multiple=True,
    help="User whose processes may ask, by name or number; again for another one.  [default: this process's own]",
)
@click.option(
    "--state",
    type=_FILE,
    help="File that keeps how far the ledger was seen, so that nothing is signed once it was rewritten.",
)
@click.option(
    "--max-age",
    type=DURATION,
    default="24h",
    show_default=True,
    help="How long ago a request may have been allowed.",
)
@click.option(
    "--only-approvers",
    is_flag=True,
    help="Sign only what an approver of the controllers has approved, and nothing that people approved over the API.",
)
@profile_option
@signing_flags
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What to log to standard error; info has a line for each certificate.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="klog's text, or JSON."
)
def sign(users: tuple[str, ...], max_age: dt.timedelta, log_level: Any, log_format: Any, **flags: Any) -> None:
    """Hold the key of a CA apart from whatever faces the network, and sign what a ledger holds as approved.

    kubevouch up and kubevouch controllers ask it with --signing-socket. What is signed is read from the ledger, and the
    rules of the signer are looked at here, too. Ends cleanly on SIGTERM or Control-C.
    """
    from kubevouch.standalone.sign import SignOptions, SignProcessError
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock

    logs.configure(SystemClock(), level=log_level, form=log_format)
    options = SignOptions(
        signing=take_signing(flags), users=frozenset(map(_user, users)), longest=max_age,
        profile=flags.pop("signing_profile"), **flags,
    )  # fmt: skip
    try:
        run_async(_sign(options))
    except SignProcessError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err


def _user(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 11:
        return int(text)
    try:
        return pwd.getpwnam(text).pw_uid
    except KeyError as err:
        raise ui.CLIError(
            f"got --user {text}, expected a user of this machine", hint="useradd --system makes one",
            code=ExitCode.INVALID,
        ) from err  # fmt: skip


async def _sign(options: SignOptions) -> None:
    from kubevouch.standalone.sign import running
    from kubevouch.util import systemd
    from kubevouch.util.clock import SystemClock

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(options, SystemClock()) as signers:
        ui.field("socket", str(options.socket))
        ui.field("signs for", ", ".join(signers))
        systemd.notify(systemd.READY, systemd.status(f"signs for {len(signers)} signers"))
        await stop.wait()
        systemd.notify(systemd.STOPPING)
        ui.waiting("stopping")
