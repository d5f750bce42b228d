"""``kubevouch signer``."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.runner import run_async
from kubevouch.pki.keys import KeyAlgorithm

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kubevouch.api.kubevouch_v1alpha1.certificate_signers import CertificateSigner
    from kubevouch.client.interface import Client
    from kubevouch.phases.signers import NewCA
    from kubevouch.reviews.signer_page import Page

T = TypeVar("T")

_VALIDITY = click.option(
    "--ca-validity", type=DURATION, default="87600h", show_default=True, help="Life of the CA that is made."
)
_ALGORITHM = click.option(
    "--ca-key-algorithm",
    type=click.Choice([each.value for each in KeyAlgorithm]),
    default=KeyAlgorithm.ECDSA_P256.value,
    show_default=True,
    metavar="ALGORITHM",
    help=f"Of the key of the CA that is made: {', '.join(each.value for each in KeyAlgorithm)}.",
)


@click.group(cls=ui.Group)
def signer() -> None:
    """Make signers of one's own, and say what each signer does."""


def _run(kubeconfig: Path | None, work: Callable[[Client], Awaitable[T]]) -> T:
    config = rest_config_of(kubeconfig)

    async def run() -> T:
        from kubevouch.phases.signers import SignerCommandError

        async with connected(config) as client:
            try:
                return await work(client)
            except SignerCommandError as err:
                raise ui.CLIError(str(err), hint=err.hint) from err

    return run_async(run())


@signer.command("list")
@ui.output_option
@kubeconfig_option
def list_signers(output: str, kubeconfig: Path | None) -> None:
    """List the signers of one's own: whether each signs, with which CA, and how long that lasts."""
    from kubevouch.util.clock import SystemClock

    async def work(client: Client) -> list[CertificateSigner]:
        from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_SIGNERS
        from kubevouch.client.pager import PAGES, list_all

        return (await list_all(client, CERTIFICATE_SIGNERS, options=PAGES)).items

    found = [_facts(obj, SystemClock().now()) for obj in _run(kubeconfig, work)]
    if output != "text":
        ui.document(found, output)
    elif found:
        rows = [
            (each["signerName"], each["name"], each["ready"], each["reason"], each["ca"], _days(each["caDaysLeft"]))
            for each in found
        ]
        ui.lines(ui.table(("SIGNER", "NAME", "READY", "REASON", "CA", "CA DAYS LEFT"), rows, whole=1))
    else:
        ui.say("there is no CertificateSigner; kubevouch signer create makes one")


def _days(left: int | None) -> str:
    return "" if left is None else str(left)


def _facts(obj: CertificateSigner, now: dt.datetime) -> dict[str, Any]:
    from kubevouch.api.kubevouch_v1alpha1.certificate_signers import READY

    ready = next((each for each in obj.status.conditions if each.type == READY), None)
    signing = next((each for each in obj.status.authorities if each.signs_since and not each.retired_at), None)
    ends = signing.not_after if signing is not None else None
    return {
        "name": obj.metadata.name,
        "signerName": obj.spec.signer_name,
        "ready": ready.status if ready is not None else "Unknown",
        "reason": ready.reason if ready is not None else "",
        "message": ready.message if ready is not None else "nothing has looked at it yet",
        "ca": signing.subject if signing is not None else "",
        "caNotAfter": str(ends) if ends is not None else "",
        "caDaysLeft": (ends.datetime() - now).days if ends is not None else None,
    }


@signer.command()
@click.argument("name")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "yaml", "markdown"]), default="text", show_default=True,
    help="Format.",
)  # fmt: skip
@kubeconfig_option
def describe(name: str, output: str, kubeconfig: Path | None) -> None:
    """Say what the signer NAME permits, and what becomes of a request for more: the page that its users need.

    NAME is a signer name, also one of Kubernetes' own four, or that of a CertificateSigner.
    """
    from kubevouch.pki.policy import KUBERNETES_SIGNERS
    from kubevouch.reviews import signer_page

    async def work(client: Client) -> Page:
        from kubevouch.phases import signers

        return signer_page.page_of(await signers.find(client, name))

    page = signer_page.kubernetes_page(name) if name in KUBERNETES_SIGNERS else _run(kubeconfig, work)
    if output == "markdown":
        ui.raw(signer_page.markdown(page))
        return
    if output != "text":
        sections = {heading: list(sentences) for heading, sentences in page.sections.items()}
        tree = {"signerName": page.signer_name, "description": page.description, "sections": sections}
        ui.document(tree | {"notes": list(page.notes)}, output)
        return
    ui.say(page.signer_name)
    if page.description:
        ui.say(f"  {page.description}")
    for heading, sentences in [*page.sections.items(), *([("Now", page.notes)] if page.notes else [])]:
        ui.say("")
        ui.say(heading)
        for sentence in sentences:
            for number, line in enumerate(ui.wrapped(sentence, 4)):
                ui.say(f"  {'-' if number == 0 else ' '} {line}")


@signer.command()
@click.argument("signer_name")
@click.option("--name", default="", help="Of the object.  [default: the path of SIGNER_NAME]")
@click.option("--description", default="", help="What the certificates are for.")
@click.option("--dns", multiple=True, metavar="PATTERN", help="Permitted DNS names, such as *.example.com; repeatable.")
@click.option("--ip", multiple=True, metavar="CIDR", help="Permitted IP addresses; repeatable.")
@click.option("--email", multiple=True, metavar="PATTERN", help="Permitted e-mail addresses; repeatable.")
@click.option("--uri", multiple=True, metavar="PATTERN", help="Permitted URIs; repeatable.")
@click.option("--common-name", multiple=True, metavar="PATTERN", help="Permitted common names; repeatable.")
@click.option("--organization", multiple=True, metavar="PATTERN", help="Permitted organizations; repeatable.")
@click.option(
    "--usage",
    multiple=True,
    help="Permitted key usages; repeatable.  [default: digital signature, key encipherment, server auth]",
)
@click.option("--lifetime", type=DURATION, default="24h", show_default=True, help="Granted when nothing is asked for.")
@click.option("--max-lifetime", type=DURATION, help="The most that is granted.  [default: --lifetime]")
@click.option("--spread", type=click.IntRange(0, 50), default=10, show_default=True,
              help="Percent of its life by which a certificate may end sooner, each by another part.")  # fmt: skip
@click.option("--ca-secret", default="", metavar="NAME", help="Secret with the CA, in the namespace kubevouch-signers.")
@click.option("--ca-name", default="", metavar="NAME", help="A CA that the operator has put into --signer-ca-dir.")
@_VALIDITY
@_ALGORITHM
@click.option("--publish", multiple=True, type=click.Choice(["bundle", "config-map"]), default=("config-map",),
              show_default=True, help="Where the CA is published before it signs: a ClusterTrustBundle, a ConfigMap; "
              "repeatable.")  # fmt: skip
@click.option("--overlap", type=DURATION, default="1h", show_default=True,
              help="How long the next CA is published before it signs.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the object as YAML, and make nothing.")
@kubeconfig_option
def create(
    signer_name: str, name: str, description: str, dns: tuple[str, ...], ip: tuple[str, ...], email: tuple[str, ...],
    uri: tuple[str, ...], common_name: tuple[str, ...], organization: tuple[str, ...], usage: tuple[str, ...],
    lifetime: dt.timedelta, max_lifetime: dt.timedelta | None, spread: int, ca_secret: str, ca_name: str,
    ca_validity: dt.timedelta, ca_key_algorithm: str, publish: tuple[str, ...], overlap: dt.timedelta, dry_run: bool,
    kubeconfig: Path | None,
) -> None:  # fmt: skip
    """Make a signer SIGNER_NAME that permits what the options say; without --ca-secret and --ca-name also its CA.

    Requests are approved as always: kubectl certificate approve, or a CertificateRequestPolicy.
    """
    from kubevouch.api.kubevouch_v1alpha1 import certificate_signers as api
    from kubevouch.machinery.codec import json_codec
    from kubevouch.phases import signers
    from kubevouch.util.clock import SystemClock

    if ca_secret and ca_name:
        raise click.UsageError("--ca-secret and --ca-name are two CAs, expected one")
    called = name or signers.name_of(signer_name)
    made = None if ca_secret or ca_name else _new_ca(ca_validity, ca_key_algorithm)
    spec = api.CertificateSignerSpec(
        signer_name=signer_name,
        description=description,
        ca=api.SignerCA(secret_name=ca_secret or ("" if ca_name else called), name=ca_name),
        subject=api.SignerSubject(common_names=list(common_name), organizations=list(organization)),
        alt_names=api.SignerAltNames(
            dns_names=list(dns), ip_ranges=list(ip), email_addresses=list(email), uris=list(uri)
        ),
        usages=api.SignerUsages(permitted=list(usage or ("digital signature", "key encipherment", "server auth"))),
        lifetime=api.SignerLifetime(
            default_seconds=_seconds(lifetime),
            max_seconds=_seconds(max_lifetime) if max_lifetime is not None else 0,
            spread_percent=spread,
        ),
        trust=api.SignerTrust(
            cluster_trust_bundle="bundle" in publish,
            config_map="config-map" in publish,
            overlap_seconds=_seconds(overlap),
        ),
    )
    if not any((dns, ip, email, uri, common_name, organization)):
        raise click.UsageError("nothing is permitted; expected one of --dns, --ip, --email, --uri, --common-name, …")
    try:
        obj, secret = signers.planned(called, spec, made, SystemClock().now())
    except signers.SignerCommandError as err:
        raise ui.CLIError(str(err), hint=err.hint) from err
    if dry_run:
        import json

        from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_SIGNERS

        tree = json.loads(json_codec.encode(obj))
        tree.pop("status", None)
        kind = {"apiVersion": CERTIFICATE_SIGNERS.api_version, "kind": CERTIFICATE_SIGNERS.kind}
        ui.document(kind | tree, "yaml")
        return
    _run(kubeconfig, lambda client: signers.create(client, obj, secret))
    if secret is not None:
        ui.step("CA made", f"secret {secret.metadata.namespace}/{secret.metadata.name}")
    ui.step(f"certificatesigner.kubevouch.io/{called} created", signer_name)
    ui.say(f"  its page: kubevouch signer describe {signer_name}")


def _seconds(duration: dt.timedelta) -> int:
    return int(duration.total_seconds())


def _new_ca(validity: dt.timedelta, algorithm: str) -> NewCA:
    from kubevouch.phases.signers import NewCA

    if validity <= dt.timedelta():
        raise click.BadParameter("expected a duration such as 87600h", param_hint="'--ca-validity'")
    return NewCA(validity, KeyAlgorithm(algorithm))


@signer.command()
@click.argument("name")
@_VALIDITY
@_ALGORITHM
@kubeconfig_option
def rotate(name: str, ca_validity: dt.timedelta, ca_key_algorithm: str, kubeconfig: Path | None) -> None:
    """Give the signer NAME another CA: it is published first, and signs once the signer's overlap is over.

    The former CA signs the next one and goes on until then, and stays published as long as what it has issued is valid.
    """
    from kubevouch.phases import signers
    from kubevouch.util.clock import SystemClock

    made = _new_ca(ca_validity, ca_key_algorithm)
    later = _run(kubeconfig, lambda client: signers.rotate(client, name, made, SystemClock().now()))
    ui.step("next CA made", later.certificate.subject.common_name)
    ui.say("  kubevouch signer list shows when it signs")


@signer.command()
@click.argument("name")
@kubeconfig_option
def trust(name: str, kubeconfig: Path | None) -> None:
    """Print the CAs to trust for what the signer NAME issues, in PEM."""
    from kubevouch.phases import signers

    async def work(client: Client) -> str:
        return signers.trust_of(await signers.find(client, name))

    ui.raw(_run(kubeconfig, work))


@signer.command()
@click.argument("name")
@kubeconfig_option
def resume(name: str, kubeconfig: Path | None) -> None:
    """Let the signer NAME sign again after it has stopped over a certificate that was not allowed."""
    from kubevouch.phases import signers

    obj = _run(kubeconfig, lambda client: signers.resume(client, name))
    ui.say(f"{obj.spec.signer_name} may sign again")
