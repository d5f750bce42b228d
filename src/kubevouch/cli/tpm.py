"""``kubevouch tpm``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.paths import FOLDER

if TYPE_CHECKING:
    from kubevouch.attestation.tpm.probe import Report
    from kubevouch.pki.tpm.resident_key import ResidentKey


@click.group(cls=ui.Group)
def tpm() -> None:
    """Look at what this machine's TPM can prove."""


@tpm.command()
@click.option(
    "--device",
    default="",
    help="A path, swtpm:path=PATH or swtpm:host=HOST,port=PORT.  [default: $KUBEVOUCH_TPM, /dev/tpmrm0 or /dev/tpm0]",
)
@click.option("--cert-dir", type=FOLDER, help="Where the node's pair is kept.  [default: /var/lib/kubelet/pki]")
@ui.facts_option(
    "device", "state", "message", "manufacturer", "endorsementKey", "endorsementKeyHash", "certificate",
    "chainCertificates", "pcrBanks", "nodeKey", "problems",
)  # fmt: skip
def probe(device: str, cert_dir: Path | None, output: str) -> int:
    """Say whether this machine can join by its TPM, and what is missing.

    No cluster is asked and nothing is changed. Ends with 0 if the TPM is ready, with 1 if it is not: absent, for others
    only, busy or locked out; and with 1 if the TPM does not know the node's key any more, because it was cleared.
    """
    from kubevouch.attestation.interface import SettingsError
    from kubevouch.attestation.tpm import probe as module
    from kubevouch.attestation.tpm.device import Device

    try:
        report = module.probe(Device(device), _node_key(cert_dir))
    except SettingsError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
    if output != "text":
        ui.document(_tree(report), output)
    else:
        _say(report)
    if report.state is not module.State.READY:
        raise ui.CLIError(f"{report.message} ({report.state})", hint=report.hint)
    if report.node_key == "lost":
        raise ui.CLIError(
            "the TPM does not know the node's key: it was cleared since, or is that of another machine",
            hint="the node has to join again; the cluster knows it by its endorsement key, if that is the same",
        )
    return ExitCode.DONE


def _node_key(cert_dir: Path | None) -> ResidentKey | None:
    """That of the current pair, if it is in a TPM. Pairs that cannot be read are the doctor's business."""
    from kubevouch.agent.certificate_store import CertificateStore
    from kubevouch.agent.interface import CertificateStoreError
    from kubevouch.agent.options import CERT_DIR
    from kubevouch.pki.tpm.resident_key import ResidentKey

    try:
        pair = CertificateStore(cert_dir or CERT_DIR).current()
    except (CertificateStoreError, OSError) as err:
        ui.warning(f"the node's pair cannot be looked at: {err}")
        return None
    return pair.key if pair is not None and isinstance(pair.key, ResidentKey) else None


def _say(report: Report) -> None:
    ui.field("TPM", f"{report.device}{f', made by {report.manufacturer}' if report.manufacturer else ''}")
    if report.kind:
        certificate = "no certificate"
        if report.has_certificate:
            certificate = f"with a certificate and {report.chain} more of its chain"
        ui.field("endorsement key", f"{report.kind}, {certificate}")
        ui.field("its hash", f"sha256:{report.ek_hash}")
        ui.field("PCR banks", ", ".join(report.banks) or "none")
    if report.node_key:
        ui.field("the node's key", report.node_key)
    for problem in report.problems:
        ui.warning(problem)


def _tree(report: Report) -> dict[str, Any]:
    return {
        "device": report.device,
        "state": report.state.value,
        "message": report.message,
        "manufacturer": report.manufacturer,
        "endorsementKey": report.kind,
        "endorsementKeyHash": report.ek_hash,
        "certificate": report.has_certificate,
        "chainCertificates": report.chain,
        "pcrBanks": list(report.banks),
        "nodeKey": report.node_key,
        "problems": list(report.problems),
    }
