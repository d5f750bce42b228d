"""One join is one trace: agent, server and controllers, received by a collector on a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from asynctest import async_test
from collector import Collector, collecting
from kubevouch.agent.discovery import token_discovery
from kubevouch.agent.interface import Step
from kubevouch.controllers import csr_approving, csr_signing
from kubevouch.phases.join import JoinOptions, join
from kubevouch.phases.tracing import traced, tracer_from
from kubevouch.pki import pins
from kubevouch.server.bootstrap import own_kinds
from kubevouch.server.filters.tracing import Tracing
from kubevouch.standalone.controllers import start_controllers
from kubevouch.util import tracing
from kubevouch.util.clock import SystemClock
from served_world import Served, served

KIND_SERVER, KIND_CLIENT = 2, 3


class Silent:
    def done(self, step: Step, detail: str = "") -> None: ...
    def waiting(self, why: str) -> None: ...
    def warning(self, text: str) -> None: ...


def configuration(folder: Path, collector: Collector, rate: int) -> Path:
    path = folder / f"tracing-{rate}.yaml"
    path.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
        f"endpoint: {collector.url}\nsamplingRatePerMillion: {rate}\n"
    )
    return path


@asynccontextmanager
async def traced_server(folder: Path, config: Path) -> AsyncIterator[Served]:
    """What it sent is at the collector once the block has ended."""
    found = Tracing(tracer_from(config, "kube-apiserver"))
    async with served(folder, tracing=found) as at:
        yield at
    await asyncio.to_thread(found.tracer.close)


@async_test
async def test_one_join_is_one_trace(tmp_path: Path) -> None:
    with collecting() as collector:
        # The server samples nothing by itself: that the agent is traced is what counts.
        async with traced_server(tmp_path, configuration(tmp_path, collector, 0)) as at:
            await own_kinds.ensure(at.server.client)
            controllers = start_controllers(at.server, ("*",))
            await controllers.settle()
            pin = pins.pin_of(at.server.pki.authority.certificate)
            discovery = token_discovery(at.server.endpoint.address, at.token, [pin], timeout=120.0)
            options = JoinOptions(discovery, "worker-1", tmp_path / "worker", 120.0)
            config = configuration(tmp_path, collector, 1_000_000)
            tracer = tracer_from(config, "agent")
            with tracing.active(tracer.start("join", tracing.Kind.INTERNAL, {})):
                await join(options, SystemClock(), Silent())
            await asyncio.to_thread(tracer.close)
            await controllers.settle()
            await controllers.close()
        (root,) = collector.named("join")
        ours = [(service, span) for service, span in collector.received if span.trace_id == root.trace_id]
        spans = {span.span_id: span for _, span in ours}
        assert not root.parent_span_id
        # Nobody is an orphan: every parent is there.
        assert all(span.parent_span_id in spans for span in spans.values() if span is not root)
        (created,) = [span for _, span in ours if span.name == "create certificatesigningrequests"]
        post = spans[created.parent_span_id]
        assert (post.name, post.kind, created.kind) == ("POST", KIND_CLIENT, KIND_SERVER)
        assert post.parent_span_id == root.span_id
        for controller, writes in (
            (csr_approving.NAME, "update certificatesigningrequests/approval"),
            (csr_signing.NAME, "update certificatesigningrequests/status"),
        ):
            passes = [span for _, span in ours if span.name == controller]
            assert {span.parent_span_id for span in passes} == {created.span_id}
            written = [span for _, span in ours if span.name == writes]
            assert {span.parent_span_id for span in written} <= {span.span_id for span in passes}
            assert written
        assert {service for service, _ in ours} == {"agent", "kube-apiserver"}


@async_test
async def test_the_anonymous_decide_nothing_about_traces(tmp_path: Path) -> None:
    with collecting() as collector:
        async with (
            traced_server(tmp_path, configuration(tmp_path, collector, 0)) as at,
            at.session() as anonymous,
            at.session(at.token) as known,
        ):
            given = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
            async with anonymous.get("/version", headers=given) as answer:
                assert answer.status == 200
            async with known.get("/api/v1/nodes", headers=given) as answer:
                assert answer.status == 403
        assert [span.name for _, span in collector.received] == ["list nodes"]
        ((_, span),) = collector.received
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == ("a" * 32, "b" * 16)
        assert {each.key: each.value.int_value for each in span.attributes}["http.response.status_code"] == 403
        assert span.status.message


@async_test
async def test_so_many_in_a_million_without_a_parent(tmp_path: Path) -> None:
    with collecting() as collector:
        async with (
            traced_server(tmp_path, configuration(tmp_path, collector, 1_000_000)) as at,
            at.session() as session,
        ):
            headers = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-00"}
            async with session.get("/version", headers=headers):
                pass
        (span,) = collector.named("GET")
        assert [link.trace_id.hex() for link in span.links] == ["a" * 32]
        assert span.trace_id.hex() != "a" * 32


def test_without_a_configuration_there_is_no_span() -> None:
    with traced(None, "agent", "join"), tracing.child("inner") as inner:
        assert inner is None
        assert tracing.traceparent() == ""
