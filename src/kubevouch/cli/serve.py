"""``kubevouch serve``."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.aiohttp_import import load_aiohttp
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.access import take_access
from kubevouch.cli.flags.approval import approval_flags
from kubevouch.cli.flags.audit import take_audit
from kubevouch.cli.flags.cluster_api import cluster_api_flags
from kubevouch.cli.flags.encryption import take_encryption
from kubevouch.cli.flags.etcd import take_etcd
from kubevouch.cli.flags.groups import UpCommand
from kubevouch.cli.flags.identity import identity_flags
from kubevouch.cli.flags.recovery import take_recovery
from kubevouch.cli.flags.server import apply_feature_gates, take_disabled_admission, take_server, verbose
from kubevouch.cli.flags.service_account import take_service_accounts
from kubevouch.cli.flags.signing import signing_flags
from kubevouch.cli.runner import run_async
from kubevouch.cli.up import forks_of, keep_what_was_made, settle_in, tell_moved, until_told, up
from kubevouch.standalone import options as settings
from kubevouch.util.collector import loading

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from kubevouch.standalone.data_directory import Prepared


def _of_controllers() -> Set[str | None]:
    """The names of what controllers are told."""
    command = click.Command("controllers")
    for add in (identity_flags, approval_flags, cluster_api_flags, signing_flags):
        add(command)
    more = ("token_ttl", "no_token", "controllers", "node_monitor_grace_period")
    return {*(param.name for param in command.params), *more}


_OF_CONTROLLERS = _of_controllers()


@click.command(cls=UpCommand, params=[each for each in up.params if each.name not in _OF_CONTROLLERS])
def serve(data_dir: Path | None, log_level: Any, log_format: Any, **flags: Any) -> None:
    """Run one of several API servers of a cluster on etcd, without controllers.

    All of them have in their data directory, or by --certificate-key, the files that servers of a cluster share; each
    makes the rest. Controllers run beside them: kubevouch controllers, or kubevouch up on one machine or more. Ends
    cleanly on SIGTERM or Control-C.
    """
    with loading():
        load_aiohttp()
        from kubevouch.standalone.serve import serving
    from kubevouch.standalone.errors import InvalidOptionsError, NotHereError
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock

    clock = SystemClock()
    logs.configure(clock, level=verbose(log_level, flags["verbosity"]), form=log_format)
    try:
        apply_feature_gates(flags)
        options = settings.StandaloneOptions(
            data_dir=data_dir or settings.default_data_dir(), token_ttl=None, controllers=(),
            access=take_access(flags), audit=take_audit(flags), server=take_server(flags),
            service_accounts=take_service_accounts(flags), disabled_admission=take_disabled_admission(flags),
            recovery=take_recovery(flags), encryption=take_encryption(flags), etcd=take_etcd(flags),
            **flags,
        )  # fmt: skip
        run_async(_serve(serving(options, clock, forks_of(options, clock))))
    except InvalidOptionsError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
    except NotHereError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.PREFLIGHT) from err


async def _serve(serving: AbstractAsyncContextManager[Prepared]) -> None:
    stop = settle_in()
    async with serving as served:
        keep_what_was_made()
        ui.field("ready", served.server.endpoint.url)
        tell_moved(served.moved)
        await until_told(served.server.endpoint.url, stop)
