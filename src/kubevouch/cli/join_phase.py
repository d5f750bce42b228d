"""``kubevouch join phase``: one phase of a join alone."""

from __future__ import annotations

from typing import Any

import click

from kubevouch.cli import join, names, ui
from kubevouch.cli.exit_codes import ExitCode


@click.command("join-phase")
@click.argument("arguments", metavar="NAME [HOST:PORT]", nargs=-1, shell_complete=names.join_phases)
@join.join_flags
@click.pass_context
def join_phase(ctx: click.Context, /, arguments: tuple[str, ...], **flags: Any) -> None:
    """Run one phase of a join alone.

    The phases: preflight, control-plane-prepare (download-certs, certs, kubeconfig), kubelet-start, which leaves the
    bootstrap kubeconfig for a kubelet, kubelet-wait-bootstrap, which asks for the certificate, and control-plane-join
    (mark-control-plane). Those of a control plane need --control-plane.
    """
    from kubevouch.phases.join_phases import CONTROL_PLANE, NAMES, named

    if not arguments:
        hint = f"the phases are {', '.join(NAMES)}"
        raise ui.CLIError("got no phase, expected a name", hint=hint, code=ExitCode.INVALID)
    name, *endpoints = arguments
    # kubeadm separates a phase within a phase by a space here, and by a slash in --skip-phases.
    if endpoints and f"{name}/{endpoints[0]}" in (*NAMES, f"{name}/all"):
        name = f"{name}/{endpoints.pop(0)}"
    flags["endpoints"] = tuple(endpoints)
    options, rehearsal = join.prepared(ctx, flags, only=name)
    phases = named(name)
    if options.control_plane is None and phases <= CONTROL_PLANE:
        raise ui.CLIError(f"the phase {name} is for a control plane", hint="add --control-plane", code=ExitCode.INVALID)
    if rehearsal:
        join.rehearse(options, flags["output"])
    else:
        join.perform(options, flags)
