"""The settings of the API server itself."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec

from kubevouch.server.edge.sni import NamedFiles
from kubevouch.server.edge.timeouts import REQUEST_TIMEOUT
from kubevouch.server.edge.tls import ServingFiles, TLSOptions
from kubevouch.storage.watchcache.history import HISTORY

# kube-apiserver's defaults; its flow control shares out the sum.
DEFAULT_REQUESTS_INFLIGHT = 400
DEFAULT_MUTATING_REQUESTS_INFLIGHT = 200
DEFAULT_WATCH_CACHE_SIZE = HISTORY


class ServerOptions(msgspec.Struct, frozen=True):
    """How many requests run at once, and what is told of them.

    Args:
        max_requests_inflight, max_mutating_requests_inflight: together the seats that the lanes share.
        logs_requests: a line for each request.
        tracing_config_file: a TracingConfiguration; None traces nothing.
        request_timeout: how long a body or an answer may be under way, and the most for everything shorter.
        tls: versions and cipher suites.
        serving: another pair than that of the data directory.
        named: pairs for clients that ask for a name.
        replaces_ca: the store may be of a cluster with another CA.
        watch_cache_size: how many events of each resource are remembered for watches and lists.
        compaction_interval: how long the store keeps old states, at least; zero keeps them for ever.
        store_health_seconds, store_ready_seconds: how long the store may take to answer ``/livez`` and ``/readyz``.
        counts_objects: the metrics say how many there are of each resource.
        event_ttl: how long Events are kept; zero keeps them for ever.
        csr_columns, csr_annotations: which facts of requests ``kubectl get csr`` shows, and annotations hold; names of
            ``registry.certificates.derived_facts``.
        record_invalid_csr_signatures: store a few signing requests that their own key has not signed, denied.
    """

    max_requests_inflight: int = DEFAULT_REQUESTS_INFLIGHT
    max_mutating_requests_inflight: int = DEFAULT_MUTATING_REQUESTS_INFLIGHT
    logs_requests: bool = False
    tracing_config_file: Path | None = None
    request_timeout: dt.timedelta = REQUEST_TIMEOUT
    tls: TLSOptions = msgspec.field(default_factory=TLSOptions)
    serving: ServingFiles | None = None
    named: tuple[NamedFiles, ...] = ()
    replaces_ca: bool = False
    watch_cache_size: int = DEFAULT_WATCH_CACHE_SIZE
    compaction_interval: dt.timedelta = dt.timedelta()
    store_health_seconds: float = 2.0
    store_ready_seconds: float = 2.0
    counts_objects: bool = True
    event_ttl: dt.timedelta = dt.timedelta(hours=1)
    csr_columns: tuple[str, ...] = ()
    csr_annotations: tuple[str, ...] = ()
    record_invalid_csr_signatures: bool = False

    @property
    def seats(self) -> int:
        return self.max_requests_inflight + self.max_mutating_requests_inflight
