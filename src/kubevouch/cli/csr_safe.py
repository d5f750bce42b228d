"""``kubevouch csr approve --safe``: in place of approving everything in a loop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kubevouch import wellknown
from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, rest_config_of
from kubevouch.cli.flags.approval import serving_flags
from kubevouch.cli.runner import run_async
from kubevouch.util.collector import rare_collections

if TYPE_CHECKING:
    from kubevouch.api.certificates_v1 import CertificateSigningRequest
    from kubevouch.client.interface import Client
    from kubevouch.policy.facts import RequestFacts
    from kubevouch.policy.kubelet_serving import Network
    from kubevouch.policy.verdict import Verdict

_RESOURCE = "certificatesigningrequest.certificates.k8s.io"


class Safe(msgspec.Struct, frozen=True):
    """How ``--safe`` is meant."""

    dry_run: bool
    output: str
    networks: tuple[Network, ...]
    domains: tuple[str, ...]


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--safe`` and what goes with it; ``command`` gets them as ``safe``, None without."""

    @click.option("--safe", is_flag=True, help="Only those that are justified; without NAME, all that are undecided.")
    @click.option("--dry-run", is_flag=True, help="With --safe: decide nothing.")
    @click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json", "yaml"]),
        default="text",
        show_default=True,
        help="With --safe: format.",
    )
    @serving_flags
    @functools.wraps(command)
    def with_options(*args: Any, safe: bool, dry_run: bool, output: str, **kwargs: Any) -> Any:
        meant = Safe(dry_run, output, kwargs.pop("kubelet_serving_networks"), kwargs.pop("kubelet_serving_domains"))
        if not safe and meant != Safe(False, "text", (), ()):
            raise click.UsageError("--dry-run, --output and --kubelet-serving-… go with --safe")
        return command(*args, safe=meant if safe else None, **kwargs)

    return with_options


class _Judged(msgspec.Struct, frozen=True):
    csr: CertificateSigningRequest
    facts: RequestFacts | None
    verdict: Verdict
    approved: bool = False


def approve(names: Sequence[str], safe: Safe, message: str, reason: str, kubeconfig: Path | None) -> None:
    """Approve what is justified, of ``names`` or of all that nobody has decided.

    Raises:
        CLIError: one of ``names`` is not justified, or is decided already.
    """
    config = rest_config_of(kubeconfig)

    async def run() -> list[_Judged]:
        from kubevouch.policy.kubelet_serving import ServingRules, normalized
        from kubevouch.reviews.csr_review import Requests
        from kubevouch.reviews.justification import gather
        from kubevouch.util.clock import SystemClock

        async with connected(config) as client:
            server = frozenset({normalized(_host(config.options.server))})
            rules = ServingRules(networks=safe.networks, domains=safe.domains, api_server=server)
            justifier = await gather(client, SystemClock(), rules)
            found = Requests(justifier.requests)
            chosen = [_undecided(found.named(name)) for name in names] if names else found.pending
            judged = [_Judged(csr, *await justifier.judge(csr)) for csr in chosen]
            return [await _approve(client, each, safe, message, reason) for each in judged]

    with rare_collections():
        judged = run_async(run())
    if safe.output == "text":
        _print(judged, safe)
    else:
        ui.document([_tree(each, safe) for each in judged], safe.output)
    left = [each.csr.metadata.name for each in judged if not _is_justified(each.verdict)]
    if names and left:
        raise ui.CLIError(
            f"not justified: {', '.join(left)}", hint="kubevouch csr show NAME, and approve it without --safe"
        )


async def serving_outlook(client: Client, csr: CertificateSigningRequest) -> str | None:
    """Whether an undecided request for a kubelet's serving certificate is justified; None of all others."""
    from kubevouch.api.certificates_v1 import is_undecided
    from kubevouch.machinery.errors import APIStatusError
    from kubevouch.policy.kubelet_serving import ServingRules
    from kubevouch.reviews.justification import gather
    from kubevouch.util.clock import SystemClock

    if csr.spec.signer_name != wellknown.KUBELET_SERVING_SIGNER or not is_undecided(csr):
        return None
    try:
        found = await gather(client, SystemClock(), ServingRules())
        _, verdict = await found.judge(csr)
    except APIStatusError as err:
        return f"you may not read what would justify it: {err}"
    if _is_justified(verdict):
        return (
            "every name and address is justified: kubevouch csr approve --safe approves it, and so does a kubevouch up"
        )
    return f"not justified: {verdict.message or verdict.missing}"


def _undecided(csr: CertificateSigningRequest) -> CertificateSigningRequest:
    from kubevouch.reviews.csr_review import ReviewError, State, state_of

    state = state_of(csr)
    if state is not State.PENDING:
        raise ReviewError(f"{csr.metadata.name} is {state.value} already", "a decision cannot be taken back")
    return csr


def _host(server: str) -> str:
    from kubevouch.client.endpoint import endpoint_of_url

    return endpoint_of_url(server).host


def _is_justified(verdict: Verdict) -> bool:
    from kubevouch.policy.verdict import Outcome

    return verdict.outcome is Outcome.APPROVE


async def _approve(client: Client, each: _Judged, safe: Safe, message: str, reason: str) -> _Judged:
    if safe.dry_run or not _is_justified(each.verdict):
        return each
    from msgspec.structs import replace

    from kubevouch.reviews.csr_review import ReviewError, decide

    said = message or f"{each.verdict.message} (kubevouch csr approve --safe)"
    try:
        await decide(client, each.csr, "Approved", said, reason)
    except ReviewError as err:
        # The controller, or somebody else, was faster, or it is not what was judged any more.
        return replace(each, verdict=_overtaken(each.verdict, str(err)))
    return replace(each, approved=True)


def _overtaken(verdict: Verdict, why: str) -> Verdict:
    import msgspec

    from kubevouch.policy.verdict import Outcome

    return msgspec.structs.replace(verdict, outcome=Outcome.NO_OPINION, message="", missing=why)


def _print(judged: Sequence[_Judged], safe: Safe) -> None:
    if not judged:
        ui.say("no request is pending")
    for each in judged:
        name = f"{_RESOURCE}/{each.csr.metadata.name}"
        if _is_justified(each.verdict):
            ui.say(f"{name} approved{' (dry run)' if safe.dry_run else ''}: {ui.one_line(each.verdict.message)}")
        else:
            ui.say(f"{name} left undecided: {ui.one_line(_why(each.verdict))}")


def _why(verdict: Verdict) -> str:
    from kubevouch.policy.verdict import Outcome

    if verdict.outcome is Outcome.DENY:
        return f"{verdict.message}; this contradicts what is known (kubevouch csr deny)"
    return verdict.missing or "no rule is for it; a person has to look at it"


def _tree(each: _Judged, safe: Safe) -> dict[str, Any]:
    """The stable form for scripts."""
    import msgspec

    return {
        "name": each.csr.metadata.name,
        "justified": _is_justified(each.verdict),
        "approved": each.approved,
        "dryRun": safe.dry_run,
        "request": None if each.facts is None else msgspec.to_builtins(each.facts),
        "verdict": msgspec.to_builtins(each.verdict),
    }
