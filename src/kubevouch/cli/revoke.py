"""``kubevouch revoke``."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.enforced import show_enforcement, verify_in_force
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.revoke_webhook import opened, webhook, webhook_config
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import CertificateRevocation, RevocationTargets
    from kubevouch.client.interface import Client
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.phases.known_certificates import Issued
    from kubevouch.phases.revocation import Plan, Way
    from kubevouch.phases.revocation_enforcement import InForce
    from kubevouch.phases.revocation_steps import Step
    from kubevouch.pki.x509.x509_certificate import Certificate

_REASONS = (
    "unspecified", "keyCompromise", "cACompromise", "affiliationChanged", "superseded", "cessationOfOperation",
    "certificateHold", "privilegeWithdrawn", "aACompromise",
)  # fmt: skip
_HEX = re.compile(r"[0-9a-f]+", re.ASCII)
_MOMENTS = ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"]
_MAX_FILE = 8 << 20
_SHOWN = 200
_SHOWN_CERTIFICATES = "kubevouch.cli.revoke.certificates"
_SHOWN_COMMANDS = 20


def _digits(text: str, most: int, what: str) -> str:
    """As openssl prints it, or plain; without zeros in front."""
    plain = text.strip().replace(":", "").lower().removeprefix("0x").removeprefix("serial=")
    if not _HEX.fullmatch(plain):
        raise click.BadParameter(f"got {text[:80]!r}, expected {what} in hexadecimal digits")
    plain = plain.lstrip("0") or "0"
    if len(plain) > most:
        raise click.BadParameter(
            f"got {len(plain)} hexadecimal digits, expected {most} at most: RFC 5280 has no longer"
        )
    return plain


def _key_id(text: str) -> str:
    plain = text.strip().replace(":", "").lower()
    if plain and (not _HEX.fullmatch(plain) or len(plain) % 2 or len(plain) > 128):
        raise click.BadParameter(f"got the issuer {text[:80]!r}, expected a key identifier in hexadecimal digits")
    return plain


def _serials(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> list[str]:
    return [_digits(each, 40, "a serial number") for each in values]


def _digest_of(text: str, what: str) -> str:
    plain = text.strip().replace(":", "").lower().removeprefix("sha256:").removeprefix("x509sha256=")
    if len(plain) != 64 or not _HEX.fullmatch(plain):
        raise click.BadParameter(f"got {text[:80]!r}, expected a PEM file, or {what} in 64 hexadecimal digits")
    return plain


def _certificates(ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> list[str]:
    shown = {each: _of_file(each)[0] for each in values if Path(each).exists()}
    ctx.meta[_SHOWN_CERTIFICATES] = list(shown.values())
    return [shown[each].fingerprint().hex() if each in shown else _digest_of(each, "the SHA-256 of a certificate")
            for each in values]  # fmt: skip


def _keys(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> list[str]:
    import hashlib

    return [hashlib.sha256(_of_file(each)[0].public_key.canonical_info).hexdigest() if Path(each).exists() else
            _digest_of(each, "the SHA-256 of a public key") for each in values]  # fmt: skip


def _of_file(name: str) -> list[Certificate]:
    from kubevouch.pki.errors import ParseError
    from kubevouch.pki.x509 import x509_certificate
    from kubevouch.util.files import read_public, warn_of_exposure

    # Kubelets keep theirs behind a link. Who may write the file chooses whom this revokes.
    warn_of_exposure(Path(name), ui.warning, public=True)
    try:
        return x509_certificate.parse_bundle(read_public(Path(name), 1 << 20))
    except (OSError, ParseError) as err:
        raise click.BadParameter(f"{name}: {err}") from err


def _moment(_ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    from datetime import UTC

    for layout in _MOMENTS if value else ():
        try:
            return datetime.strptime(str(value), layout).replace(tzinfo=UTC)
        except ValueError:
            continue
    if value:
        raise click.BadParameter(f"got {value!r}, expected a moment such as 2026-11-22T20:00:00Z", param=param)
    return None


def _reason(_ctx: click.Context, param: click.Parameter, value: str) -> str:
    known = {each.lower(): each for each in _REASONS}
    if value.lower() not in known:
        raise click.BadParameter(f"got {value!r}, expected one of {', '.join(_REASONS)}", param=param)
    return known[value.lower()]


@click.group(cls=ui.Group, invoke_without_command=True)
@click.option("--serial", "serials", multiple=True, metavar="HEX", callback=_serials, help="A serial number.")
@click.option(
    "--serials-file", type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Serial numbers, one in a line; 100,000 at most.",
)  # fmt: skip
@click.option(
    "--issuer", default="", metavar="KEY-ID", help="Whose serial numbers they are: the CA's subject key identifier."
)
@click.option(
    "--certificate", "certificates", multiple=True, metavar="FILE|SHA256", callback=_certificates,
    help="A certificate, by its PEM file or its fingerprint.",
)  # fmt: skip
@click.option(
    "--key", "keys", multiple=True, metavar="FILE|SHA256", callback=_keys,
    help="Every certificate of a key, now and later: a PEM file of one, or the SHA-256 of its SubjectPublicKeyInfo.",
)  # fmt: skip
@click.option("--user", "users", multiple=True, metavar="NAME", help="What a user has: the common name.")
@click.option(
    "--node", "nodes", multiple=True, metavar="NODE", help="What a node has, and tokens that are bound to it."
)
@click.option("--requester", "requesters", multiple=True, metavar="NAME", help="What a user has asked for.")
@click.option(
    "--token", "tokens", multiple=True, metavar="ID", help="Of the machines that a bootstrap token has let in."
)
@click.option("--since", metavar="TIME", callback=_moment, help="Everything that was issued from then on, in UTC.")
@click.option(
    "--until", metavar="TIME", callback=_moment, help="Only what was issued until then, in UTC.  [default: now]"
)
@click.option(
    "--reason", default="unspecified", show_default=True, callback=_reason, metavar="REASON",
    help=f"Why, as RFC 5280 has it: {', '.join(_REASONS)}. Only certificateHold can be lifted.",
)  # fmt: skip
@click.option("-m", "--message", default="", help="Why, for people.")
@click.option("--name", default="", help="What the object is called.  [default: by time and contents]")
@click.option(
    "--ledger", type=click.Path(path_type=Path, dir_okay=False), help="The ledger, to look in for what was issued."
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="The data directory of kubevouch up, for its ledger.",
)
@click.option("--dry-run", is_flag=True, help="Say whom it would cut off, and change nothing.")
@click.option("--even-myself", is_flag=True, help="Also if it cuts off whoever asks.")
@click.option("--even-the-last-admin", is_flag=True, help="Also if no other administrator is known.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@ui.facts_option(
    "revocations", "certificates", "source", "counted", "unknown", "nobody", "ways", "inForce", "steps", "dryRun"
)  # fmt: skip
@kubeconfig_option
@click.pass_context
def revoke(
    ctx: click.Context,
    /,
    reason: str,
    message: str,
    name: str,
    dry_run: bool,
    even_myself: bool,
    even_the_last_admin: bool,
    yes: bool,
    output: str,
    kubeconfig: Path | None,
    ledger: Path | None,
    data_dir: Path | None,
    **named: Any,
) -> None:
    """Let certificates count no more, by whatever names them; look at what is revoked, and lift holds.

    The API server of kubevouch answers them with 401 at once, on open connections too. A kube-apiserver is asked
    whether it refuses them: where it does not, the exit code is 7, and it is said until when they count. What else
    learns of it, and for how long the rest stays exposed, is listed.
    """
    if ctx.invoked_subcommand is not None:
        return
    import msgspec

    from kubevouch.phases import revocation
    from kubevouch.phases.revocation_enforcement import settled
    from kubevouch.util.clock import SystemClock

    config = rest_config_of(kubeconfig)
    told: Sequence[InForce] = ()
    asked = _Asked(config, named, reason, message, name, ledger or (data_dir / "ledger.db" if data_dir else None))

    async def work() -> None:
        nonlocal told
        async with asked.prepared() as (client, issued, plan, now):
            own = _own_certificates(config)
            if not even_myself:
                await revocation.verify_not_oneself(client, plan, own, now=now)
            if not even_the_last_admin:
                await revocation.verify_an_admin_is_left(client, issued, plan, own, now=now)
            reaching = await revocation.ways(client, plan)
            remaining = await _steps(client, plan)
            if not dry_run:
                if not yes and output == "text":
                    _show(plan, issued)
                if not yes and not ui.confirmed(f"Revoke them ({reason}) in {config.options.server}?"):
                    raise ui.CLIError("aborted; nothing was changed", hint="--yes does not ask")
                made = await revocation.revoke(client, plan)
                told = await settled(client, made, issued.ledger, SystemClock(), ctx.meta[_SHOWN_CERTIFICATES])
            if output != "text":
                tree = _document(plan, issued, reaching, told, dry_run=dry_run)
                ui.document(tree | {"steps": [msgspec.to_builtins(each) for each in remaining]}, output)
            else:
                if dry_run or yes:
                    _show(plan, issued)
                _show_done(plan, reaching, told, dry_run=dry_run)
                _show_steps(remaining)
            _expect_found(plan, dry_run=dry_run)
            verify_in_force(told)

    with _told():
        run_async(work())


def _expect_found(plan: Plan, *, dry_run: bool) -> None:
    """Raises CLIError where somebody or something was named of which no certificate is known."""
    if not plan.nobody:
        return
    names = ", ".join(map(ui.one_line, plan.nobody[:5])) + (", …" if len(plan.nobody) > 5 else "")
    what = "would be revoked" if dry_run else "is revoked, and stands"
    raise ui.CLIError(
        f"got {names}, expected at least one certificate of each that is known and has not ended; none was found",
        hint=f"what was named {what}; a kube-apiserver learns of fingerprints alone: name the certificate by"
        " --certificate FILE, or give the ledger by --ledger FILE",
        code=ExitCode.NOTHING_FOUND,
    )


class _Asked:
    """What was asked for, on its way to a plan."""

    def __init__(
        self, config: RESTConfig, named: dict[str, Any], reason: str, message: str, name: str, ledger: Path | None
    ) -> None:
        self._config = config
        self._named = named
        self._reason = reason
        self._message = message
        self._name = name
        self._ledger = ledger

    @asynccontextmanager
    async def prepared(self) -> AsyncIterator[tuple[Client, Issued, Plan, datetime]]:
        from kubevouch.phases import known_certificates, revocation
        from kubevouch.util.clock import SystemClock

        named = self._named
        serials = [*named.pop("serials"), *_from_file(named.pop("serials_file"))]
        if len(serials) > revocation.MAX_SERIALS:
            raise revocation.RevocationError(
                f"got {len(serials)} serial numbers, expected {revocation.MAX_SERIALS} at most",
                "revoke them in parts, or the key or the period that they have in common",
            )
        issuer, since, until = named.pop("issuer"), named.pop("since"), named.pop("until")
        if not serials and since is None and not any(named.values()):
            raise click.UsageError(
                "nothing is named, expected --serial, --certificate, --key, --user, --node, --requester, --token or "
                "--since"
            )
        async with connected(self._config) as client:
            # By the server's clock certificates are issued: this machine's may be behind it.
            await client.raw("GET", "/version")
            now = client.server_now(SystemClock())
            with opened(self._ledger) as ledger:
                issued = await known_certificates.everything(client, ledger, self._ledger)
                targets = _targets(named, since, until, now)
                if serials:
                    listed = await revocation.issuers_of(
                        issued, dict.fromkeys(serials), issuer=_key_id(issuer), fallback=_authority_of(self._config)
                    )
                    targets = _with_serials(targets, listed)
                by = self._config.user_name
                name = self._name or revocation.default_name(targets, now)
                objects = revocation.objects_of(name, targets, self._reason, self._message, by)
                yield client, issued, await revocation.planned(issued, objects, now=now), now


def _from_file(path: Path | None) -> list[str]:
    from kubevouch.util.files import read_regular

    if path is None:
        return []
    text = read_regular(path, _MAX_FILE).decode("ascii", errors="replace")
    return [_digits(line, 40, "a serial number") for line in text.splitlines() if line.strip()]


def _targets(named: dict[str, Any], since: datetime | None, until: datetime | None, now: datetime) -> RevocationTargets:
    from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import IssuedPeriod, RevocationTargets
    from kubevouch.machinery.text.times import Time

    periods = [IssuedPeriod(since=Time.of(since), until=Time.of(until or now))] if since is not None else []
    return RevocationTargets(
        **{name: list(dict.fromkeys(values)) for name, values in named.items()},
        periods=periods,
        issued_until=None if until is None else Time.of(until),
    )


def _with_serials(targets: RevocationTargets, serials: list[Any]) -> RevocationTargets:
    import msgspec

    return msgspec.structs.replace(targets, serials=serials)


def _tls(config: RESTConfig) -> tuple[bytes, bytes]:
    """The CA bundle and the client's certificates of a kubeconfig, in PEM."""
    from kubevouch.client.tls import TLSFiles
    from kubevouch.util.clock import SystemClock

    current = TLSFiles(config.tls, SystemClock()).current()
    return current.ca_bundle or b"", current.certificate


def _own_certificates(config: RESTConfig) -> list[Certificate]:
    from kubevouch.pki.x509 import x509_certificate

    text = _tls(config)[1]
    return x509_certificate.parse_bundle(text) if text else []


def _authority_of(config: RESTConfig) -> str:
    """The cluster's one CA; empty while it has several, or none that is known."""
    from kubevouch.pki.x509 import x509_certificate
    from kubevouch.revocation.revocations import authority_id

    bundle = _tls(config)[0]
    found = x509_certificate.parse_bundle(bundle) if bundle else []
    return authority_id(found[0]).hex() if len(found) == 1 else ""


@contextmanager
def _told() -> Iterator[None]:
    """Failures as one line."""
    from kubevouch.ledger.interface import LedgerError
    from kubevouch.phases.revocation import CutsOffError, HeldError, RevocationError

    try:
        yield
    except (CutsOffError, HeldError) as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.PREFLIGHT) from err
    except RevocationError as err:
        raise ui.CLIError(str(err), hint=err.hint) from err
    except LedgerError as err:
        raise ui.CLIError(str(err)) from err


# ------------------------------------------------------------------ what is shown


def _show(plan: Plan, issued: Issued) -> None:
    shown = plan.reached[:_SHOWN]
    if shown:
        header = ("SUBJECT", "SERIAL", "SIGNER", "REQUESTER", "TOKEN", "UNTIL")
        rows = [tuple(_certificate(each).values())[:6] for each in shown]
        ui.lines(ui.table(header, rows))
    more = len(plan.reached) - len(shown)
    count = "1 certificate that has" if len(plan.reached) == 1 else f"{len(plan.reached)} certificates that have"
    ui.say(f"{count} not ended" + (f", {more} of them not shown" if more else ""))
    if plan.reached:
        ui.say(f"  {plan.counted}")
    for source in issued.ledger.sources:
        ui.say(f"  looked at {source.name}" + (f": {source.limits}" if source.limits else ""))
    nameless = sum(not each.certificate for each in plan.reached)
    if nameless:
        ui.say(f"  {nameless} known by number alone: no deny list of a kube-apiserver can refuse them by that")
    if plan.unknown:
        some = ", ".join(plan.unknown[:5])
        many = "1 serial number" if len(plan.unknown) == 1 else f"{len(plan.unknown)} serial numbers"
        ui.say(f"  {many} that nobody knows of: {some}")
    for name in plan.nobody[:_SHOWN]:
        ui.say(f"  no certificate of {ui.one_line(name)} is known that has not ended")
    for name in plan.later[:_SHOWN]:
        ui.say(f"  no certificate of {ui.one_line(name)} is known yet; one that comes is revoked")


def _show_done(plan: Plan, ways: Sequence[Way], told: Sequence[InForce], *, dry_run: bool) -> None:
    ui.say("")
    for obj in plan.objects if dry_run else ():
        ui.say(f"would be made: {obj.metadata.name}")
    for each in told:
        if each.is_true:
            ui.step("revoked", each.name)
        else:
            ui.say("  ", ui.styled("✗", fg="red"), f" stored, and not in force   {each.name}")
        show_enforcement([each])
    for token in dict.fromkeys(each for obj in plan.objects for each in obj.spec.revoked.tokens):
        ui.say(f"  the token itself still lets machines in; to stop that: kubevouch token delete {token}")
    ui.say("")
    # Of a server that was asked, it is said above what it answered.
    was_asked = any(not each.by_own_server for each in told)
    for way in ways[2:] if was_asked else ways:
        tick = {True: "✓", False: "✗", None: "?"}[way.reaches]
        ui.say(f"  {tick} {way.name}: {way.exposed}")


async def _steps(client: Client, plan: Plan) -> list[Step]:
    """What people have to do besides, by what the revocation names and reaches."""
    from kubevouch.phases import revocation_steps

    users, nodes, groups = revocation_steps.named_by(plan.objects, plan.reached)
    found = await revocation_steps.surroundings(client, users, nodes)
    return revocation_steps.steps(users, nodes, groups, found)


def _show_steps(steps: Sequence[Step]) -> None:
    if steps:
        ui.say("")
        ui.say("what remains, in this order; nothing of it is done here:")
    for number, each in enumerate(steps, 1):
        ui.say(f"  {number}. {each.step}: {each.why}")
        for command in each.commands[:_SHOWN_COMMANDS]:
            ui.say(f"     {command}")
        if len(each.commands) > _SHOWN_COMMANDS:
            ui.say(f"     and {len(each.commands) - _SHOWN_COMMANDS} more: -o json lists all")


def _certificate(entry: Any) -> dict[str, str]:
    ends = "" if entry.not_after is None else f"{entry.not_after:%Y-%m-%dT%H:%M:%SZ}"
    return {
        "subject": entry.subject, "serial": entry.serial, "signer": entry.signer, "requester": entry.requester,
        "token": entry.token, "until": ends, "issuer": entry.issuer_key, "request": entry.request,
    }  # fmt: skip


def _document(
    plan: Plan, issued: Issued, ways: Sequence[Way], told: Sequence[InForce], *, dry_run: bool
) -> dict[str, Any]:
    from kubevouch.revocation.known import fingerprint_of

    return {
        "revocations": [each.metadata.name for each in plan.objects],
        "certificates": [
            {**_certificate(each), "fingerprint": fingerprint_of(each), "from": list(sources)}
            for each, sources in zip(plan.reached, plan.sources, strict=True)
        ],
        "source": issued.source,
        "counted": plan.counted,
        "unknown": list(plan.unknown),
        "nobody": list(plan.nobody),
        "ways": [{"way": each.name, "reaches": each.reaches, "exposed": each.exposed} for each in ways],
        "inForce": [each.tree() for each in told],
        "dryRun": dry_run,
    }


# ------------------------------------------------------------------ what is revoked


@revoke.command("list")
@ui.output_option
@kubeconfig_option
def list_(output: str, kubeconfig: Path | None) -> None:
    """List what is revoked: why, since when, how many certificates that reaches, and whether it is in force.

    IN FORCE is what the controllers have seen last; kubevouch revoke show NAME asks the API server.
    """
    from kubevouch.phases import revocation

    async def work() -> list[CertificateRevocation]:
        async with connected(rest_config_of(kubeconfig)) as client:
            return await revocation.revocations(client)

    with _told():
        found = run_async(work())
    if output != "text":
        ui.document([_tree(each) for each in found], output)
    elif found:
        rows = [(each["name"], each["reason"], each["since"], str(each["certificates"]), each["inForce"]["status"],
                 each["until"], each["message"]) for each in map(_tree, found)]  # fmt: skip
        ui.lines(ui.table(("NAME", "REASON", "SINCE", "CERTIFICATES", "IN FORCE", "UNTIL", "MESSAGE"), rows))
    else:
        ui.say("nothing is revoked")


@revoke.command()
@click.argument("name")
@ui.output_option
@kubeconfig_option
def show(name: str, output: str, kubeconfig: Path | None) -> None:
    """Show one revocation: whom it names, what it has reached, and whether the API server refuses that now."""
    from kubevouch.phases import known_certificates, revocation
    from kubevouch.phases.revocation_enforcement import look
    from kubevouch.util.clock import SystemClock

    async def work() -> tuple[CertificateRevocation, InForce]:
        async with connected(rest_config_of(kubeconfig)) as client:
            obj = await revocation.one(client, name)
            issued = await known_certificates.everything(client)
            return obj, await look(client, obj, issued.ledger, SystemClock())

    with _told():
        obj, seen = run_async(work())
    tree = _tree(obj) | {"inForce": seen.tree()}
    if output != "text":
        ui.document(tree, output)
        return
    for key in ("name", "reason", "since", "by", "message", "certificates", "until"):
        ui.field(key, str(tree[key]))
    ui.field("in force", f"{seen.status} ({seen.reason}): {ui.one_line(seen.message)}")
    for key, values in tree["revoked"].items():
        ui.field(key, ", ".join(map(str, values[:20])) + (f" and {len(values) - 20} more" if len(values) > 20 else ""))


@revoke.command()
@click.argument("name")
@kubeconfig_option
def lift(name: str, kubeconfig: Path | None) -> None:
    """Let what is on hold (certificateHold) count again; what was revoked for another reason stays revoked."""
    from kubevouch.phases import revocation

    async def work() -> None:
        async with connected(rest_config_of(kubeconfig)) as client:
            await revocation.lift(client, name)

    with _told():
        run_async(work())
    ui.step("lifted", name)


def _tree(obj: CertificateRevocation) -> dict[str, Any]:
    from kubevouch.machinery.text.times import Time
    from kubevouch.phases.revocation_enforcement import written
    from kubevouch.revocation.revocations import revoked_by

    revoked, targets = revoked_by(obj), obj.spec.revoked
    named: dict[str, list[Any]] = {
        "serials": [f"{group.issuer}/{number}" for group in targets.serials for number in group.numbers],
        "periods": [f"{each.since} to {each.until}" for each in targets.periods],
    }
    named |= {
        name: list(getattr(targets, name))
        for name in ("certificates", "keys", "users", "nodes", "requesters", "tokens")
    }
    return {
        "name": obj.metadata.name,
        "reason": obj.spec.reason,
        "since": str(Time.of(revoked.at)),
        "by": obj.spec.requested_by,
        "message": obj.spec.message,
        "certificates": obj.status.matched,
        "until": "" if obj.status.until is None else str(obj.status.until),
        "conditions": {each.type: each.status for each in obj.status.conditions},
        "inForce": written(obj).tree(),
        "revoked": {name: values for name, values in named.items() if values},
    }


revoke.add_command(webhook)
revoke.add_command(webhook_config)
