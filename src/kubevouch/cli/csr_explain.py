"""``kubevouch csr explain``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubevouch.cli import names as names_of
from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.ledger import ledger_flags, ledger_path
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.api.certificates_v1 import CertificateSigningRequest
    from kubevouch.client.interface import Client
    from kubevouch.policy.verdict import Step
    from kubevouch.reviews.csr_explanation import Explanation

_MOST = 240
# What ends a label of Mermaid, or begins its own markup.
_MARKUP = re.compile(r'["<>&#;`\\]')
_COLOURS = {"met": "green", "unmet": "red", "error": "red", "unknown": "yellow"}


@click.command()
@click.argument("name", shell_complete=names_of.requests)
@ui.facts_option("name", "uid", "state", "source", "at", "request", "verdict")
@click.option("--mermaid", is_flag=True, help="As a flow chart in Mermaid, for a page.")
@ledger_flags
@kubeconfig_option
def explain(
    name: str, output: str, mermaid: bool, ledger: Path | None, data_dir: Path | None, kubeconfig: Path | None
) -> None:
    """Show why a request was approved or denied, or what it waits for: each rule, with what it found.

    Of one that nobody has decided, the rules are asked again with what you may read. Of one that was decided, however
    long ago, the ledger has what was looked at.
    """
    if mermaid and output != "text":
        raise click.UsageError("got --mermaid and --output, expected one of them")
    from kubevouch.reviews.csr_explanation import NothingKnownError
    from kubevouch.reviews.csr_explanation import explain as why

    path = _ledger(ledger, data_dir)
    config = rest_config_of(kubeconfig)

    async def run() -> Explanation:
        from kubevouch.ledger.store import ReadOnlyLedger
        from kubevouch.util.clock import SystemClock

        async with connected(config) as client:
            return await why(client, name, None if path is None else ReadOnlyLedger(path), SystemClock())

    try:
        found = run_async(run())
    except NothingKnownError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
    if output != "text":
        import msgspec

        ui.document(msgspec.to_builtins(found), output)
    elif mermaid:
        ui.raw(chart(found))
    else:
        _print(found, has_ledger=path is not None)


async def policy_outlook(client: Client, csr: CertificateSigningRequest) -> str | None:
    """What policies say of an undecided request; None where none is about it."""
    from kubevouch.api.certificates_v1 import is_undecided
    from kubevouch.policy.replay import POLICY_APPROVER
    from kubevouch.policy.verdict import Outcome
    from kubevouch.reviews.csr_explanation import explain as why
    from kubevouch.util.clock import SystemClock

    if not is_undecided(csr):
        return None
    verdict = (await why(client, csr.metadata.name, None, SystemClock())).verdict
    if not any(step.rule.startswith(POLICY_APPROVER) for step in verdict.steps):
        return None
    if verdict.outcome is Outcome.NO_OPINION:
        return f"waits: {verdict.missing}; kubevouch csr explain shows every rule"
    return f"{verdict.message}; it is decided as soon as the approving controller looks at it"


def _ledger(ledger: Path | None, data_dir: Path | None) -> Path | None:
    """None where none is named, and there is none in the usual place."""
    try:
        return ledger_path(ledger, data_dir)
    except ui.CLIError:
        if ledger is not None or data_dir is not None:
            raise
        return None


def _print(found: Explanation, *, has_ledger: bool) -> None:
    verdict, request = found.verdict, found.request
    when = f" at {found.at:%Y-%m-%d %H:%M:%SZ}" if found.at is not None else ""
    ui.say(f"{found.name} is {found.state}{when}")
    if request is not None:
        ui.field("signer", request.signer_name)
        ui.field("asked for by", ui.one_line(request.username))
    if verdict.approver and not verdict.missing:
        ui.field("decided by", verdict.approver)
    if verdict.message:
        ui.prose("because", ui.one_line(f"{verdict.reason}: {verdict.message}"))
    for step in verdict.steps:
        mark = ui.styled(f"{step.result:<8}", fg=_COLOURS.get(step.result))
        ui.say("  ", mark, f" {_told(step)}")
    if found.state == "Pending":
        ui.prose("missing", ui.one_line(verdict.missing or _nobody(found)))
    if found.source == "conditions":
        from kubevouch.reviews.csr_explanation import unrecorded

        ui.prose("note", unrecorded(found, has_ledger=has_ledger))


def _nobody(found: Explanation) -> str:
    if found.verdict.outcome.value == "approve":
        return "nothing: it is approved as soon as the approving controller looks at it; does that run?"
    return found.verdict.message or "an approver: no rule and no policy is about it, so that a person has to decide"


def _told(step: Step) -> str:
    text = step.rule
    if step.got:
        text += f": {step.got}"
    if step.expected and step.result != "met":
        text += f" (expected {step.expected})"
    if step.by:
        text += f" [{step.by}]"
    return _cut(ui.one_line(text))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"


def chart(found: Explanation) -> str:
    """A flow chart: the request, each rule in turn, the outcome."""
    lines = ["flowchart TD", f'  request["{_label(found.name)}"]']
    before = "request"
    for number, step in enumerate(found.verdict.steps):
        node = f"step{number}"
        lines.append(f'  {node}["{_label(_told(step))}"]:::{step.result}')
        lines.append(f"  {before} --> {node}")
        before = node
    why = found.verdict.message or found.verdict.missing or _nobody(found)
    lines += [
        f'  outcome(["{_label(f"{found.state}: {why}")}"])',
        f"  {before} --> outcome",
        "  classDef met fill:#d7f0d7",
        "  classDef unmet fill:#f6d0d0",
        "  classDef error fill:#f6d0d0",
        "  classDef unknown fill:#fbf0c4",
        "  classDef skipped fill:#eeeeee",
    ]
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    """Nothing in a name of a request is markup."""
    return _MARKUP.sub(lambda found: f"#{ord(found[0])};", _cut(ui.one_line(text)))
