"""The state of flow control and connections as metrics (names: apiserver_flowcontrol_*, Kubernetes 1.36)."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from kubevouch.server.filters.flow_control import FlowControl
from kubevouch.server.flow_control.connections import ConnectionLimits
from kubevouch.server.metrics.catalog import counter, gauge

_LEVEL = ("priority_level",)


def collect(flow: FlowControl, connections: ConnectionLimits) -> Iterator[Metric]:
    """Read at a scrape, so that a request pays nothing for it."""
    lanes = {str(lane): state for lane, state in flow.scheduler.lanes.items()}
    prefix = "apiserver_flowcontrol"
    yield gauge(
        f"{prefix}_current_executing_requests",
        "Requests on a seat.",
        _LEVEL,
        {(name,): state.running for name, state in lanes.items()},
    )
    yield gauge(
        f"{prefix}_current_inqueue_requests",
        "Requests that wait for a seat.",
        _LEVEL,
        {(name,): state.waiting for name, state in lanes.items()},
    )
    yield gauge(
        f"{prefix}_nominal_limit_seats",
        "Seats that are a lane's own.",
        _LEVEL,
        {(name,): state.seats for name, state in lanes.items()},
    )
    yield counter(
        f"{prefix}_dispatched_requests",
        "Requests that got a seat.",
        _LEVEL,
        {(name,): state.dispatched for name, state in lanes.items()},
    )
    refused: dict[tuple[str, ...], float] = {
        (name, "queue-full"): float(state.refused) for name, state in lanes.items()
    }
    timed_out: dict[tuple[str, ...], float] = {
        (name, "time-out"): float(state.timed_out) for name, state in lanes.items()
    }
    yield counter(
        f"{prefix}_rejected_requests", "Requests answered with 429.", (*_LEVEL, "reason"), refused | timed_out
    )
    waiting = sum(state.waiting for state in lanes.values())
    yield gauge("apiserver_current_inqueue_requests", "Requests that wait for a seat.", (), {(): waiting})
    yield counter(
        "kubevouch_authentication_budget_refusals",
        "Bad credentials answered with 429 because their source sent too many.",
        (),
        {(): flow.failures_refused},
    )
    yield counter(
        "kubevouch_public_read_budget_refusals",
        "Reads without a credential of what is public, answered with 429 because there were too many.",
        (),
        {(): flow.public_reads.refused},
    )
    yield gauge("kubevouch_connections", "Open connections.", (), {(): connections.open})
    yield counter("kubevouch_connections_refused", "Connections over the limits.", (), {(): connections.refused})
