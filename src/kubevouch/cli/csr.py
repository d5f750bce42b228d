"""``kubevouch csr``."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubevouch import wellknown
from kubevouch.cli import csr_safe, ui
from kubevouch.cli import names as names_of
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.csr_explain import explain, policy_outlook
from kubevouch.cli.csr_vote import vote
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.runner import run_async
from kubevouch.util.collector import rare_collections

if TYPE_CHECKING:
    from kubevouch.api.certificates_v1 import CertificateSigningRequest
    from kubevouch.client.interface import Client
    from kubevouch.reviews.csr_review import Requests, Review

T = TypeVar("T")

_NODE = " (node)"
_WORD = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]{0,126}[A-Za-z0-9_])?", re.ASCII)


def _checked_word(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if value and not _WORD.fullmatch(value):
        raise click.BadParameter(f"got {value!r}, expected one word such as NotOurs; --message takes sentences")
    return value


def _why(command: Callable[..., Any]) -> Callable[..., Any]:
    word = click.option(
        "--reason", default="", metavar="WORD", callback=_checked_word, help="Why in one word, for programs."
    )
    sentence = click.option("-m", "--message", default="", help="Why, for whoever reads the request later.")
    return sentence(word(command))


_YES, _NO, _SKIP, _QUIT = "a", "d", "s", "q"


@click.group(cls=ui.Group)
def csr() -> None:
    """Look at CertificateSigningRequests and decide about them."""


csr.add_command(vote)
csr.add_command(explain)


@csr.command("list")
@click.option("--pending", is_flag=True, help="Only those that nobody has decided.")
@click.option("-w", "--watch", is_flag=True, help="Go on with each request that comes, is decided or goes.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "wide", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Format; wide also shows signer, duration, usages, names and address, and cuts nothing.",
)
@kubeconfig_option
def list_(pending: bool, watch: bool, output: str, kubeconfig: Path | None) -> None:
    """List the requests of the cluster, the undecided on top."""

    async def work(client: Client, found: Requests) -> None:
        chosen = found.pending if pending else found.all
        reviews = [_reviewed(each, found, signature=False) for each in chosen]
        if output in _TABLES:
            _print_list(reviews, "no request is pending" if pending else "no requests", output, watch=watch)
        elif not watch:
            ui.document([_tree(each) for each in reviews], output)
        if watch:
            told = _Told(output, chosen, reviews, known=None if pending else found.all)
            await _follow(client, told)

    _with_cluster(kubeconfig, work)


@csr.command()
@click.argument("name", shell_complete=names_of.requests)
@ui.output_option
@kubeconfig_option
def show(name: str, output: str, kubeconfig: Path | None) -> None:
    """Show what a request asks for, and what speaks for or against it."""

    async def work(client: Client, found: Requests) -> Review:
        return await _looked_at(client, found.named(name), found)

    found = _with_cluster(kubeconfig, work)
    if output != "text":
        ui.document(_tree(found), output)
    else:
        _print(found)


# The word of kubectl for it.
csr.add_command(show, "describe")


@csr.command()
@click.argument("names", metavar="NAME...", nargs=-1, shell_complete=names_of.requests)
@csr_safe.options
@_why
@kubeconfig_option
def approve(
    names: tuple[str, ...], safe: csr_safe.Safe | None, message: str, reason: str, kubeconfig: Path | None
) -> None:
    """Approve requests; with --safe those that are justified, of all or of these, and say why each other is not."""
    if safe is not None:
        csr_safe.approve(names, safe, message, reason, kubeconfig)
    elif not names:
        raise click.UsageError("got no NAME, expected one, or --safe for all that are justified")
    else:
        _decide(names, "Approved", message, reason, kubeconfig)


@csr.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=names_of.requests)
@_why
@kubeconfig_option
def deny(names: tuple[str, ...], message: str, reason: str, kubeconfig: Path | None) -> None:
    """Deny requests. A denial cannot be taken back."""
    _decide(names, "Denied", message, reason, kubeconfig)


@csr.command()
@kubeconfig_option
def review(kubeconfig: Path | None) -> None:
    """Go through the undecided requests one by one."""
    if not sys.stdin.isatty():
        raise ui.CLIError(
            "review asks questions, expected a terminal", hint="use kubevouch csr approve or deny in scripts",
            code=ExitCode.INVALID,
        )  # fmt: skip

    async def work(client: Client, found: Requests) -> None:
        pending = found.pending
        for number, each in enumerate(pending, 1):
            ui.say(ui.styled(f"{number} of {len(pending)}", dim=True))
            _print(await _looked_at(client, each, found))
            answer = click.prompt(
                "  [a]pprove, [d]eny, [s]kip, [q]uit", type=click.Choice([_YES, _NO, _SKIP, _QUIT]), default=_SKIP,
                show_choices=False,
            )  # fmt: skip
            if answer == _QUIT:
                return
            if answer in (_YES, _NO):
                why = click.prompt("  why", default="", show_default=False) if answer == _NO else ""
                await _write(client, each, "Approved" if answer == _YES else "Denied", why)
        if not pending:
            ui.say("no request is pending")

    _with_cluster(kubeconfig, work)


# ------------------------------------------------------------------ the list as it changes

_HEADER = ("NAME", "STATE", "AGE", "ASKS FOR", "REQUESTED BY", "MARKS")
_WIDE = ("SIGNERNAME", "REQUESTEDDURATION", "USAGES", "NAMES", "FROM")
_TABLES = ("text", "wide")
_GONE = "Deleted"


def _header(output: str) -> tuple[str, ...]:
    return (*_HEADER, *_WIDE) if output == "wide" else _HEADER


def _row(each: Review, output: str, state: str = "") -> tuple[str, ...]:
    row = (
        each.name, state or each.state.value, _age(each), _asked_for(each), each.csr.spec.username, _codes(each),
    )  # fmt: skip
    return (*row, *_more(each)) if output == "wide" else row


def _more(each: Review) -> tuple[str, ...]:
    """For kubectl's two columns its words."""
    from kubevouch.machinery.text.gotext import human_duration
    from kubevouch.reviews.csr_review import names_of

    spec = each.csr.spec
    duration = "" if spec.expiration_seconds is None else human_duration(spec.expiration_seconds)
    names = [] if each.request is None else names_of(each.request.alt_names)
    cells = (spec.signer_name, duration, ",".join(spec.usages), ",".join(names), each.source)
    return tuple(cell or "<none>" for cell in cells)


def _table(rows: Iterable[Sequence[str]], output: str) -> list[str]:
    """Whoever asks for all columns gets them whole, however narrow the terminal is."""
    return ui.table(_header(output), rows, columns=0 if output == "wide" else None)


def _print_list(reviews: Sequence[Review], none: str, output: str, *, watch: bool) -> None:
    if reviews or watch:
        ui.lines(_table([_row(each, output) for each in reviews], output))
    else:
        ui.say(none)


class _Told:
    """Prints what has changed since it was printed last.

    Args:
        known: those of which nothing is said until they change; None where only undecided ones count.
    """

    def __init__(
        self,
        output: str,
        shown: Sequence[CertificateSigningRequest],
        reviews: Sequence[Review],
        known: Sequence[CertificateSigningRequest] | None,
    ) -> None:
        from kubevouch.reviews.csr_review import state_of

        self._output = output
        self._only_pending = known is None
        self._states = {each.metadata.uid: state_of(each).value for each in shown}
        rows = [_header(output), *(_row(each, output) for each in reviews)]
        # One row with the widest cell of each column keeps later lines under the first ones.
        self._widest = tuple(max(column, key=len) for column in zip(*rows, strict=True))
        if output not in _TABLES:
            for each in reviews:
                self._document(each)

    def tell(self, csr: CertificateSigningRequest, among: Requests, *, gone: bool) -> None:
        from kubevouch.reviews.csr_review import State, state_of

        uid, state = csr.metadata.uid, _GONE if gone else state_of(csr).value
        before = self._states.pop(uid, None)
        if not gone:
            if before is None and self._only_pending and state != State.PENDING:
                return
            # Of a decided one nothing more is told where only undecided ones count.
            if not self._only_pending or state == State.PENDING:
                self._states[uid] = state
        if before == state or (gone and before is None):
            return
        review = _reviewed(csr, among, signature=False)
        if self._output in _TABLES:
            ui.lines(_table([self._widest, _row(review, self._output, state)], self._output)[-1:])
        else:
            self._document(review, state)

    def _document(self, review: Review, state: str = "") -> None:
        if self._output == "yaml":
            ui.say("---")
        ui.document(_tree(review) | ({"state": state} if state else {}), self._output)


class _Changes:
    """Requests that have changed and are not told of yet, the last state of each."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self._last: dict[str, tuple[CertificateSigningRequest, bool]] = {}

    def note(self, obj: CertificateSigningRequest, gone: bool) -> None:
        # A request that was deleted and made again is two.
        self._last[obj.metadata.uid] = (obj, gone)
        self.arrived.set()

    def take(self) -> list[tuple[CertificateSigningRequest, bool]]:
        self.arrived.clear()
        taken = list(self._last.values())
        self._last.clear()
        return taken


async def _follow(client: Client, told: _Told) -> None:
    """Until somebody ends it; a lost connection is made again."""
    from kubevouch.api import catalog
    from kubevouch.client.cache.informer import ChangeHandler, SharedInformer
    from kubevouch.reviews.csr_review import Requests
    from kubevouch.util.clock import SystemClock
    from kubevouch.util.tasks import OnCrash, Supervisor

    clock = SystemClock()
    informer = SharedInformer(client, catalog.CERTIFICATE_SIGNING_REQUESTS, clock=clock)
    changes = _Changes()
    informer.add_handler(ChangeHandler(changes.note))
    async with Supervisor(clock) as tasks:
        tasks.start("requests", informer.run, OnCrash.ESCALATE)
        while True:
            await changes.arrived.wait()
            taken = changes.take()
            among = Requests(informer.indexer.values())
            for each, gone in taken:
                told.tell(each, among, gone=gone)


# ------------------------------------------------------------------ work


def _with_cluster(kubeconfig: Path | None, work: Callable[[Client, Requests], Awaitable[T]]) -> T:
    from kubevouch.reviews.csr_review import fetch

    config = rest_config_of(kubeconfig)

    async def run() -> T:
        async with connected(config) as client:
            return await work(client, await fetch(client))

    with rare_collections():
        return run_async(run())


def _decide(names: Sequence[str], condition: str, message: str, reason: str, kubeconfig: Path | None) -> None:
    from kubevouch.reviews.csr_review import fetch_named

    config = rest_config_of(kubeconfig)

    async def run() -> None:
        async with connected(config) as client:
            # A name that is not there is found before anything is decided.
            for each in await fetch_named(client, names):
                await _write(client, each, condition, message, reason)

    run_async(run())


async def _write(
    client: Client, each: CertificateSigningRequest, condition: str, message: str, reason: str = ""
) -> None:
    from kubevouch.reviews.csr_review import decide

    verb = "approve" if condition == "Approved" else "deny"
    said = message or f"This CSR was {condition.lower()} by kubevouch csr {verb}."
    await decide(client, each, condition, said, reason)
    ui.say(f"certificatesigningrequest.certificates.k8s.io/{each.metadata.name} {condition.lower()}")


async def _looked_at(client: Client, each: CertificateSigningRequest, found: Requests) -> Review:
    from msgspec.structs import replace

    from kubevouch.reviews.csr_review import identity_of, outlook

    told = await policy_outlook(client, each) or await csr_safe.serving_outlook(client, each)
    looked = _reviewed(each, found, await outlook(client, each) if told is None else told)
    if looked.request is None:
        return looked
    return replace(looked, identity=await identity_of(client, each, looked.request.subject.common_name))


def _reviewed(each: CertificateSigningRequest, found: Requests, outlook: str = "", *, signature: bool = True) -> Review:
    from kubevouch.reviews import csr_review
    from kubevouch.util.clock import SystemClock

    return csr_review.review(each, found, SystemClock().now(), outlook, signature=signature)


# ------------------------------------------------------------------ printing


def _age(each: Review) -> str:
    from kubevouch.machinery.text.gotext import human_duration

    return human_duration(max(each.age.total_seconds(), 0))


def _subject(each: Review) -> str:
    if each.request is None:
        return "<unreadable>"
    subject = each.request.subject
    organizations = ",".join(subject.organizations)
    return subject.common_name + (f" ({organizations})" if organizations else "") or "<empty>"


def _asked_for(each: Review) -> str:
    """The same for a narrow column: of a node its name comes first, for it is what tells one line from another."""
    from kubevouch.pki.node_user import node_name_of

    whole = _subject(each)
    if each.request is not None:
        subject = each.request.subject
        node = node_name_of(subject.common_name)
        if node and subject.organizations == (wellknown.NODES_GROUP,):
            return f"{node}{_NODE}"
    # Nobody but a node looks like one.
    return repr(whole) if whole.endswith(_NODE) else whole


def _codes(each: Review) -> str:
    return ",".join(mark.code for mark in each.marks)


def _print(each: Review) -> None:
    from kubevouch.reviews.csr_review import names_of

    spec = each.csr.spec
    ui.say(ui.styled(each.name, bold=True))
    ui.field("state", f"{each.state.value}, for {_age(each)}")
    ui.field("asks for", _subject(each))
    ui.field("from", spec.signer_name)
    if each.request is not None:
        names = names_of(each.request.alt_names)
        if names:
            ui.field("names", ", ".join(names))
        ui.field("key", f"{each.request.public_key.name}, sha256:{each.request.public_key.fingerprint().hex()}")
    ui.field("usages", ", ".join(spec.usages))
    if spec.expiration_seconds is not None:
        ui.field("lifetime", f"{spec.expiration_seconds} s")
    ui.field("requested by", f"{spec.username} in {', '.join(spec.groups)}")
    if each.source:
        ui.field("sent from", each.source)
    for condition in each.csr.status.conditions:
        ui.field(condition.type.lower(), ui.one_line(f"{condition.reason}: {condition.message}"))
    for change in each.changes:
        ui.field("since the last", change)
    for mark in each.marks:
        ui.say("  ", ui.styled("!", fg="yellow", bold=True), f" {mark.text}")
    if each.outlook:
        ui.field("outlook", each.outlook)
    if each.identity is not None:
        from kubevouch.cli.node_identity import claim_lines

        proven = each.identity.status
        ui.field("proven", f"{proven.provider} {proven.identity} ({proven.strength})")
        ui.lines(claim_lines(each.identity))


def _tree(each: Review) -> dict[str, Any]:
    """The stable form for scripts."""
    import msgspec

    from kubevouch.policy.facts import facts_of
    from kubevouch.reviews.csr_review import names_of

    spec = each.csr.spec
    tree: dict[str, Any] = {
        "name": each.name,
        "uid": each.csr.metadata.uid,
        "state": each.state.value,
        "ageSeconds": int(each.age.total_seconds()),
        "signerName": spec.signer_name,
        "usages": list(spec.usages),
        "requestedBy": {"username": spec.username, "groups": list(spec.groups)},
        "source": each.source,
        "marks": [{"code": mark.code, "text": mark.text} for mark in each.marks],
    }
    if spec.expiration_seconds is not None:
        tree["expirationSeconds"] = spec.expiration_seconds
    if each.request is not None:
        facts = facts_of(each.csr, each.request)
        subject = facts.subject
        tree["subject"] = {"commonName": subject.common_name, "organizations": list(subject.organizations)}
        tree["names"] = names_of(each.request.alt_names)
        tree["key"] = {"algorithm": each.request.public_key.name, "sha256": facts.key_fingerprint}
        # What every approver, policy and webhook is given.
        tree["request"] = msgspec.to_builtins(facts)
    if each.changes:
        tree["changes"] = list(each.changes)
    if each.outlook:
        tree["outlook"] = each.outlook
    if each.identity is not None:
        from kubevouch.machinery.codec import json_codec

        tree["proven"] = json_codec.to_builtins(each.identity.status)
    return tree
