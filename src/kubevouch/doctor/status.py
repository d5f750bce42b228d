"""How a cluster stands, on one screen: what the doctor finds, and beside it what is well."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.client.interface import Client, ListOptions, TransportError
from kubevouch.client.options import Retry
from kubevouch.client.rest_config import RESTConfig
from kubevouch.doctor import cluster, kubelets
from kubevouch.doctor.findings import Area, Code, Finding, Report
from kubevouch.ledger.cluster import load
from kubevouch.ledger.interface import LedgerDamaged, LedgerUnavailable
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.times import Time
from kubevouch.phases import deleted_nodes
from kubevouch.phases.bootstrap_token import list_tokens
from kubevouch.reviews import csr_review
from kubevouch.util.clock import Clock

_NODES = 5000
_MOST_CONTROLLERS = 200
NO_ANSWER = "does not answer"
_REFUSED = {
    401: "refuses the credential of this kubeconfig",
    403: "refuses it to this kubeconfig's user",
}
_FAILED = re.compile(r"\[-\]([A-Za-z0-9./_-]{1,100}) failed")
_MOST_CHECKS = 20
# A queue of controller-runtime's or client-go's kind has the name of its controller.
_QUEUE = re.compile(r'workqueue_depth\{name="([^"\\]{1,100})"\} (\d{1,9})(?:\.0)?', re.ASCII)


class Severity(IntEnum):
    """How soon somebody has to do something; the highest finding counts."""

    WELL = 0
    SOON = 1
    NOW = 2
    NO_ANSWER = 3
    NOT_TRUSTED = 4


# It works today. All other findings of a cluster are about what does not.
_SOON = {
    Code.CA_EXPIRING, Code.OPERATOR_CERTIFICATE_EXPIRING, Code.SERVING_CERTIFICATE_EXPIRING, Code.CLOCK_OFF,
    Code.TOKEN_WEAK, Code.TOKEN_BROKEN, Code.APPROVAL_NOT_AUTOMATIC, Code.RENEWAL_NOT_AUTOMATIC,
    Code.REQUEST_WAITING, Code.REQUESTS_PILE_UP, Code.LEDGER_FULL, Code.LEDGER_TOKEN_FULL, Code.RECOVERY_LOCKED,
    # Kubelets are often not to be reached from where an operator sits.
    Code.KUBELET_NOT_REACHED, Code.KUBELET_SELF_SIGNED, Code.NODE_WITHOUT_ADDRESS,
}  # fmt: skip
_NOT_TRUSTED = {Code.SERVER_NOT_TRUSTED, Code.SERVER_NAME_MISSING, Code.SERVING_CERTIFICATE_DATES}


def severity_of(code: Code) -> Severity:
    if code in _SOON:
        return Severity.SOON
    if code in _NOT_TRUSTED:
        return Severity.NOT_TRUSTED
    if code.value.area is Area.SERVER and code is not Code.ACCESS_REFUSED:
        return Severity.NO_ANSWER
    return Severity.NOW


class ClusterStatus(msgspec.Struct):
    """What was seen; what is None was not learnt.

    Args:
        unknown: why not, by what it is: server, controllers, nodes, requests, tokens.
        failing: checks of ``/readyz`` that do not pass.
        controllers: keys that wait, by controller.
        ends: when what is dated ends, by what it is.
        locks_deleted_nodes: None also in a cluster that knows no such decision, as Kubernetes' own.
        ledger: how many entries the one in the cluster's objects has, all of which were checked; None without one.
        ledger_damage: what is wrong with it.
        oldest_request: how long the oldest undecided request has waited.
    """

    server: str
    findings: tuple[Finding, ...] = ()
    unknown: dict[str, str] = msgspec.field(default_factory=dict)
    version: str = ""
    ready: bool | None = None
    failing: tuple[str, ...] = ()
    controllers: Mapping[str, int] | None = None
    nodes: tuple[int, int] | None = None
    undecided: int | None = None
    oldest_request: dt.timedelta = dt.timedelta()
    tokens: int | None = None
    locks_deleted_nodes: bool | None = None
    ledger: int | None = None
    ledger_damage: str = ""
    ends: dict[str, dt.datetime] = msgspec.field(default_factory=dict)

    @property
    def severity(self) -> Severity:
        worst = max((severity_of(each.code) for each in self.findings), default=Severity.WELL)
        return max(worst, Severity.NOW) if self.ready is False or self.ledger_damage else worst

    def tree(self) -> dict[str, Any]:
        """The stable form for scripts."""
        tree: dict[str, Any] = {
            "severity": self.severity.name.lower().replace("_", "-"),
            "server": {
                "url": self.server,
                "version": self.version,
                "ready": self.ready,
                "failing": list(self.failing),
            },
            "ends": {name: str(Time.of(moment)) for name, moment in self.ends.items()},
            "unknown": self.unknown,
            "findings": [each.tree() | {"severity": severity_of(each.code).name.lower()} for each in self.findings],
        }
        if self.controllers is not None:
            tree["controllers"] = [{"name": name, "waiting": depth} for name, depth in self.controllers.items()]
        if self.nodes is not None:
            tree["nodes"] = {"total": self.nodes[0], "ready": self.nodes[1]}
        if self.locks_deleted_nodes is not None:
            tree["deletedNodes"] = {"lockedOut": self.locks_deleted_nodes}
        if self.undecided is not None:
            tree["requests"] = {"undecided": self.undecided, "oldestSeconds": int(self.oldest_request.total_seconds())}
        if self.ledger is not None or self.ledger_damage:
            tree["ledger"] = {"entries": self.ledger, "damage": self.ledger_damage}
        if self.tokens is not None:
            tree["tokens"] = {"valid": self.tokens}
        return tree


def controllers_in(metrics: str) -> dict[str, int]:
    """Keys that wait, by controller, from a text of metrics: a controller that runs has a queue."""
    found = (each for line in metrics.splitlines() if (each := _QUEUE.fullmatch(line)) is not None)
    depths = [(each[1], int(each[2])) for each in found]
    return dict(sorted(depths)[:_MOST_CONTROLLERS])


def checks_failing(verbose: str) -> tuple[str, ...]:
    """The checks that did not pass, from what ``/readyz?verbose`` answers."""
    found = (_FAILED.match(line) for line in verbose.splitlines())
    return tuple(each[1] for each in found if each is not None)[:_MOST_CHECKS]


def waited(requests: Iterable[CertificateSigningRequest], now: dt.datetime) -> dt.timedelta:
    """The longest."""
    times = [each.metadata.creation_timestamp for each in requests]
    return max((now - each.datetime() for each in times if each is not None), default=dt.timedelta())


async def look(config: RESTConfig, clock: Clock) -> ClusterStatus:
    """Raises ClientConfigurationError: the kubeconfig cannot be used."""
    report: Report = await cluster.examine(config, clock)
    found = ClusterStatus(config.options.server, report.findings)
    for each in cluster.dated(config):
        found.ends[each.name] = each.ends
    if found.severity >= Severity.NO_ANSWER:
        trusted = found.severity is Severity.NO_ANSWER
        found.unknown["server"] = NO_ANSWER if trusted else "answers, and is not the one that the kubeconfig trusts"
        return found
    options = replace(config.options, retry=Retry(attempts=1))
    asked = {
        "server": _server, "controllers": _controllers, "nodes": _nodes, "requests": _requests, "tokens": _tokens,
        "ledger": _ledger,
    }  # fmt: skip
    async with replace(config, options=options).client(component="status", clock=clock) as client:
        for name, ask in asked.items():
            # The doctor has been told the same, where it asks for it.
            try:
                code = await ask(client, found, clock.now())
            except APIStatusError as err:
                code = err.code
            except TransportError:
                found.unknown[name] = NO_ANSWER
                continue
            if code is not None and code >= 400:
                found.unknown[name] = _REFUSED.get(code, f"answers {code}")
            if code == 401:
                break  # and so to everything else
    return found


async def _server(client: Client, found: ClusterStatus, _now: dt.datetime) -> int | None:
    answer = await client.raw("GET", "/version")
    try:
        tree = json.loads(answer.body)
        found.version = str(tree.get("gitVersion", "")) if isinstance(tree, dict) else ""
    except ValueError:
        found.version = ""
    answer = await client.raw("GET", "/readyz?verbose")
    if answer.status in _REFUSED:
        return answer.status
    found.ready = answer.status == 200
    if not found.ready:
        found.failing = checks_failing(answer.body.decode(errors="replace"))
    return None


async def _controllers(client: Client, found: ClusterStatus, _now: dt.datetime) -> int | None:
    answer = await client.raw("GET", "/metrics", headers={"Accept": "text/plain"})
    if answer.status == 200:
        found.controllers = controllers_in(answer.body.decode(errors="replace"))
    return answer.status


async def _nodes(client: Client, found: ClusterStatus, _now: dt.datetime) -> None:
    nodes = (await client.list(catalog.NODES, options=ListOptions(limit=_NODES))).items
    found.nodes = (len(nodes), sum(map(kubelets.is_ready, nodes)))
    found.locks_deleted_nodes = await deleted_nodes.stored(client)


async def _requests(client: Client, found: ClusterStatus, now: dt.datetime) -> None:
    pending = (await csr_review.fetch(client)).pending
    found.undecided, found.oldest_request = len(pending), waited(pending, now)


async def _tokens(client: Client, found: ClusterStatus, now: dt.datetime) -> None:
    tokens, _ = await list_tokens(client)
    ends = [each.expires for each in tokens if each.expires is not None and each.expires > now]
    found.tokens = sum(each.expires is None for each in tokens) + len(ends)
    if ends:
        found.ends["the next bootstrap token"] = min(ends)


async def _ledger(client: Client, found: ClusterStatus, _now: dt.datetime) -> int | None:
    """Of programs with ``--ledger cluster``. What others keep in a file is not seen from here."""
    try:
        found.ledger = (await load(client)).position.size or None
    except LedgerDamaged as err:
        found.ledger_damage = str(err)
    except LedgerUnavailable as err:
        if not isinstance(err.__cause__, APIStatusError):
            raise TransportError(str(err)) from err
        return err.__cause__.code
    return None
