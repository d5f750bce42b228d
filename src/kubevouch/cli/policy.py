"""``kubevouch policy``."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.ledger import ledger_flags, ledger_path
from kubevouch.cli.flags.moments import MOMENT, Moment, before
from kubevouch.cli.runner import run_async
from kubevouch.util.collector import rare_collections

if TYPE_CHECKING:
    from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import CertificateRequestPolicy
    from kubevouch.policy.replay import Replayed

_SHOWN = 1000
_FILE = click.option(
    "-f", "--filename", "files", type=click.Path(path_type=Path, dir_okay=False), multiple=True, required=True,
    help="File with CertificateRequestPolicy objects; - is standard input.",
)  # fmt: skip


@click.group(cls=ui.Group)
def policy() -> None:
    """Try CertificateRequestPolicies before they are applied, and apply them."""


@policy.command()
@_FILE
def lint(files: Sequence[Path]) -> None:
    """Say whether policies can be evaluated, without a cluster."""
    found = _read(files)
    ui.say(f"{len(found)} {'policy' if len(found) == 1 else 'policies'} can be evaluated")


@policy.command()
@_FILE
@kubeconfig_option
def apply(files: Sequence[Path], kubeconfig: Path | None) -> None:
    """Create or change policies, and record you as who answers for them.

    kubectl apply does as well where the API server records the writer itself: kubevouch's own, and Kubernetes from 1.36
    on. With older ones this command sends the record, and the guards of deploy/guards refuse any other.
    """
    policies = _read(files)
    config = rest_config_of(kubeconfig)

    async def run() -> None:
        from kubevouch.phases import policy_apply

        async with connected(config) as client:
            for each in policies:
                user = await policy_apply.apply(client, each)
                ui.say(f"{each.metadata.name} applied, {user} answers for it")

    run_async(run())


@policy.command()
@_FILE
@click.option(
    "--since", type=MOMENT, default="30d", show_default=True, help="Requests decided since then: 30d, 2026-01-02."
)
@ui.facts_option("counts", "changes")
@ledger_flags
@click.option("--pending", is_flag=True, help="Also the requests of the cluster that nobody has decided.")
@kubeconfig_option
def test(
    files: Sequence[Path], since: Moment, output: str, ledger: Path | None, data_dir: Path | None, pending: bool,
    kubeconfig: Path | None,
) -> None:  # fmt: skip
    """Say what policies would change of what was decided; exit with 1 if anything would be newly approved.

    The decisions are those in the ledger. What other approvers said stays; what a policy of the same name said is asked
    anew. Every requester is taken to have the right to use every policy. Nodes and machines of then are not known now:
    a rule that asks for them fails.
    """
    policies = _read(files)
    path = ledger_path(ledger, data_dir)
    config = rest_config_of(kubeconfig) if pending else None

    async def run() -> list[Replayed]:
        from kubevouch.ledger.store import ReadOnlyLedger
        from kubevouch.reviews.policy_rehearsal import Rehearsal, applied
        from kubevouch.util.clock import SystemClock

        now, source = SystemClock().now(), ReadOnlyLedger(path)
        found = [each async for each in Rehearsal(policies, source).of_the_ledger(_moment(since, now))]
        if config is not None:
            async with connected(config) as client:
                whole = Rehearsal([*policies, *await applied(client, policies)], source)
                found += [each async for each in whole.of_the_cluster(client, now)]
        return found

    with rare_collections():
        found = run_async(run())
    _print(found, output)
    newly = _counts(found)["newly approved"]
    if newly:
        raise ui.CLIError(
            f"{newly} {'request' if newly == 1 else 'requests'} would be newly approved",
            hint="-o json says by which rules", code=ExitCode.FAILED,
        )  # fmt: skip


def _moment(since: Moment, now: dt.datetime) -> dt.datetime:
    try:
        moment = before(since, now)
    except OverflowError as err:
        raise click.UsageError("--since is before the first year") from err
    assert moment is not None  # it has a default
    return moment


def _read(files: Sequence[Path]) -> list[CertificateRequestPolicy]:
    from kubevouch.reviews.policy_rehearsal import MAX_FILE, PolicyFileError, read_policies

    found: list[CertificateRequestPolicy] = []
    for path in files:
        if str(path) == "-":
            text = sys.stdin.buffer.read(MAX_FILE + 1)
        else:
            with path.open("rb") as file:
                text = file.read(MAX_FILE + 1)
        try:
            found += read_policies(text)
        except PolicyFileError as err:
            raise ui.CLIError(
                f"{path}: {ui.one_line(str(err))}", code=ExitCode.INVALID,
                hint="kubectl explain certificaterequestpolicy.spec says what there is",
            ) from err  # fmt: skip
    return found


def _counts(found: Sequence[Replayed]) -> dict[str, int]:
    from kubevouch.policy.replay import Change

    return {kind.value: sum(each.change is kind for each in found) for kind in Change}


def _print(found: Sequence[Replayed], output: str) -> None:
    from kubevouch.policy.replay import Change

    counts = _counts(found)
    changes = [each for each in found if each.change is not Change.SAME]
    if output != "text":
        import msgspec

        shown = [msgspec.to_builtins(each) for each in changes[:_SHOWN]]
        ui.document({"counts": counts, "changes": shown}, output)
        return
    for each in changes[:_SHOWN]:
        why = each.after.message or each.after.missing or "no policy is about it any more"
        ui.say(f"{each.change.value}: {ui.one_line(f'{each.name} of {each.requester}, {each.signer}: {why}')}")
    if len(changes) > _SHOWN:
        ui.say(f"… and {len(changes) - _SHOWN} more")
    ui.say(", ".join(f"{count} {kind}" for kind, count in counts.items()))
