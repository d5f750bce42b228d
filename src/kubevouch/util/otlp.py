"""A tracer that sends spans to an OpenTelemetry collector, as protobuf over HTTP (OTLP 1.x)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubevouch.util.tracing import HEADER, Attribute, Kind, Span, Tracer

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

TRACES_PATH = "/v1/traces"


class TracingUnavailable(Exception):
    """The libraries are not installed."""

    def __init__(self) -> None:
        super().__init__("traces need the extra: pip install 'kubevouch[tracing]'")


def tracer(service: str, endpoint: str, sampled_per_million: int) -> Tracer:
    """A tracer of ``service``; ``endpoint`` is a URL, with or without a path.

    What has a parent is sampled as that one is, the rest so often in a million. Raises :class:`TracingUnavailable`.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
    except ImportError as err:
        raise TracingUnavailable from err
    path = endpoint.partition("://")[2].partition("/")[2]
    url = endpoint if path else endpoint.rstrip("/") + TRACES_PATH
    provider = TracerProvider(
        sampler=ParentBasedTraceIdRatio(sampled_per_million / 1_000_000),
        resource=Resource({SERVICE_NAME: service}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    return _Tracer(provider)


class _Tracer:
    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("kubevouch")
        self._propagator = TraceContextTextMapPropagator()

    def start(
        self, name: str, kind: Kind, attributes: dict[str, Attribute], *, parent: str = "", link: str = ""
    ) -> Span:
        from opentelemetry import trace
        from opentelemetry.context import Context

        context = self._propagator.extract({HEADER: parent}, Context()) if parent else Context()
        pointed = trace.get_current_span(self._propagator.extract({HEADER: link}, Context())).get_span_context()
        links = [trace.Link(pointed)] if pointed.is_valid else []
        span = self._tracer.start_span(
            name, context, kind=trace.SpanKind[kind.name], attributes=attributes, links=links
        )
        return _Span(self, span)

    def close(self) -> None:
        self._provider.shutdown()


class _Span:
    def __init__(self, tracer: _Tracer, span: trace.Span) -> None:
        self._tracer = tracer
        self._span = span

    @property
    def traceparent(self) -> str:
        context = self._span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 1:02x}"

    def set(self, name: str, value: Attribute) -> None:
        self._span.set_attribute(name, value)

    def fail(self, why: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_status(Status(StatusCode.ERROR, why))

    def child(self, name: str, kind: Kind, attributes: dict[str, Attribute]) -> Span:
        return self._tracer.start(name, kind, attributes, parent=self.traceparent)

    def end(self) -> None:
        self._span.end()
