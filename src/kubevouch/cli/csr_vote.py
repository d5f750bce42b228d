"""``kubevouch csr vote``."""

from __future__ import annotations

from pathlib import Path

import click

from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.runner import run_async


@click.command()
@click.argument("name")
@click.option("--deny", is_flag=True, help="Speak against it; one who does is enough.")
@click.option("-m", "--message", default="", help="Why, for whoever reads it later.")
@kubeconfig_option
def vote(name: str, deny: bool, message: str, kubeconfig: Path | None) -> None:
    """Say in your own name what you think of a request that several people have to agree on.

    A CertificateRequestPolicy says for which requests, and how many. Nobody counts for a request of his own, nor by a
    policy that he has written.
    """
    from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import APPROVE, DENY
    from kubevouch.phases import csr_vote
    from kubevouch.reviews.csr_review import ReviewError

    config = rest_config_of(kubeconfig)

    async def run() -> str:
        async with connected(config) as client:
            made = await csr_vote.vote(client, name, DENY if deny else APPROVE, message)
            return made.spec.approver

    try:
        who = run_async(run())
    except ReviewError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.FAILED) from err
    except csr_vote.VoteError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.REFUSED) from err
    ui.say(f"{who} {'denies' if deny else 'approves'} certificatesigningrequest.certificates.k8s.io/{name}")
