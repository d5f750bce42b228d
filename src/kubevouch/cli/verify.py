"""``kubevouch verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.group(cls=ui.Group)
def verify() -> None:
    """Check what a cluster has signed, without the cluster."""


@verify.command()
@click.argument("file", type=_FILE)
@click.option("--key", required=True, help="Whose signatures count: NAME+HASH+KEY or a file with it.")
@click.option("--certificate", type=_FILE, help="Hold the receipt against this certificate, in PEM.")
@ui.facts_option("subject", "certificate", "node", "approver", "strength", "receipt")
def receipt(file: Path, key: str, certificate: Path | None, output: str) -> None:
    """Check a receipt of kubevouch issued receipt, and say by what the machine was let in.

    The key is in the ConfigMap kubevouch-ledger-checkpoint of kube-public; keep it apart from receipts.
    """
    import msgspec

    from kubevouch.ledger.receipts import ReceiptError
    from kubevouch.phases import ledger_audit, receipts

    known = ledger_audit.parse_key(key)
    try:
        found = receipts.verify(file, known, certificate)
    except ReceiptError as err:
        raise ui.CLIError(f"{file} proves nothing: {err}", hint="get it again from who has the ledger") from err
    except receipts.NoCertificateError as err:
        raise ui.CLIError(
            str(err), hint="give the certificate that the receipt is about", code=ExitCode.INVALID
        ) from err
    join = found.join
    shown = join.evidence.proofs if join.evidence is not None else []
    proofs = [each for each in shown if isinstance(each, dict)] if isinstance(shown, list) else []
    strengths = [str(each.get("strength", "")) for each in proofs]
    if output != "text":
        tree: dict[str, Any] = {
            "subject": found.subject, "certificate": found.certificate, "node": join.node,
            "approver": join.decision.approver, "strength": ", ".join(strengths), "receipt": msgspec.to_builtins(join),
        }  # fmt: skip
        ui.document(tree, output)
        return
    ui.say(f"proven by {known.name}: {found.subject}, serial {join.serial}")
    for label, value in (
        ("certificate", found.certificate),
        ("key", join.key_fingerprint),
        ("valid", f"{join.not_before:%Y-%m-%dT%H:%M:%SZ} to {join.not_after:%Y-%m-%dT%H:%M:%SZ}"),
        ("request", f"{join.request.name} of {join.request.requester}"),
        ("signer", join.request.signer),
        ("approver", join.decision.approver or "a person"),
        ("reason", join.decision.reason),
        ("rules", join.decision.rules_digest),
        ("entries", ", ".join(str(each) for each in (join.decision.sequence, join.sequence) if each >= 0)),
    ):
        if value:
            ui.field(label, value)
    for each in proofs:
        ui.field("evidence", f"{each.get('provider', '')} ({each.get('strength', '')}), {each.get('identity', '')}")
        ui.field("its digest", str(each.get("evidenceDigest", "")))
