"""``kubevouch revoke webhook`` and ``kubevouch revoke webhook-config``."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.ledger.interface import ReadableLedger
    from kubevouch.phases.deny_list import DenyList

_FILE = click.Path(path_type=Path, dir_okay=False)
_SHOWN = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command()
@click.option("--bind-address", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=10268, show_default=True, help="Port; 0 picks a free one."
)
@click.option("--tls-cert-file", type=_FILE, required=True, help="What to serve with.")
@click.option("--tls-private-key-file", type=_FILE, required=True, help="Its key.")
@click.option(
    "--client-ca-file", type=_FILE,
    help="Whose certificates may ask: the API server shows one.  [default: everybody who reaches the port may]",
)  # fmt: skip
@kubeconfig_option
def webhook(
    bind_address: str,
    port: int,
    tls_cert_file: Path,
    tls_private_key_file: Path,
    client_ca_file: Path | None,
    kubeconfig: Path | None,
) -> None:
    """Tell a kube-apiserver, which asks before each request, who comes with a revoked certificate.

    Run one beside each API server: it reads CertificateRevocations and CertificateSigningRequests, and writes nothing.
    """
    from kubevouch.standalone.deny_webhook import (
        DenyWebhookError,
        DenyWebhookOptions,
        DenyWebhookOptionsError,
        running,
    )
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock

    logs.configure(SystemClock(), level="info")
    config = rest_config_of(kubeconfig)
    options = DenyWebhookOptions(bind_address, port, (tls_cert_file, tls_private_key_file), client_ca_file)
    if client_ca_file is None:
        ui.warning("without --client-ca-file whoever reaches the port can ask who is revoked")

    async def serve() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with running(config, options, SystemClock()) as listening:
            ui.field("deny webhook", f"https://{bind_address}:{listening}/authorize")
            await stop.wait()

    try:
        run_async(serve())
    except DenyWebhookOptionsError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
    except DenyWebhookError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.PREFLIGHT) from err


@click.command("webhook-config")
@click.option(
    "--into", type=click.Path(path_type=Path, file_okay=False), default=".", show_default=True,
    help="Where to write authorization-config.yaml and deny-webhook.conf.",
)  # fmt: skip
@click.option(
    "--server", default="https://127.0.0.1:10268/authorize", show_default=True, help="URL of the webhook, with path."
)
@click.option("--ca-file", type=_SHOWN, help="CA of the webhook's certificate.")
@click.option("--client-certificate", type=_SHOWN, help="What the API server shows to the webhook.")
@click.option("--client-key", type=_SHOWN, help="Its key.")
@click.option(
    "--kubeconfig-path", default="", metavar="FILE",
    help="Where the API server finds deny-webhook.conf.  [default: where it is written]",
)  # fmt: skip
@click.option(
    "--failure-policy", type=click.Choice(["Deny", "NoOpinion"]), default="Deny", show_default=True,
    help="While the webhook is away: let nobody pass who comes with a certificate, or everybody.",
)  # fmt: skip
@click.option(
    "--webhook-user",
    default="",
    metavar="NAME",
    help="As whom the webhook reads this API server with a certificate: it is not asked about itself.",
)
@click.option(
    "--deny-list",
    is_flag=True,
    help="Ask no webhook: the file has the fingerprints that are revoked now, and is written again for others.",
)
@click.option(
    "--skip-check", is_flag=True, help="Write the files without asking the webhook first: if it does not run yet."
)
@click.option("--ledger", type=_FILE, help="With --deny-list: a ledger, which counts with all that the API tells.")
@click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False),
    help="With --deny-list: the data directory of kubevouch up, for its ledger.",
)  # fmt: skip
@ui.facts_option("files", "fingerprints", "empty")
@kubeconfig_option
def webhook_config(
    into: Path,
    server: str,
    ca_file: Path | None,
    client_certificate: Path | None,
    client_key: Path | None,
    kubeconfig_path: str,
    failure_policy: str,
    webhook_user: str,
    deny_list: bool,
    skip_check: bool,
    ledger: Path | None,
    data_dir: Path | None,
    output: str,
    kubeconfig: Path | None,
) -> None:
    """Write what a kube-apiserver is given as --authorization-config: the webhook first, then Node and RBAC.

    It excludes --authorization-mode. Both files are read again when they change. The certificate of system:masters is
    never asked about, and a watch goes on until it ends.

    The webhook is asked first, with what is going to be written. If it does not answer as it should, nothing is written
    and the exit code is 2.
    """
    from kubevouch.phases import deny_webhook_config as made
    from kubevouch.util.files import make_folder, read_private, read_regular, write_atomically

    def contents(path: Path | None) -> bytes:
        return b"" if path is None else read_regular(path, 1 << 20)

    if (client_certificate is None) != (client_key is None):
        raise ui.CLIError("--client-certificate and --client-key come together", code=ExitCode.INVALID)
    if not deny_list:
        _verify_address(server)
        _warn_of_strangers(ca_file, client_certificate, failure_policy)
        if skip_check:
            ui.warning(
                f"nobody has asked {server}: if the webhook does not answer there, --failure-policy {failure_policy} "
                + ("lets nobody pass who comes with a certificate" if failure_policy == "Deny" else "lets all pass")
            )
    ledger = ledger or (data_dir / "ledger.db" if data_dir else None)
    if ledger is not None and not deny_list:
        raise ui.CLIError("--ledger and --data-dir come with --deny-list", code=ExitCode.INVALID)
    found = _deny_list(kubeconfig, ledger) if deny_list else None
    fingerprints = [] if found is None else list(found.fingerprints)
    if len(fingerprints) > made.MAX_LISTED:
        raise ui.CLIError(
            f"got {len(fingerprints)} fingerprints, expected {made.MAX_LISTED} at most",
            hint="kubevouch revoke webhook has no such bound",
        )
    files = {into / made.KUBECONFIG_FILE: "", into / made.CONFIG_FILE: ""}
    reference, (conf, config) = kubeconfig_path or str((into / made.KUBECONFIG_FILE).resolve()), files
    if deny_list:
        files[conf] = made.kubeconfig(made.NOBODY)
        files[config] = made.configuration(reference, failure_policy="Deny", conditions=[made.deny_list(fingerprints)])
    else:
        key = b"" if client_key is None else read_private(client_key, 1 << 20)
        files[conf] = made.kubeconfig(server, contents(ca_file), contents(client_certificate), key)
        if not skip_check:
            _ask(server, files[conf])
        files[config] = made.configuration(
            reference, failure_policy=failure_policy, conditions=[made.is_not(webhook_user)] if webhook_user else ()
        )
    make_folder(into)
    for path, text in files.items():
        write_atomically(path, text.encode())
    empty = [] if found is None else list(found.empty)
    if output != "text":
        written = [str(path) for path in files]
        ui.document({"files": written, "fingerprints": len(fingerprints), "empty": empty}, output)
    else:
        for path in files:
            ui.step("written", str(path))
        if found is not None:
            _tell(found)
        ui.say(f"  kube-apiserver --authorization-config={config}, and no --authorization-mode")
    if empty:
        raise _nothing(empty, "the files have the certificates of the others")


def _tell(found: DenyList) -> None:
    if not found.revocations:
        ui.say("  nothing is revoked: the list is empty, and refuses nobody")
        return
    certificates = "1 certificate" if len(found.fingerprints) == 1 else f"{len(found.fingerprints)} certificates"
    revocations = "1 revocation" if found.revocations == 1 else f"{found.revocations} revocations"
    ui.say(f"  refuses {certificates} of {revocations}")
    for name in found.later:
        ui.say(f"  of {name} nothing is known yet: write the list again once it reaches something")


def _nothing(empty: list[str], what: str) -> ui.CLIError:
    names = ", ".join(empty[:5]) + (", …" if len(empty) > 5 else "")
    return ui.CLIError(
        f"got no certificate of {names}, expected at least one of each revocation: {what}",
        hint="a list has fingerprints alone: revoke the certificates by --certificate FILE, or give the ledger of"
        " whoever has signed them by --ledger FILE",
        code=ExitCode.NOTHING_FOUND,
    )


@contextmanager
def opened(path: Path | None) -> Iterator[ReadableLedger | None]:
    """The ledger in a file; None without one. Raises LedgerError."""
    from kubevouch.phases import known_certificates

    if path is None:
        yield None
        return
    with known_certificates.ledger_file(path) as connection:
        yield known_certificates.LedgerReader(connection)


def _deny_list(kubeconfig: Path | None, ledger: Path | None) -> DenyList:
    """Raises CLIError where nothing at all is known of what is revoked."""
    from kubevouch.ledger.interface import LedgerError
    from kubevouch.phases import known_certificates, revocation
    from kubevouch.phases.deny_list import deny_list
    from kubevouch.phases.revocation import RevocationError
    from kubevouch.util.clock import SystemClock

    async def listed() -> DenyList:
        async with connected(rest_config_of(kubeconfig)) as client:
            revoked = await revocation.revocations(client)
            now = client.server_now(SystemClock())
            with opened(ledger) as beside:
                issued = await known_certificates.everything(client, beside, ledger)
                return await deny_list(issued, revoked, now=now)

    try:
        found = run_async(listed())
    except RevocationError as err:
        raise ui.CLIError(str(err), hint=err.hint) from err
    except LedgerError as err:
        raise ui.CLIError(str(err)) from err
    if found.empty and not found.fingerprints:
        raise _nothing(list(found.empty), "nothing is written")
    return found


def _verify_address(server: str) -> None:
    """Raises CLIError."""
    from kubevouch.phases.deny_webhook_answer import WebhookAddressError, verify_address

    try:
        verify_address(server)
    except WebhookAddressError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err


def _ask(server: str, kubeconfig_text: str) -> None:
    """Raises CLIError if what the API server would ask does not answer it."""
    from kubevouch.phases.deny_webhook_answer import WebhookAnswerError, verify_webhook
    from kubevouch.util.clock import SystemClock

    try:
        run_async(verify_webhook(kubeconfig_text, SystemClock()))
    except WebhookAnswerError as err:
        raise ui.CLIError(
            f"nothing was written, as the webhook at {server} does not answer as an API server needs it: {err}",
            hint=err.hint,
            code=ExitCode.PREFLIGHT,
        ) from err


def _warn_of_strangers(ca_file: Path | None, client_certificate: Path | None, failure_policy: str) -> None:
    """Raises CLIError for what lets nobody pass at all."""
    if ca_file is None and failure_policy == "Deny":
        raise ui.CLIError(
            "got --failure-policy Deny without --ca-file, expected the CA of the webhook's certificate: the API server"
            " would not trust the webhook, and deny everybody who comes with a certificate",
            hint="name the CA by --ca-file FILE; --failure-policy NoOpinion lets everybody pass meanwhile",
            code=ExitCode.INVALID,
        )
    if ca_file is None:
        ui.warning(
            "without --ca-file the API server trusts the webhook only by a CA of its system: any other is as if it"
            " were away, and what is revoked passes"
        )
    if client_certificate is None:
        ui.warning(
            "without --client-certificate and --client-key the API server shows no certificate: a webhook with"
            " --client-ca-file does not answer it"
        )
