"""The settings of the API server itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# kube-apiserver's defaults; its flow control shares out the sum.
DEFAULT_REQUESTS_INFLIGHT = 400
DEFAULT_MUTATING_REQUESTS_INFLIGHT = 200


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How many requests run at once, and what is told of them.

    Args:
        max_requests_inflight, max_mutating_requests_inflight: together the seats that the lanes share.
        logs_requests: a line for each request.
        tracing_config_file: a TracingConfiguration; None traces nothing.
    """

    max_requests_inflight: int = DEFAULT_REQUESTS_INFLIGHT
    max_mutating_requests_inflight: int = DEFAULT_MUTATING_REQUESTS_INFLIGHT
    logs_requests: bool = False
    tracing_config_file: Path | None = None

    @property
    def seats(self) -> int:
        return self.max_requests_inflight + self.max_mutating_requests_inflight
