"""What to apply to a cluster that exists: flags of ``kubevouch manifests`` and ``kubevouch install``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags import together

if TYPE_CHECKING:
    from kubevouch.standalone.attached.manifest_parts import Settings


def _words(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for value in values for word in value.split(",") if word.strip()))


manifest_flags = together(
    click.argument("parts", nargs=-1, metavar="[PART]..."),
    click.option(
        "--namespace", default="kubevouch-system", show_default=True, help="Namespace of the pods; of them alone."
    ),
    click.option(
        "--image",
        help="Image that the pods run; deploy/container/Containerfile makes one.  [default: kubevouch of this version]",
    ),
    click.option(
        "--ca-secret",
        default="kubevouch-signing-ca",
        show_default=True,
        help="Secret of that namespace with the CA for those of --signers that are Kubernetes': tls.crt and tls.key.",
    ),
    click.option(
        "--signers",
        multiple=True,
        callback=_words,
        metavar="NAME[,NAME...]",
        help="Sign for these signers, and have the rights to: Kubernetes', which nobody else may sign for then, or "
        "signers of your own, such as example.com/plain or example.com/*.",
    ),
    click.option(
        "--approve",
        multiple=True,
        callback=_words,
        metavar="NAME[,NAME...]",
        help="Have the right to approve for these signers, too, beside kubernetes.io/kubelet-serving and your own.",
    ),
    click.option(
        "--api-server-port",
        "api_server_ports",
        type=click.IntRange(1, 65535),
        multiple=True,
        help="Port at which pods reach the API server, for the NetworkPolicy; several times.  [default: 443 and 6443]",
    ),
)


def take_settings(flags: dict[str, Any], kube_version: int | None) -> Settings:
    """What the flags say; takes them out of ``flags``. Raises :class:`CLIError`."""
    from kubevouch.standalone.attached.manifest_parts import ManifestSettingsError, Settings

    given = {name: flags.pop(name) for name in ("namespace", "ca_secret", "signers", "approve")}
    for name in ("image", "api_server_ports"):
        if value := flags.pop(name):
            given[name] = value
    try:
        return Settings(kube_version=kube_version, **given)
    except ManifestSettingsError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err


def expect_parts(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Those that are named; ``all`` where none is. Raises :class:`CLIError`."""
    from kubevouch.standalone.attached.manifest_parts import ALL, PARTS
    from kubevouch.util.nearest import meant

    known = (*PARTS, ALL)
    for each in parts:
        if each not in known:
            raise ui.CLIError(
                f"got the part {each!r}, expected one of {', '.join(known)}",
                hint=meant(each, known, "see kubevouch manifests --help"),
                code=ExitCode.INVALID,
            )
    return parts or (ALL,)
