"""``kubevouch credential``: an exec plug-in of client-go. A caller waits for it, so imports are late."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.attestation import attestation_options, take_attestation
from kubevouch.cli.flags.paths import FOLDER

if TYPE_CHECKING:
    from kubevouch.agent.attestation_settings import AttestationSettings
    from kubevouch.agent.certificate_store import CertificateStore, StoredPair

# As phases.join has them; help must not load it.
_CERTIFICATE_FOLDER = Path("var/lib/kubelet/pki")
_KUBELET_CONF = Path("etc/kubernetes/kubelet.conf")
_BOOTSTRAP_CONF = Path("etc/kubernetes/bootstrap-kubelet.conf")
_FILE = click.Path(path_type=Path, dir_okay=False)
_VARIABLE = "KUBERNETES_EXEC_INFO"


@click.command()
@click.option("--rootfs", type=FOLDER, help="Folder that stands before every path.")
@click.option("--cert-dir", type=FOLDER, help="Where the pairs are kept.  [default: /var/lib/kubelet/pki]")
@click.option(
    "--kubeconfig", type=_FILE, help="Says which cluster to ask for renewals.  [default: /etc/kubernetes/kubelet.conf]"
)
@click.option(
    "--bootstrap-kubeconfig",
    type=_FILE,
    help="To ask with while there is no certificate.  [default: /etc/kubernetes/bootstrap-kubelet.conf]",
)
@click.option("--node-name", default="", help="Name of the node.  [default: the certificate's, else the host name]")
@click.option("--timeout", type=float, default=15.0, show_default=True, help="Seconds for a renewal.")
@attestation_options("--provider")
def credential(
    rootfs: Path | None,
    cert_dir: Path | None,
    kubeconfig: Path | None,
    bootstrap_kubeconfig: Path | None,
    node_name: str,
    timeout: float,
    methods: tuple[str, ...],
    method_settings: tuple[str, ...],
    oldest_evidence: tuple[str, ...],
) -> None:
    """Print this node's certificate as an ExecCredential, for kubelet, kubectl and all that use client-go.

    In a kubeconfig: user.exec with command kubevouch, args [credential], interactiveMode Never and apiVersion
    client.authentication.k8s.io/v1. The certificate is renewed when a fifth of its life is left. With --provider the
    machine proves what it is; kubelet-authenticator-NAME is the same as kubevouch credential --provider NAME.
    """
    from kubevouch.agent.attestation_settings import is_given_for
    from kubevouch.agent.certificate_store import CertificateStore
    from kubevouch.agent.interface import CertificateStoreError, SettingsError
    from kubevouch.phases import exec_credential as phase
    from kubevouch.util.clock import SystemClock

    root = rootfs or Path("/")
    clock = SystemClock()
    attestation = take_attestation(methods, method_settings, oldest_evidence, installed=False)
    try:
        request = phase.parse_request(os.environ.get(_VARIABLE, ""))
    except phase.CredentialError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
    # Standard output is for the answer alone, whatever a library may have to say.
    with contextlib.redirect_stdout(sys.stderr):
        store = CertificateStore(cert_dir or root / _CERTIFICATE_FOLDER, relative_links=rootfs is not None)
        try:
            pair = store.current()
        except CertificateStoreError as err:
            raise ui.CLIError(str(err), hint=err.hint) from err
        proven = pair is None or is_given_for(store.current_path, attestation, pair.leaf)
        action = phase.plan(None if pair is None else pair.leaf, now=clock.now(), proven=proven)
        if pair is None or action is not phase.Action.KEEP:
            kubeconfig = kubeconfig or root / _KUBELET_CONF
            bootstrap_kubeconfig = bootstrap_kubeconfig or root / _BOOTSTRAP_CONF
            try:
                pair = _renewed(store, kubeconfig, bootstrap_kubeconfig, node_name, timeout, attestation)
            except phase.CredentialError as err:
                if pair is None or action is phase.Action.OBTAIN:
                    if isinstance(err.__cause__, SettingsError):
                        raise err.__cause__ from err
                    raise
                ui.warning(f"the certificate was not renewed, and is used until {pair.leaf.not_after:%F %T} UTC: {err}")
        doubt = phase.stranger(request, pair)
        if doubt:
            ui.warning(doubt)
    ui.raw(phase.document(request, pair, now=clock.now()))


def _renewed(
    store: CertificateStore,
    kubeconfig: Path,
    bootstrap_kubeconfig: Path,
    node_name: str,
    timeout: float,
    attestation: AttestationSettings | None,
) -> StoredPair:
    from kubevouch.agent import options
    from kubevouch.agent.node_access import ClusterFiles
    from kubevouch.cli.runner import run_async
    from kubevouch.phases.exec_renewal import renew
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock

    clock = SystemClock()
    logs.configure(clock, level="error")
    name = options.node_name(node_name, store.current_path.parent)
    files = ClusterFiles(kubeconfig, bootstrap_kubeconfig)
    return run_async(renew(store, files, name, clock, timeout=timeout, attestation=attestation))
