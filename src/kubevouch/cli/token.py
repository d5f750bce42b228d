"""``kubevouch token``."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import names as names_of
from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.flags.secret_input import take_token
from kubevouch.cli.runner import run_async
from kubevouch.cli.token_keep import keep

if TYPE_CHECKING:
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.records.bootstrap_tokens import BootstrapToken, Token
    from kubevouch.reviews.token_biography import Biography


@click.group(cls=ui.Group)
def token() -> None:
    """Create, list, show, delete and generate bootstrap tokens."""


token.add_command(keep)


@token.command()
@click.argument("text", metavar="[TOKEN]", default="")
@click.option("--ttl", type=DURATION, default="24h", show_default=True, help="Life of the token; 0 is without end.")
@click.option("--usages", default=None, help="What the token is for.  [default: signing,authentication]")
@click.option(
    "--separate/--no-separate",
    default=None,
    envvar="KUBEVOUCH_SEPARATE_TOKENS",
    help="Make two tokens, one for discovery and one for authentication: the first one's signature is public and lets "
    "anyone guess the secret.  [default: with --print-join-command]",
)
@click.option("--uses", type=int, default=None, help="How many machines may get a certificate with the token.")
@click.option("--node-name", "node_names", multiple=True, help="The node it is for; * stands for any part of a name.")
@click.option("--cidr", "source_ranges", multiple=True, help="The addresses from which the API server accepts it.")
@click.option(
    "--key", "public_keys", multiple=True, metavar="sha256:HASH", help="The public key that a request has to be for."
)
@click.option(
    "--groups", default=None, help="Groups the token gives.  [default: system:bootstrappers:kubeadm:default-node-token]"
)
@click.option("--description", default="", help="What the token is for, for people.")
@click.option("--print-join-command", is_flag=True, help="Print the whole command with which a machine joins.")
@click.option(
    "--insecure-allow-weak-token", "allow_weak", is_flag=True, help="Take a TOKEN whose secret can be guessed."
)
@click.option(
    "--certificate-key",
    default="",
    help="With --print-join-command: the command is for a control plane, with this key of init phase upload-certs.",
)
@click.option(
    "--one-time",
    is_flag=True,
    help="Make a join token instead, for the attestor join-token: one machine proves by it that it is --machine, once.",
)
@click.option("--machine", default="", metavar="NAME", help="With --one-time: the name of the node that it is for.")
@ui.facts_option("token", "discoveryToken", "usages", "groups", "expires", "power", "joinCommand")
@kubeconfig_option
def create(
    text: str,
    ttl: dt.timedelta,
    usages: str | None,
    separate: bool | None,
    uses: int | None,
    node_names: tuple[str, ...],
    source_ranges: tuple[str, ...],
    public_keys: tuple[str, ...],
    groups: str | None,
    description: str,
    print_join_command: bool,
    allow_weak: bool,
    certificate_key: str,
    one_time: bool,
    machine: str,
    output: str,
    kubeconfig: Path | None,
) -> None:
    """Create a bootstrap token: TOKEN, or a random one; - reads it from standard input.

    With --separate two lines are printed, the token for discovery before the one for authentication, which is TOKEN and
    has the bounds. Bounds are kept by kubevouch's own server and controllers.
    """
    if one_time or machine:
        _one_time(one_time, machine, ttl, output, kubeconfig)
        return
    from kubevouch.phases import bootstrap_token as phase
    from kubevouch.pki import certificate_key as certificate_keys
    from kubevouch.pki.errors import KeyMaterialError
    from kubevouch.records import token_bounds
    from kubevouch.records.bootstrap_tokens import AUTHENTICATION, TokenSyntaxError, generate_token, parse_token
    from kubevouch.util.clock import SystemClock

    if usages is not None and separate:
        # What the environment asks for gives way to what is typed.
        if click.get_current_context().get_parameter_source("separate") is click.core.ParameterSource.COMMANDLINE:
            raise ui.CLIError("cannot use --usages with --separate: it says both", code=ExitCode.INVALID)
        separate = False
    if separate is None:
        separate = print_join_command and usages is None
    # kubeadm says so only after it has made the token.
    if certificate_key and not print_join_command:
        raise ui.CLIError("cannot use --certificate-key without --print-join-command", code=ExitCode.INVALID)
    try:
        if certificate_key:
            certificate_keys.parse(certificate_key)
        wanted = _strong(parse_token(take_token(text)), allow_weak=allow_weak) if text else generate_token()
        settings: dict[str, Any] = {
            "now": SystemClock().now(),
            "ttl": ttl,
            "groups": None if groups is None else _parts(groups),
            "description": description,
            "bounds": token_bounds.parse(
                uses=uses, node_names=node_names, source_ranges=source_ranges, public_keys=public_keys
            ),
        }
        if separate:
            plans = list(phase.plan_separate(generate_token(), wanted, **settings))
        else:
            asked = phase.DEFAULT_USAGES if usages is None else _parts(usages)
            plans = [phase.plan(wanted, usages=asked, **settings)]
    except (TokenSyntaxError, token_bounds.TokenBoundsError, phase.TokenPhaseError, KeyMaterialError) as err:
        raise ui.CLIError(str(err), hint=getattr(err, "hint", ""), code=ExitCode.INVALID) from err
    config = rest_config_of(kubeconfig)
    tokens = [plan.token.text for plan in plans]
    # Whatever could be wrong with the command is found before the token is there.
    lines = [join_command(config, *tokens, certificate_key=certificate_key)] if print_join_command else tokens
    run_async(_create(config, plans))
    if output != "text":
        ui.document(_created(plans, lines[0] if print_join_command else "", settings["now"]), output)
        return
    for plan in plans:
        # For the person who typed this; a script gets the token and, as from kubeadm, not a word beside it.
        if AUTHENTICATION in plan.usages and sys.stderr.isatty():
            ui.aside(phase.power(plan.groups, plan.expires, settings["now"], plan.bounds))
    for line in lines:
        ui.say(line)


def _one_time(one_time: bool, machine: str, ttl: dt.timedelta, output: str, kubeconfig: Path | None) -> None:
    from kubevouch.cli import token_one_time

    ctx = click.get_current_context()
    taken = {"one_time", "machine", "ttl", "output", "kubeconfig"}
    for each in ctx.command.params:
        if (
            each.name not in taken
            and ctx.get_parameter_source(str(each.name)) is click.core.ParameterSource.COMMANDLINE
        ):
            name = each.opts[0] if isinstance(each, click.Option) else "TOKEN"
            raise ui.CLIError(f"cannot use {name} with --one-time", code=ExitCode.INVALID)
    if not one_time or not machine:
        raise ui.CLIError(
            "expected --one-time and --machine together", hint="kubevouch token create --one-time --machine worker-7",
            code=ExitCode.INVALID,
        )  # fmt: skip
    token_one_time.create(machine, ttl, output, kubeconfig)


def _created(plans: list[BootstrapToken], command: str, now: dt.datetime) -> dict[str, Any]:
    """The stable form for scripts. The last token is the one that lets in; with two, the first is for discovery."""
    from kubevouch.machinery.text.times import Time
    from kubevouch.phases import bootstrap_token as phase
    from kubevouch.records.bootstrap_tokens import AUTHENTICATION

    made = plans[-1]
    tree: dict[str, Any] = {"token": made.token.text, "usages": list(made.usages), "groups": list(made.groups)}
    if len(plans) > 1:
        tree["discoveryToken"] = plans[0].token.text
    if made.expires is not None:
        tree["expires"] = str(Time.of(made.expires))
    if AUTHENTICATION in made.usages:
        tree["power"] = phase.power(made.groups, made.expires, now, made.bounds)
    return tree | ({"joinCommand": command} if command else {})


def _strong(wanted: Token, *, allow_weak: bool) -> Token:
    """Raises WeakTokenError, with a hint."""
    from kubevouch.records.bootstrap_tokens import WeakTokenError, verify_strength

    try:
        return verify_strength(wanted)
    except WeakTokenError as err:
        if not allow_weak:
            hint = "leave TOKEN out for a random one; --insecure-allow-weak-token takes it nevertheless"
            raise ui.CLIError(str(err), hint=hint, code=ExitCode.INVALID) from err
        ui.warning(f"INSECURE: {err}")
    return wanted


async def _create(config: RESTConfig, plans: list[BootstrapToken]) -> None:
    from kubevouch.phases import bootstrap_token as phase

    async with connected(config) as client:
        await phase.create_all(client, plans)


def join_command(config: RESTConfig, token: str, tls_bootstrap_token: str = "", *, certificate_key: str = "") -> str:
    """One line, with a hash for each CA of the kubeconfig; for a control plane if there is a key.

    Args:
        tls_bootstrap_token: the one for authentication; then ``token`` is for discovery only.

    Raises:
        CLIError
    """
    from kubevouch.client.endpoint import EndpointError, endpoint_of_url
    from kubevouch.client.interface import ClientConfigurationError
    from kubevouch.client.tls import MAX_PEM_BYTES, read_bounded
    from kubevouch.pki import pins
    from kubevouch.pki.errors import ParseError
    from kubevouch.pki.x509 import x509_certificate

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
    hashed = "".join(f" --discovery-token-ca-cert-hash {each}" for each in hashes)
    if tls_bootstrap_token:
        flags = f" --discovery-token {token} --tls-bootstrap-token {tls_bootstrap_token}{hashed}"
    else:
        flags = f" --token {token}{hashed}"
    if certificate_key:
        flags += f" --control-plane --certificate-key {certificate_key}"
    return f"kubevouch join {address}{flags}"


@token.command("list")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "wide", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Format; wide also shows uses and bounds, and cuts nothing.",
)
@kubeconfig_option
def list_(output: str, kubeconfig: Path | None) -> None:
    """List the bootstrap tokens of the cluster, secrets included."""
    from kubevouch.util.clock import SystemClock

    tokens, problems, uses_left = run_async(_list(rest_config_of(kubeconfig)))
    for problem in problems:
        ui.warning(problem)
    if output in ("text", "wide"):
        if tokens:
            ui.lines(text_table(tokens, SystemClock().now(), uses_left if output == "wide" else None))
        return
    for each in tokens:
        ui.raw(document(each, output))


async def _list(config: RESTConfig) -> tuple[list[BootstrapToken], list[str], dict[str, str]]:
    """The tokens, sentences on those that are none, and by ID how many uses are left."""
    from kubevouch.phases import bootstrap_token as phase

    async with connected(config) as client:
        tokens, problems, left = await phase.list_with_uses(client)
    counted = {each.token.token_id: left.get(each.token.token_id) for each in tokens}
    return tokens, problems, {key: "<any>" if count is None else str(count) for key, count in counted.items()}


def text_table(tokens: list[BootstrapToken], now: dt.datetime, uses_left: dict[str, str] | None = None) -> list[str]:
    """kubeadm's columns and placeholders; with ``uses_left``, by ID, two columns more, and nothing is cut."""
    from kubevouch.machinery.text.gotext import short_human_duration
    from kubevouch.machinery.text.times import Time

    rows = []
    for each in tokens:
        remaining = None if each.expires is None else max((each.expires - now).total_seconds(), 0)
        rows.append(
            (
                each.token.text,
                "<forever>" if remaining is None else short_human_duration(remaining) if remaining else "<invalid>",
                "<never>" if each.expires is None else str(Time.of(each.expires)),
                ",".join(each.usages) or "<none>",
                each.description or "<none>",
                ",".join(each.groups) or "<none>",
            )
        )
    header = ("TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS")
    if uses_left is None:
        return ui.table(header, rows, whole=1)
    more = [(uses_left[each.token.token_id], "; ".join(each.bounds.told()) or "<none>") for each in tokens]
    wide_rows = [(*row, *cells) for row, cells in zip(rows, more, strict=True)]
    return ui.table((*header, "USES LEFT", "BOUNDS"), wide_rows, columns=0)


def document(each: BootstrapToken, output: str) -> str:
    """One document a token, as kubeadm's scripts expect: objects after another, not a list."""
    import json

    from kubevouch.machinery.text.times import Time

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
    return "---\n" + ui.yaml_text(tree)


@token.command()
@click.argument("text", metavar="TOKEN-OR-ID", shell_complete=names_of.tokens)
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
    from kubevouch.reviews import token_biography
    from kubevouch.util.clock import SystemClock

    async with connected(config) as client:
        return await token_biography.fetch(client, token_id, now=SystemClock().now())


def _print(found: Biography) -> None:
    from kubevouch.records.token_strength import FLOOR_BITS

    ui.say(ui.styled(found.token_id, bold=True))
    ui.field("state", found.state)
    ui.field("description", found.description or "<none>")
    ui.field("created", found.created or "<unknown>")
    ui.field("expires", found.expires or "<never>")
    ui.field("usages", ", ".join(found.usages) or "<none>")
    ui.field("groups", ", ".join(found.groups) or "<none>")
    guessable = "signed with it: whoever reads it can try secrets without asking the server"
    ui.field("cluster-info", guessable if found.signed else "not signed with it")
    if found.bits is not None:
        weak = "" if found.bits >= FLOOR_BITS else f"; weak, expected {FLOOR_BITS:.0f} or more"
        ui.field("secret", f"about {found.bits:.1f} bits{weak}")
    ui.field("bounds", "; ".join(found.bounds.told()) or "<none>")
    if found.uses_left is not None:
        ui.field("uses left", str(found.uses_left))
    if not found.attempts:
        ui.say("nobody has asked for a certificate with it")
        return
    rows = [
        (
            each.subject or "<unreadable>",
            each.state.value,
            each.when,
            each.source or "<unknown>",
            each.serial or "<none>",
            each.request,
        )
        for each in found.attempts
    ]
    ui.lines(ui.table(("ASKED FOR", "STATE", "TIME", "FROM", "CERTIFICATE", "REQUEST"), rows))


@token.command()
@click.argument("texts", metavar="TOKEN-OR-ID...", nargs=-1, shell_complete=names_of.tokens)
@kubeconfig_option
def delete(texts: tuple[str, ...], kubeconfig: Path | None) -> None:
    """Delete bootstrap tokens and join tokens, given whole or by ID."""
    from kubevouch.cli import token_one_time
    from kubevouch.phases import bootstrap_token as phase

    if not texts:
        raise ui.CLIError(
            "missing argument; 'token delete' is missing token of form [a-z0-9]{6} or [a-z0-9]{6}.[a-z0-9]{16}",
            code=ExitCode.INVALID,
        )
    one_time = [found for text in texts if (found := token_one_time.id_of(text))]
    try:
        token_ids = [phase.token_id_of(text) for text in texts if not token_one_time.id_of(text)]
    except phase.TokenPhaseError as err:
        raise ui.CLIError(str(err), code=ExitCode.INVALID) from err
    run_async(_delete(rest_config_of(kubeconfig), token_ids))
    for each in one_time:
        token_one_time.delete(each, kubeconfig)


async def _delete(config: RESTConfig, token_ids: list[str]) -> None:
    from kubevouch.phases import bootstrap_token as phase

    async with connected(config) as client:
        for token_id in token_ids:
            await phase.delete(client, token_id)
            ui.say(f'bootstrap token "{token_id}" deleted')


@token.command()
@ui.facts_option("token")
def generate(output: str) -> None:
    """Print a random token. Nothing is asked or changed."""
    from kubevouch.records.bootstrap_tokens import generate_token

    made = generate_token().text
    if output == "text":
        ui.say(made)
    else:
        ui.document({"token": made}, output)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
