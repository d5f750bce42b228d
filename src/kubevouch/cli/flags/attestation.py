"""The flags that say by which methods a machine proves what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags import together

if TYPE_CHECKING:
    from kubevouch.agent.attestation_settings import AttestationSettings


def attestation_options(flag: str) -> Callable[[Any], Any]:
    """``--attest``, ``--attest-setting``; ``--provider``, ``--provider-setting``. Parameters of the command are then
    ``methods``, ``method_settings`` and ``oldest_evidence``, for :func:`take_attestation`."""
    return together(
        click.option(
            flag,
            "methods",
            multiple=True,
            metavar="NAME",
            help="Prove by this method of attestation what the machine is, for the first certificate and at every "
            "renewal; several times, where the cluster asks for several proofs. The first one says who signs.",
        ),
        click.option(
            f"{flag}-setting",
            "method_settings",
            multiple=True,
            metavar="[NAME.]KEY=VALUE",
            help="A setting of that method; several times.",
        ),
        click.option(
            "--oldest-evidence",
            multiple=True,
            metavar="[NAME=]VERSION",
            help="Show no version of evidence that is older, whatever the cluster says that it reads.  [default: the "
            "oldest that the method can make]",
        ),
    )


def take_attestation(
    methods: Iterable[str], settings: Iterable[str], oldest: Iterable[str], *, installed: bool = True
) -> AttestationSettings | None:
    """What the flags say; None without a method.

    Args:
        installed: also look whether the methods are there.

    Raises:
        CLIError
    """
    from kubevouch.agent import attestation_settings
    from kubevouch.agent.interface import SettingsError

    try:
        found = attestation_settings.parse(methods, settings, oldest)
    except SettingsError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
    if found is not None and installed:
        from kubevouch.attestation import catalog

        there = catalog.names(catalog.ATTESTORS)
        missing = [each.name for each in found.methods if each.name not in there]
        if missing:
            raise ui.CLIError(
                f"got the method of attestation {missing[0]!r}, expected one of {', '.join(there)}",
                hint="a package adds methods by the entry point kubevouch.attestors",
                code=ExitCode.INVALID,
            )
    return found
