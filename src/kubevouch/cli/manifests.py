"""``kubevouch manifests``."""

from __future__ import annotations

from typing import Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.manifests import expect_parts, manifest_flags, take_settings


@click.command()
@manifest_flags
@click.option(
    "--kube-version",
    default="",
    metavar="1.N",
    help="Leave out what this version of Kubernetes does not serve.  [default: nothing is left out]",
)
def manifests(parts: tuple[str, ...], kube_version: str, **flags: Any) -> None:
    """Print what to apply to a cluster that exists, as YAML for kubectl apply.

    Parts are crds, guards, controllers, revocation, and all of these; attestation and agent are for who names them. The
    same flags print the same text, and no cluster is asked. kubevouch install applies it.
    """
    from kubevouch.standalone.attached.manifest_parts import ManifestSettingsError, documents, trees, version_of

    parts = expect_parts(parts)
    try:
        version = version_of(kube_version) if kube_version else None
    except ManifestSettingsError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
    ui.raw(documents(trees(parts, take_settings(flags, version))))
