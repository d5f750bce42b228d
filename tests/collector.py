"""An OpenTelemetry collector that only listens: OTLP over HTTP on a socket of its own."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import opentelemetry.exporter.otlp.proto.http.trace_exporter
import opentelemetry.sdk.trace.export  # noqa: F401 - both take a while, which no event loop should wait for
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Collector:
    """Spans as they came: (service, span message)."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.received: list[tuple[str, Any]] = []

    def named(self, name: str) -> list[Any]:
        return [span for _, span in self.received if span.name == name]

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"]
            for scope in resource.scope_spans:
                self.received += [(service, span) for span in scope.spans]


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
            collector.take(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_arguments: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
