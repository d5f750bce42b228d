"""The page of metrics, from what the server and the agent register."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kubevouch.agent.report import CLIENT, SERVING
from kubevouch.agent.report import Metrics as AgentMetrics
from kubevouch.client.leader_election import LEASE_NAME
from kubevouch.ledger.store import Statistics
from kubevouch.policy.standing_decisions import StandingDecisions
from kubevouch.registry.write_budget import WriteBudget
from kubevouch.revocation.publication import PREFIX, Document, Publication
from kubevouch.revocation.revocations import Revocations
from kubevouch.server.filters.flow_control import FlowControl
from kubevouch.server.flow_control.connections import ConnectionLimits
from kubevouch.server.metrics import decisions, issuance, leading
from kubevouch.server.metrics import flow as flow_metrics
from kubevouch.server.metrics import ledger as ledger_metrics
from kubevouch.server.metrics import memory as memory_metrics
from kubevouch.server.metrics import revocation as revocation_metrics
from kubevouch.server.metrics import workers as worker_metrics
from kubevouch.server.metrics.admission import AdmissionMetrics
from kubevouch.server.metrics.catalog import Metrics, exposed_name
from kubevouch.server.metrics.encryption import EncryptionMetrics
from kubevouch.server.metrics.series import Counter, Histogram
from kubevouch.server.node_recovery import RecoveryMetrics
from kubevouch.signers.registry import Signers
from kubevouch.standalone.attached.metrics import ClusterMetrics
from kubevouch.storage.compactor import RevisionBytes
from kubevouch.storage.memory import MemoryStore
from kubevouch.storage.watchcache.cacher import Cacher
from kubevouch.storage.watchcache.resource_cache import ResourceCache
from kubevouch.util.clock import SystemClock
from kubevouch.util.timers import Timers

_INTRODUCTION = """\
Names and labels are Kubernetes' where Kubernetes has such a metric; those that begin with `kubevouch_` are our own.
Times are in seconds. A histogram `x` is in `/metrics` as `x_bucket`, `x_count` and `x_sum`."""
_SERVER = "At `/metrics` of the API server, for whoever may get that path (ClusterRole `system:monitoring`)."
_ATTACHED = (
    "At `/metrics` of `kubevouch controllers`, by default on port 10267, for whoever may get that path in the first "
    "cluster. Of several clusters each sample has the label `cluster`. Those of the ledger are there with `--ledger`."
)
_AGENT = "At `/metrics` of `kubevouch agent`, by default on `127.0.0.1:10451`."


def page(made: str) -> str:
    """``made`` says what makes the page."""
    parts = ["# Metrics", made, _INTRODUCTION, "## Server", _SERVER, _table(_server())]
    parts += ["## Attached controllers", _ATTACHED, _table(_attached())]
    parts += ["## Agent", _AGENT, _table(_agent())]
    return "\n\n".join(parts) + "\n"


def _server() -> Iterator[tuple[Metric, Iterable[str]]]:
    clock, metrics = SystemClock(), Metrics()
    AdmissionMetrics(metrics.registry, clock)
    EncryptionMetrics(metrics.registry)
    RecoveryMetrics(metrics.registry, lambda: 0)
    metrics.read_at_scrape(lambda: flow_metrics.collect(FlowControl(clock, Timers(clock)), ConnectionLimits()))
    cacher = Cacher(MemoryStore(clock=clock), clock)
    metrics.read_at_scrape(lambda: memory_metrics.collect(cacher, RevisionBytes(), WriteBudget(clock), int))
    metrics.read_at_scrape(lambda: ledger_metrics.collect(ResourceCache("/registry/configmaps/")))
    metrics.read_at_scrape(lambda: issuance.collect(Statistics(), 0.0))
    metrics.read_at_scrape(lambda: decisions.collect(StandingDecisions().counts()))
    metrics.read_at_scrape(lambda: worker_metrics.collect(0, 0))
    metrics.read_at_scrape(lambda: leading.collect(LEASE_NAME, leads=False))
    metrics.signing.of_signers(_signers())
    publication = Publication(Revocations.none())
    now = clock.now()
    publication.publish({}, {f"{PREFIX}/crl/00/full.crl": Document(b"", "", now)})
    metrics.read_at_scrape(lambda: revocation_metrics.collect(publication.revocations, publication, now))
    return _families(metrics.registry)


def _attached() -> Iterator[tuple[Metric, Iterable[str]]]:
    metrics = ClusterMetrics("127.0.0.1:6443", LEASE_NAME)
    metrics.signing.of_signers(_signers())
    registry = metrics.registry
    ProcessCollector(registry=registry)
    registry.register(_Ledger())
    return _families(registry)


def _signers() -> Signers:
    """One of them, whose CA has an end."""
    signer: Any = SimpleNamespace(ends=SystemClock().now())
    return Signers({"example.com/signer": signer})


class _Ledger(Collector):
    def collect(self) -> Iterator[Metric]:
        yield from issuance.collect(Statistics(), 0.0)
        yield from decisions.collect(StandingDecisions().counts())


def _agent() -> Iterator[tuple[Metric, Iterable[str]]]:
    def manager(name: str) -> Any:
        return SimpleNamespace(name=name, pair=None, standing=SimpleNamespace(failures=0))

    return _families(AgentMetrics((manager(CLIENT), manager(SERVING)), SystemClock()).registry)


def _families(registry: CollectorRegistry) -> Iterator[tuple[Metric, Iterable[str]]]:
    """Each family and its labels."""
    collectors: list[Collector] = list(registry._collector_to_names)
    for collector in collectors:
        for family in collector.collect():
            labels = (
                collector.label_names
                if isinstance(collector, Counter | Histogram)
                else getattr(collector, "_labelnames", None)
            )
            if labels is None:
                # Read at a scrape: what it has now shows its labels.
                labels = dict.fromkeys(name for sample in family.samples for name in sample.labels)
            yield family, labels


def _table(families: Iterable[tuple[Metric, Iterable[str]]]) -> str:
    rows = sorted(
        f"| `{exposed_name(family)}` | {'untyped' if family.type == 'unknown' else family.type} | "
        f"{', '.join(f'`{label}`' for label in labels)} | {family.documentation} |"
        for family, labels in families
    )
    return "\n".join(["| metric | type | labels | |", "|---|---|---|---|", *rows])
