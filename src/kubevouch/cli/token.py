"""``kubevouch token``."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.durations import DURATION
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.api.bootstrap_tokens import BootstrapToken
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.phases.token_biography import Biography


@click.group()
def token() -> None:
    """Create, list, show, delete and generate bootstrap tokens."""


@token.command()
@click.argument("text", metavar="[TOKEN]", default="")
@click.option("--ttl", type=DURATION, default="24h", show_default=True, help="Life of the token; 0 is without end.")
@click.option("--usages", default="signing,authentication", show_default=True, help="What the token is for.")
@click.option(
    "--groups", default=None, help="Groups the token gives.  [default: system:bootstrappers:kubeadm:default-node-token]"
)
@click.option("--description", default="", help="What the token is for, for people.")
@click.option("--print-join-command", is_flag=True, help="Print the whole command with which a machine joins.")
@click.option(
    "--certificate-key",
    default="",
    help="With --print-join-command: the command is for a control plane, with this key of init phase upload-certs.",
)
@kubeconfig_option
def create(
    text: str,
    ttl: dt.timedelta,
    usages: str,
    groups: str | None,
    description: str,
    print_join_command: bool,
    certificate_key: str,
    kubeconfig: Path | None,
) -> None:
    """Create a bootstrap token: TOKEN, or a random one."""
    from kubevouch.api.bootstrap_tokens import TokenSyntaxError, generate_token, parse_token
    from kubevouch.phases import bootstrap_token as phase
    from kubevouch.pki import certificate_key as certificate_keys
    from kubevouch.pki.errors import KeyMaterialError
    from kubevouch.util.clock import SystemClock

    # kubeadm says so only after it has made the token.
    if certificate_key and not print_join_command:
        raise ui.CLIError("cannot use --certificate-key without --print-join-command", code=ExitCode.INVALID)
    try:
        if certificate_key:
            certificate_keys.parse(certificate_key)
        wanted = parse_token(text) if text else generate_token()
        plan = phase.plan(
            wanted,
            now=SystemClock().now(),
            ttl=ttl,
            usages=_parts(usages),
            groups=None if groups is None else _parts(groups),
            description=description,
        )
    except (TokenSyntaxError, phase.TokenPhaseError, KeyMaterialError) as err:
        raise ui.CLIError(str(err), hint=getattr(err, "hint", ""), code=ExitCode.INVALID) from err
    config = rest_config_of(kubeconfig)
    # Whatever could be wrong with the command is found before the token is there.
    line = join_command(config, plan.token.text, certificate_key) if print_join_command else wanted.text
    run_async(_create(config, plan))
    ui.say(line)


async def _create(config: RESTConfig, plan: BootstrapToken) -> None:
    from kubevouch.phases import bootstrap_token as phase

    async with connected(config) as client:
        await phase.create(client, plan)


def join_command(config: RESTConfig, token: str, certificate_key: str = "") -> str:
    """One line, with a hash for each CA of the kubeconfig; for a control plane if there is a key.

    Raises:
        CLIError
    """
    from kubevouch.agent.endpoint import EndpointError, endpoint_of_url
    from kubevouch.client.interface import ClientConfigurationError
    from kubevouch.client.tls import MAX_PEM_BYTES, read_bounded
    from kubevouch.pki import pins, x509_certificate
    from kubevouch.pki.errors import ParseError

    source = config.tls.ca_bundle
    try:
        bundle = read_bounded(source, "CA bundle", MAX_PEM_BYTES) if isinstance(source, Path) else source or b""
        address = endpoint_of_url(config.options.server).address
        hashes = [pins.pin_of(certificate) for certificate in x509_certificate.parse_bundle(bundle)]
    except EndpointError as err:
        raise ui.CLIError(str(err), code=ExitCode.INVALID) from err
    except (ParseError, ClientConfigurationError) as err:
        raise ui.CLIError(
            f"the kubeconfig's cluster has no CA certificate to print a hash of: {err}", code=ExitCode.INVALID
        ) from err
    flags = "".join(f" --discovery-token-ca-cert-hash {each}" for each in hashes)
    if certificate_key:
        flags += f" --control-plane --certificate-key {certificate_key}"
    return f"kubevouch join {address} --token {token}{flags}"


@token.command("list")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@kubeconfig_option
def list_(output: str, kubeconfig: Path | None) -> None:
    """List the bootstrap tokens of the cluster, secrets included."""
    from kubevouch.util.clock import SystemClock

    tokens, problems = run_async(_list(rest_config_of(kubeconfig)))
    for problem in problems:
        ui.warning(problem)
    if output == "text":
        if tokens:
            ui.say(text_table(tokens, SystemClock().now()))
        return
    for each in tokens:
        sys.stdout.write(document(each, output))


async def _list(config: RESTConfig) -> tuple[list[BootstrapToken], list[str]]:
    from kubevouch.phases import bootstrap_token as phase

    async with connected(config) as client:
        return await phase.list_tokens(client)


def text_table(tokens: list[BootstrapToken], now: dt.datetime) -> str:
    """kubeadm's columns and placeholders."""
    from kubevouch.machinery.gotext import short_human_duration
    from kubevouch.machinery.times import Time

    rows = []
    for each in tokens:
        remaining = None if each.expires is None else max((each.expires - now).total_seconds(), 0)
        rows.append(
            (
                each.token.text,
                "<forever>" if remaining is None else short_human_duration(remaining) if remaining else "<invalid>",
                "<never>" if each.expires is None else str(Time.of(each.expires)),
                ",".join(each.usages) or "<none>",
                ui.one_line(each.description) or "<none>",
                ",".join(each.groups) or "<none>",
            )
        )
    return ui.table(("TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS"), rows)


def document(each: BootstrapToken, output: str) -> str:
    """One document a token, as kubeadm's scripts expect: objects after another, not a list."""
    import json

    from kubevouch.machinery import yamltext
    from kubevouch.machinery.times import Time

    tree: dict[str, Any] = {
        "kind": "BootstrapToken",
        "apiVersion": "output.kubeadm.k8s.io/v1alpha3",
        "token": each.token.text,
    }
    if each.description:
        tree["description"] = each.description
    if each.expires is not None:
        tree["expires"] = str(Time.of(each.expires))
    if each.usages:
        tree["usages"] = list(each.usages)
    if each.groups:
        tree["groups"] = list(each.groups)
    if output == "json":
        return json.dumps(tree, indent=4) + "\n"
    return "---\n" + yamltext.dumps(dict(sorted(tree.items())))


@token.command()
@click.argument("text", metavar="TOKEN-OR-ID")
@ui.output_option
@kubeconfig_option
def show(text: str, output: str, kubeconfig: Path | None) -> None:
    """Show what a token is for, how long, and who has come with it. Its secret is not shown."""
    from kubevouch.phases import bootstrap_token as phase

    try:
        token_id = phase.token_id_of(text)
    except phase.TokenPhaseError as err:
        raise ui.CLIError(str(err), code=ExitCode.INVALID) from err
    found = run_async(_biography(rest_config_of(kubeconfig), token_id))
    if output != "text":
        ui.document(found.tree(), output)
    else:
        _print(found)


async def _biography(config: RESTConfig, token_id: str) -> Biography:
    from kubevouch.phases import token_biography
    from kubevouch.util.clock import SystemClock

    async with connected(config) as client:
        return await token_biography.fetch(client, token_id, now=SystemClock().now())


def _print(found: Biography) -> None:
    ui.say(ui.styled(found.token_id, bold=True))
    ui.field("state", ui.one_line(found.state))
    ui.field("description", ui.one_line(found.description) or "<none>")
    ui.field("created", found.created or "<unknown>")
    ui.field("expires", ui.one_line(found.expires) or "<never>")
    ui.field("usages", ", ".join(found.usages) or "<none>")
    ui.field("groups", ", ".join(found.groups) or "<none>")
    ui.field("cluster-info", "signed with it" if found.signed else "not signed with it")
    if not found.attempts:
        ui.say("nobody has asked for a certificate with it in the last hour")
        return
    rows = [(each.subject or "<unreadable>", each.state, each.when, each.request) for each in found.attempts]
    ui.say(ui.table(("ASKED FOR", "STATE", "TIME", "REQUEST"), rows))


@token.command()
@click.argument("texts", metavar="TOKEN-OR-ID...", nargs=-1)
@kubeconfig_option
def delete(texts: tuple[str, ...], kubeconfig: Path | None) -> None:
    """Delete bootstrap tokens, given whole or by ID."""
    from kubevouch.phases import bootstrap_token as phase

    if not texts:
        raise ui.CLIError(
            "missing argument; 'token delete' is missing token of form [a-z0-9]{6} or [a-z0-9]{6}.[a-z0-9]{16}",
            code=ExitCode.INVALID,
        )
    try:
        token_ids = [phase.token_id_of(text) for text in texts]
    except phase.TokenPhaseError as err:
        raise ui.CLIError(str(err), code=ExitCode.INVALID) from err
    run_async(_delete(rest_config_of(kubeconfig), token_ids))


async def _delete(config: RESTConfig, token_ids: list[str]) -> None:
    from kubevouch.phases import bootstrap_token as phase

    async with connected(config) as client:
        for token_id in token_ids:
            await phase.delete(client, token_id)
            ui.say(f'bootstrap token "{token_id}" deleted')


@token.command()
def generate() -> None:
    """Print a random token. Nothing is asked or changed."""
    from kubevouch.api.bootstrap_tokens import generate_token

    ui.say(generate_token().text)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
