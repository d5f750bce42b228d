"""``kubevouch init``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.control_plane import layout_flags, settings_flags, take_layout, take_settings, ttl_option
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.flags.preflight import findings_told, ignore_option, take_ignored
from kubevouch.cli.flags.secret_input import take_token
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.client.interface import Client
    from kubevouch.phases.init import Initialized, InitOptions, Phase

PHASES = ("preflight", "certs", "kubeconfig", "upload-config", "upload-certs", "bootstrap-token", "cluster-info")


def _flags(command: Callable[..., Any]) -> Callable[..., Any]:
    for flag in reversed(
        (
            settings_flags,
            layout_flags,
            click.option(
                "--token",
                default=None,
                help="Bootstrap token to make; - is standard input, '' makes none.  [default: random]",
            ),
            click.option("--token-file", default="", metavar="FILE", help="File with the bootstrap token to make."),
            click.option(
                "--insecure-allow-weak-token", "allow_weak", is_flag=True, help="Take tokens that can be guessed."
            ),
            ttl_option,
            click.option("--upload-certs", is_flag=True, help="Upload the certificates that control planes share."),
            click.option("--certificate-key", default="", help="Key to upload them under.  [default: a random one]"),
            click.option("--skip-certificate-key-print", is_flag=True, help="Do not print that key."),
            click.option("--skip-token-print", is_flag=True, help="Do not print tokens."),
            ignore_option,
            click.option(
                "--kubeconfig",
                type=click.Path(path_type=Path, dir_okay=False),
                help="Kubeconfig for the API server.  [default: admin.conf of the kubeconfig folder]",
            ),
            click.option(
                "--timeout",
                type=DURATION,
                default="4m",
                show_default=True,
                help="How long to wait for the API server.",
            ),
            click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing."),
            ui.output_option,
        )
    ):
        command = flag(command)
    return command


@click.group(invoke_without_command=True)
@click.option("--skip-phases", multiple=True, metavar="NAME,...", help="Phases to leave out.")
@_flags
@click.pass_context
def init(ctx: click.Context, /, skip_phases: tuple[str, ...], **flags: Any) -> None:
    """Make a control plane's certificates and kubeconfigs, and in its API what machines need to join.

    The API server is started by others, such as kubevouch up, with these certificates; what is there already is kept.
    Phases: preflight, certs, kubeconfig, upload-config, upload-certs, bootstrap-token, cluster-info.
    """
    if ctx.invoked_subcommand is None:
        _run(ctx, flags, skipped=_split(skip_phases))


_FILES = ("config", "rootfs", "cert_dir", "kubeconfig_dir", "dry_run", "output")
_SETTINGS = ("node_name", "apiserver_advertise_address", "apiserver_bind_port", "apiserver_cert_extra_sans",
    "control_plane_endpoint", "service_cidr", "service_dns_domain", "pod_network_cidr", "kubernetes_version",
    "key_algorithm")  # fmt: skip
_SERVER = ("kubeconfig", "timeout")
_SHOWN = {
    "preflight": ("config", "node_name", "rootfs", "ignore_preflight_errors", "dry_run", "output"),
    "certs": (*_FILES, *_SETTINGS),
    "kubeconfig": (*_FILES, *_SETTINGS),
    "upload-config": (*_FILES, *_SETTINGS, *_SERVER),
    "upload-certs": (*_FILES, *_SERVER, "upload_certs", "certificate_key", "skip_certificate_key_print"),
    "bootstrap-token": (*_FILES, *_SERVER, "token", "token_file", "allow_weak", "token_ttl", "skip_token_print"),
    "cluster-info": (*_FILES, *_SERVER),
}
"""The flags that a phase looks at. It takes all others of ``init`` too, so that one line serves for several phases."""


class _Phases(ui.Group):
    """A command for each phase, with the help that stands at its work: it is not loaded before it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(PHASES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if name not in PHASES:
            return None
        from kubevouch.phases.init import WORK, Phase

        @click.command(name, help=inspect.getdoc(WORK[Phase(name)]))
        @_flags
        @click.pass_context
        def run(ctx: click.Context, /, **flags: Any) -> None:
            _run(ctx, flags, only=name)

        for parameter in run.params:
            if isinstance(parameter, click.Option):
                parameter.hidden = parameter.name not in _SHOWN[name]
        return run


@init.group(cls=_Phases)
def phase() -> None:
    """Run one phase of init alone."""


def _split(texts: Iterable[str]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _run(ctx: click.Context, flags: dict[str, Any], *, only: str = "", skipped: Iterable[str] = ()) -> None:
    from kubevouch.phases import init as phases
    from kubevouch.phases.cluster_settings import SettingsError
    from kubevouch.pki import certificate_key
    from kubevouch.pki.errors import KeyMaterialError
    from kubevouch.records.token_strength import FLOOR_BITS
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock

    logs.configure(SystemClock(), level="error")
    given: str | None = flags.pop("token")
    token, ttl = take_token(given or "", flags.pop("token_file")), flags.pop("token_ttl")
    makes_tokens = given != "" or bool(token)
    allow_weak = flags.pop("allow_weak")
    settings = take_settings(ctx, flags, token=token, ttl=ttl)
    layout = take_layout(flags, settings.cluster.certificates_dir)
    key = flags["certificate_key"] or settings.init.certificate_key
    try:
        if key:
            certificate_key.parse(key)
        chosen = frozenset({phases.Phase(only)}) if only else _without((*skipped, *settings.init.skip_phases))
        planned = phases.planned_tokens(settings, SystemClock().now(), allow_weak=allow_weak) if makes_tokens else []
    except (KeyMaterialError, SettingsError) as err:
        raise ui.CLIError(str(err), hint=getattr(err, "hint", ""), code=ExitCode.INVALID) from err
    for each in planned:
        if each.token.bits < FLOOR_BITS:
            ui.warning(f"INSECURE: the secret of the token {each.token.token_id} can be guessed")
    ignored = (*flags["ignore_preflight_errors"], *settings.init.node_registration.ignore_preflight_errors)
    options = phases.InitOptions(
        settings,
        layout,
        chosen,
        upload_certs=flags["upload_certs"],
        certificate_key=key,
        ignored=take_ignored(ignored),
        rootfs=flags["rootfs"],
        timeout=flags["timeout"].total_seconds(),
        kubeconfig=flags["kubeconfig"],
        allow_weak_tokens=allow_weak,
        makes_tokens=makes_tokens,
    )
    output = flags["output"]
    if flags["dry_run"] or settings.init.dry_run:
        lines = phases.would_do(options)
        if output != "text":
            ui.document({"wouldDo": lines}, output)
            return
        for line in lines:
            ui.say(line)
        return
    with findings_told():
        made = run_async(_init(options, _Reporter(output)))
    if output != "text":
        ui.document(_tree(made, options, flags), output)
    else:
        _tell(made, options, flags)


def _without(skipped: Iterable[str]) -> frozenset[Phase]:
    from kubevouch.phases.init import Phase

    names = set(skipped)
    unknown = sorted(names - set(PHASES))
    if unknown:
        raise ui.CLIError(
            f"invalid phase name: {', '.join(unknown)}",
            hint=f"the phases are {', '.join(PHASES)}",
            code=ExitCode.INVALID,
        )
    return frozenset(each for each in Phase if each not in names)


class _Reporter:
    """Prints steps; to standard error where the result is a document."""

    def __init__(self, output: str) -> None:
        self._aside = output != "text"

    def step(self, done: str, detail: str = "") -> None:
        ui.step(done, detail, err=self._aside)

    def waiting(self, text: str) -> None:
        ui.waiting(text)

    def warning(self, text: str) -> None:
        ui.warning(text)


async def _init(options: InitOptions, report: _Reporter) -> Initialized:
    from kubevouch.client.rest_config import rest_config
    from kubevouch.phases.init import init as run
    from kubevouch.util.clock import SystemClock

    async with AsyncExitStack() as stack:

        async def connect(path: Path) -> Client:
            client = rest_config(path).client(component="cli", on_warning=ui.warning)
            return await stack.enter_async_context(client)

        return await run(options, connect, SystemClock(), report)


def _shown(made: Initialized, flags: dict[str, Any]) -> tuple[str, str]:
    """The first token and the certificate key, as far as they may be printed."""
    token = "" if flags["skip_token_print"] else next((each.token.text for each in made.tokens), "")
    return token, "" if flags["skip_certificate_key_print"] else made.certificate_key


def _commands(token: str, key: str, options: InitOptions) -> tuple[str, str]:
    """How a machine joins, and how a control plane does; empty where a secret is missing."""
    from kubevouch.cli.token import join_command
    from kubevouch.client.rest_config import rest_config

    if not token:
        return "", ""
    config = rest_config(options.admin)
    return join_command(config, token), join_command(config, token, certificate_key=key) if key else ""


def _tree(made: Initialized, options: InitOptions, flags: dict[str, Any]) -> dict[str, Any]:
    """The stable form for scripts."""
    token, key = _shown(made, flags)
    node, control_plane = _commands(token, key, options)
    return {
        "phases": sorted(each.value for each in options.phases),
        "tokens": [each.token.text for each in made.tokens] if token else [],
        "certificateKey": key,
        "joinCommand": node,
        "controlPlaneJoinCommand": control_plane,
    }


def _tell(made: Initialized, options: InitOptions, flags: dict[str, Any]) -> None:
    from kubevouch.phases.bootstrap_token import power
    from kubevouch.util.clock import SystemClock

    token, key = _shown(made, flags)
    if key:
        ui.field("certificate key", key)
    node, control_plane = _commands(token, key, options)
    if token:
        first = made.tokens[0]
        ui.say(f"  {power(first.groups, first.expires, SystemClock().now())}")
    for words, command in (("a machine", node), ("a control plane", control_plane)):
        if command:
            ui.say(f"  {words} joins with")
            ui.say(f"    {command}")
