"""``kubevouch certs``."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import names as names_of
from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.control_plane import layout_flags, settings_flags, take_layout, take_settings
from kubevouch.cli.flags.paths import FOLDER
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.phases.certificates.certs_expiration import Expiration, Expirations
    from kubevouch.phases.certificates.certs_renewal import Outcome
    from kubevouch.phases.certificates.control_plane_files import Credential, Layout
    from kubevouch.phases.certificates.served_certificates import Served

ALL = "all"
_DONE = (
    "Done renewing certificates. You must restart the kube-apiserver, kube-controller-manager, kube-scheduler and "
    "etcd, so that they can use the new certificates."
)


@click.group(cls=ui.Group)
def certs() -> None:
    """Look at a control plane's certificates, renew them, and have them signed elsewhere."""
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock

    logs.configure(SystemClock(), level="error")


# ------------------------------------------------------------------ check-expiration


@certs.command("check-expiration")
@ui.output_option
@layout_flags
def check_expiration(output: str, **flags: Any) -> None:
    """Show when the certificates of this control plane end."""
    from kubevouch.phases.certificates import certs_expiration
    from kubevouch.util.clock import SystemClock

    found = certs_expiration.check(take_layout(flags))
    now = SystemClock().now()
    if output == "text":
        ui.lines(text_tables(found, now))
        return
    ui.raw(document(found, now, output))


def text_tables(found: Expirations, now: dt.datetime) -> list[str]:
    """kubeadm's two tables."""
    header = ("CERTIFICATE", "EXPIRES", "RESIDUAL TIME", "CERTIFICATE AUTHORITY", "EXTERNALLY MANAGED")
    rows = [_row(each, now, each.signed_by) for each in found.certificates]
    of_authorities = [_row(each, now) for each in found.authorities]
    authority_header = ("CERTIFICATE AUTHORITY", "EXPIRES", "RESIDUAL TIME", "EXTERNALLY MANAGED")
    return [*ui.table(header, rows), "", *ui.table(authority_header, of_authorities)]


def _row(each: Expiration, now: dt.datetime, *between: str) -> tuple[str, ...]:
    from kubevouch.machinery.text.gotext import short_human_duration

    if each.not_after is None:
        return (f"!MISSING! {each.name}", "", "", *("" for _ in between), "")
    left = (each.not_after - now).total_seconds()
    residual = short_human_duration(left) if left > 0 else "<invalid>"
    external = "yes" if each.externally_managed else "no"
    return (each.name, f"{each.not_after:%b %d, %Y %H:%M} UTC", residual, *between, external)


def document(found: Expirations, now: dt.datetime, output: str) -> str:
    """kubeadm's CertificateExpirationInfo."""
    tree = {
        "kind": "CertificateExpirationInfo",
        "apiVersion": "output.kubeadm.k8s.io/v1alpha3",
        "certificates": [_tree(each, now) for each in found.certificates],
        "certificateAuthorities": [_tree(each, now) for each in found.authorities],
    }
    return json.dumps(tree, indent=4) + "\n" if output == "json" else ui.yaml_text(tree)


def _tree(each: Expiration, now: dt.datetime) -> dict[str, Any]:
    from kubevouch.machinery.text.times import Time

    return {
        "name": each.name,
        "expirationDate": None if each.not_after is None else str(Time.of(each.not_after)),
        "residualTime": int(each.residual(now).total_seconds()),
        "externallyManaged": each.externally_managed,
        **({"caName": each.signed_by} if each.signed_by else {}),
        "missing": each.not_after is None,
    }


# ------------------------------------------------------------------ renew


@certs.command()
@click.argument("names", metavar="NAME...|all", nargs=-1, required=True, shell_complete=names_of.certificates)
@click.option("--key-algorithm", default="", help="Another kind of key than the certificate has.")
@click.option("--skip-dial", is_flag=True, help="Do not look afterwards which certificate the ports serve.")
@ui.output_option
@layout_flags
def renew(names: tuple[str, ...], key_algorithm: str, skip_dial: bool, output: str, **flags: Any) -> int:
    """Renew certificates, however much time they have left.

    Names and kind of key stay. Nothing is restarted; what still serves an old certificate afterwards is named.
    """
    from kubevouch.phases.certificates import certs_renewal, control_plane_files
    from kubevouch.phases.certificates.certs import CertsError
    from kubevouch.phases.certificates.certs_renewal import Outcome
    from kubevouch.pki.errors import KeyMaterialError
    from kubevouch.pki.keys import KeyAlgorithm
    from kubevouch.util.clock import SystemClock

    layout = take_layout(flags)
    try:
        algorithm = KeyAlgorithm.parse(key_algorithm) if key_algorithm else None
        listed = control_plane_files.listed(layout)
        wanted = listed if ALL in names else tuple(control_plane_files.credential(name) for name in names)
    except (KeyMaterialError, CertsError) as err:
        raise ui.CLIError(str(err), hint=getattr(err, "hint", ""), code=ExitCode.INVALID) from err
    outcomes = []
    for each in wanted:
        outcome = certs_renewal.renew(each, layout, now=SystemClock().now(), algorithm=algorithm)
        outcomes.append(outcome)
        if output == "text":
            ui.say(told(each, outcome))
    renewed = [each.name for each, outcome in zip(wanted, outcomes, strict=True) if outcome is Outcome.RENEWED]
    if ALL in names and output == "text":
        ui.say()
        ui.say(_DONE)
    served = [] if skip_dial else run_async(_dial(renewed, layout))
    if output != "text":
        told_of = [{"name": each.name, "outcome": found.value} for each, found in zip(wanted, outcomes, strict=True)]
        ui.document({"certificates": told_of, "served": [_served_tree(each) for each in served]}, output)
    else:
        for found in served:
            tell_served(found)
    return ExitCode.DONE if renewed or ALL in names else ExitCode.FAILED


def told(credential: Credential, outcome: Outcome) -> str:
    """kubeadm's line."""
    from kubevouch.phases.certificates.certs_renewal import Outcome
    from kubevouch.phases.certificates.control_plane_files import display_name

    match outcome:
        case Outcome.MISSING:
            return f"MISSING! {credential.words}"
        case Outcome.EXTERNAL:
            return f"Detected external {display_name(credential.signed_by)}, {credential.words} can't be renewed"
        case _:
            return f"{credential.words} renewed"


async def _dial(renewed: list[str], layout: Layout) -> list[Served]:
    from kubevouch.phases.certificates import served_certificates
    from kubevouch.util.clock import SystemClock

    return [
        await served_certificates.look(name, endpoint, layout, SystemClock())
        for name, endpoint in served_certificates.ports(layout).items()
        if name in renewed
    ]


def _served_tree(each: Served) -> dict[str, Any]:
    """The stable form for scripts; ``current`` is null when nothing could be learnt."""
    return {
        "name": each.name,
        "address": each.address,
        "current": each.is_current,
        "process": each.process,
        "problem": each.problem,
    }


def tell_served(served: Served) -> None:
    """Whether a port serves the new certificate, and what to do if not. ``kubevouch up`` takes files in by itself."""
    who = served.process or "the process that listens there"
    if served.is_current is None:
        ui.waiting(f"{served.name} at {served.address} was not seen: {served.problem}")
    elif served.is_current:
        ui.step(f"{served.name} at {served.address} serves the new certificate", served.process)
    elif who.startswith("kubevouch "):
        ui.step(f"{served.name} at {served.address} is exchanged within seconds", who)
    else:
        ui.warning(f"{served.name} at {served.address}: {who} still serves the old certificate; restart it")


# ------------------------------------------------------------------ signed elsewhere


@certs.command("certificate-key")
@ui.facts_option("certificateKey")
def certificate_key(output: str) -> None:
    """Print a random key under which certificates can be uploaded. Nothing is asked or changed."""
    from kubevouch.pki import certificate_key as keys

    made = keys.generate()
    if output == "text":
        ui.say(made)
    else:
        ui.document({"certificateKey": made}, output)


@certs.command("generate-csr")
@click.argument("names", metavar="[NAME...]", nargs=-1)
@ui.facts_option("requests[].name", "requests[].file")
@settings_flags
@layout_flags
@click.pass_context
def generate_csr(ctx: click.Context, /, names: tuple[str, ...], output: str, **flags: Any) -> None:
    """Make keys and certificate requests, for an authority that signs elsewhere.

    NAME is one of those that check-expiration lists, or kubelet.conf for a worker; all of them by default.
    """
    from kubevouch.phases.certificates import certs_requests, control_plane_files
    from kubevouch.phases.certificates.certs import CertsError
    from kubevouch.phases.certificates.control_plane_pki import LOCAL_CONFS, kubeconfigs, pairs

    settings = take_settings(ctx, flags)
    layout = take_layout(flags, settings.cluster.certificates_dir)
    try:
        wanted = [control_plane_files.credential(name) for name in names] or [*pairs(settings), *kubeconfigs()]
    except CertsError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
    specs = control_plane_files.wanted_specs(settings.names)
    certs_requests.verify_absent(wanted, layout)
    made = []
    for each in wanted:
        server = (settings.local if each.name in LOCAL_CONFS else settings.shared).url
        path = certs_requests.generate(each, specs[each.name], layout, server=server, algorithm=settings.algorithm)
        made.append({"name": each.name, "file": str(path)})
        if output == "text":
            ui.say(str(path))
    if output != "text":
        ui.document({"requests": made}, output)


@certs.command("import")
@click.argument("assignments", metavar="[NAME=FILE...]", nargs=-1)
@click.option("--from", "folder", type=FOLDER, help="Folder with NAME.crt for each request that waits here.")
@ui.facts_option("certificates[].name", "certificates[].notAfter")
@layout_flags
def import_(assignments: tuple[str, ...], folder: Path | None, output: str, **flags: Any) -> None:
    """Take certificates that were signed elsewhere, once they are what was asked for.

    NAME is that of generate-csr, or ca, front-proxy-ca or etcd-ca for an authority's certificate.
    """
    from kubevouch.machinery.text.times import Time
    from kubevouch.phases.certificates import certs_requests, control_plane_files
    from kubevouch.phases.certificates.control_plane_files import AUTHORITIES, display_name
    from kubevouch.util.clock import SystemClock

    layout = take_layout(flags)
    files = _assigned(assignments)
    if folder is not None:
        known = [*map(display_name, AUTHORITIES), *(each.name for each in certs_requests.waiting(layout))]
        files = {name: folder / f"{name}.crt" for name in known if (folder / f"{name}.crt").exists()} | files
    if not files:
        raise ui.CLIError("nothing to import", hint="give NAME=FILE, or --from FOLDER", code=ExitCode.INVALID)
    authorities = {display_name(base): base for base in AUTHORITIES}
    now = SystemClock().now()
    taken = []
    # Authorities first: the others are checked against them.
    for name, path in sorted(files.items(), key=lambda item: item[0] not in authorities):
        if name in authorities:
            found = certs_requests.import_authority(authorities[name], path.read_bytes(), layout, now=now)
        else:
            credential = control_plane_files.credential(name)
            found = certs_requests.import_certificate(credential, path.read_bytes(), layout, now=now)
        taken.append({"name": name, "notAfter": str(Time.of(found.not_after))})
        ui.step(f"{name} imported", f"until {found.not_after:%Y-%m-%d %H:%M:%S} UTC", err=output != "text")
    if output != "text":
        ui.document({"certificates": taken}, output)


def _assigned(assignments: tuple[str, ...]) -> dict[str, Path]:
    files = {}
    for text in assignments:
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise ui.CLIError(f"got {text!r}, expected NAME=FILE", code=ExitCode.INVALID)
        files[name] = Path(path)
    return files
