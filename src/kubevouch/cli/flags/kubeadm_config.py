"""``--config``: kubeadm's configuration files, and which flags may stand beside one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from kubevouch.config.kubeadm_v1beta4 import Documents

config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file of kubeadm.k8s.io/v1beta4.",
)

# kubeadm's list, and what it has no flag for.
_BESIDE = frozenset(
    {
        "allow-missing-template-keys", "config", "dry-run", "force", "ignore-preflight-errors",
        "insecure-allow-weak-token", "kubeconfig",
        "kubeconfig-dir", "log-file", "node-name", "output", "print-join-command", "print-manifest", "rootfs",
        "show-managed-fields", "timeout", "upload-certs", "v", "wait", "yes",
    }
)  # fmt: skip


def verify_unmixed(flags: Iterable[str]) -> None:
    """Refuse flags beside ``--config`` that say the same things. Raises :class:`CLIError` with kubeadm's text."""
    mixed = sorted(name for name in flags if name not in _BESIDE and not name.startswith("skip-"))
    if mixed:
        raise ui.CLIError(
            f"can not mix '--config' with arguments [{' '.join(mixed)}]",
            hint="write them into the file instead",
            code=ExitCode.INVALID,
        )


def given_flags(ctx: click.Context) -> list[str]:
    """The flags that were typed, by their long names."""
    options = [param for param in ctx.command.params if isinstance(param, click.Option)]
    typed = [
        each for each in options if each.name and ctx.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
    ]
    return [max(each.opts, key=len).lstrip("-") for each in typed]


def read(ctx: click.Context, path: Path) -> Documents:
    """The documents of the file. Raises :class:`CLIError`."""
    from kubevouch.config.config_file import ConfigFileError
    from kubevouch.config.kubeadm_v1beta4 import load

    verify_unmixed(given_flags(ctx))
    try:
        documents = load(path.read_bytes())
    except FileNotFoundError as err:
        raise ui.CLIError(f"there is no file {path}", code=ExitCode.INVALID) from err
    except ConfigFileError as err:
        hint = "kubeadm config migrate writes an older file anew" if "expected kubeadm.k8s.io" in str(err) else ""
        raise ui.CLIError(f"{path} cannot be used: {err}", hint=hint, code=ExitCode.INVALID) from err
    for kind in documents.passed_over:
        ui.warning(f"the {kind} in {path} is not used here")
    return documents
