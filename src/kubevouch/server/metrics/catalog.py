"""The server's metrics under Kubernetes' names (apiserver endpoints/metrics; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator

import msgspec
import prometheus_client
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kubevouch.authentication.interface import Authentication
from kubevouch.authentication.service_account import METHOD as SERVICE_ACCOUNT_TOKEN
from kubevouch.server.metrics.access import AccessMetrics
from kubevouch.server.metrics.approvals import ApprovalFamilies
from kubevouch.server.metrics.series import Counter, Gauge, Histogram, Level
from kubevouch.server.metrics.signing import SigningFamilies
from kubevouch.server.metrics.storage import StorageMetrics
from kubevouch.server.metrics.workqueue import WorkqueueFamilies
from kubevouch.util.turns import give_way

_LATENCY = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
_SHORT = tuple(0.001 * 2**power for power in range(15))
_STALLS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_SIZES = tuple(10**power for power in range(3, 10))
_EVENT_SIZES = tuple(1024 * 8**power for power in range(8))
_REMAINING = (
    0, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 345600, 604800, 2592000, 7776000, 15552000, 31104000,
)  # fmt: skip
_KNOWN_USERS = frozenset(("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"))
# Counters whose names in Kubernetes do not end in _total.
_PLAIN_COUNTERS = (
    b"authentication_attempts", b"authenticated_user_requests",
    b"apiserver_admission_webhook_rejection_count", b"apiserver_admission_webhook_fail_open_count",
)  # fmt: skip
# Every way to a served resource, three scopes, with and without dryRun: about a thousand. Of codes some five each.
_MAX_ROUTES = 1500
_MAX_REQUEST_SERIES = 5000
# Samples of a scrape that are made and written before others have their turn: a few milliseconds.
_SCRAPE_SLICE = 500
_HEAD_LINES = 2  # HELP and TYPE
_END = b"# EOF\n"
TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_REQUEST_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component", "dry_run", "code")


class Metrics:
    """One registry a server, so that several servers in one process (tests) do not share counters."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.workqueues = WorkqueueFamilies(self.registry)
        self.access = AccessMetrics(self.registry)
        self.approvals = ApprovalFamilies(self.registry)
        self.signing = SigningFamilies(self.registry)
        self._requests = Counter(
            "apiserver_request_total", "Requests by verb, resource and code.", _REQUEST_LABELS,
            registry=self.registry, max_series=_MAX_REQUEST_SERIES,
        )  # fmt: skip
        self._latency = Histogram(
            "apiserver_request_duration_seconds",
            "Time to answer, without watches.",
            ("verb", "group", "version", "resource", "subresource", "scope", "component", "dry_run"),
            buckets=_LATENCY,
            registry=self.registry,
            max_series=_MAX_ROUTES,
        )
        self._inflight = Gauge(
            "apiserver_current_inflight_requests", "Requests under way.", ("request_kind",), registry=self.registry
        )
        self._longrunning = Level(
            "apiserver_longrunning_requests",
            "Watches under way.",
            ("verb", "group", "version", "resource", "subresource", "scope", "component"),
            registry=self.registry,
        )
        self._authentication = Counter(
            "authentication_attempts", "Attempts to authenticate.", ("result",), registry=self.registry
        )
        self._authentication_duration = Histogram(
            "authentication_duration_seconds",
            "Time to authenticate, by result.",
            ("result",),
            buckets=_SHORT,
            registry=self.registry,
        )
        self._authorization = Counter(
            "authorization_attempts", "Attempts to authorize.", ("result",), registry=self.registry
        )
        self._authorization_duration = Histogram(
            "authorization_duration_seconds",
            "Time to authorize, by result.",
            ("result",),
            buckets=_SHORT,
            registry=self.registry,
        )
        self._users = Counter(
            "authenticated_user_requests", "Authenticated requests by kind of user.", ("username",),
            registry=self.registry,
        )  # fmt: skip
        self._certificate_expiration = prometheus_client.Histogram(
            "apiserver_client_certificate_expiration_seconds",
            "How long the client certificates of requests are still valid.",
            buckets=_REMAINING,
            registry=self.registry,
        )
        self._valid_tokens = Counter(
            "serviceaccount_valid_tokens", "Requests with service account tokens that hold.", registry=self.registry
        )
        self._audit_events = Counter("apiserver_audit_event", "Audit events recorded.", registry=self.registry)
        self._audit_rejected = Counter(
            "apiserver_audit_requests_rejected",
            "Requests refused because their audit event could not be kept.",
            registry=self.registry,
        )
        self._audit_levels = Counter(
            "apiserver_audit_level", "Requests by the audit policy's level.", ("level",), registry=self.registry
        )
        self._audit_errors = Counter(
            "apiserver_audit_error", "Audit events that are lost.", ("plugin",), registry=self.registry
        )
        self._requested_duration = Counter(
            "apiserver_certificates_registry_csr_requested_duration_total",
            "Issued certificates whose request asked for a duration.",
            ("signerName",),
            registry=self.registry,
        )
        self._honored_duration = Counter(
            "apiserver_certificates_registry_csr_honored_duration_total",
            "Issued certificates that got the duration they asked for.",
            ("signerName",),
            registry=self.registry,
        )
        self._response_sizes = Histogram(
            "apiserver_response_sizes",
            "Bytes of answers to reads.",
            ("verb", "group", "version", "resource", "subresource", "scope", "component"),
            buckets=_SIZES,
            registry=self.registry,
        )
        self._watch_events = Counter(
            "apiserver_watch_events",
            "Events sent to watches.",
            ("group", "version", "resource"),
            registry=self.registry,
        )
        self._watch_bytes = Histogram(
            "apiserver_watch_events_sizes",
            "Bytes of watch events; of those that are written together, their mean.",
            ("group", "version", "resource"),
            buckets=_EVENT_SIZES,
            registry=self.registry,
        )
        self.storage = StorageMetrics(self.registry)
        self.loop_stalls = Histogram(
            "kubevouch_event_loop_stall_seconds",
            "How long single steps held everybody up that took more than 50 ms.",
            (),
            buckets=_STALLS,
            registry=self.registry,
        )
        self._authenticated = {r: self._authentication.labels(r) for r in ("success", "failure", "error")}
        self._authorized = {r: self._authorization.labels(r) for r in ("allowed", "denied", "no-opinion", "error")}

    def authentication(self, result: str, seconds: float) -> None:
        """``result`` is success, failure or error."""
        self._authenticated[result].inc()
        self._authentication_duration.observe((result,), seconds)

    def authenticated(self, found: Authentication, now: dt.datetime) -> None:
        """Count a request by what it was authenticated with."""
        self._users.labels(_user_label(found.user.name)).inc()
        if found.expires is not None:
            self._certificate_expiration.observe((found.expires - now).total_seconds())
        if found.method == SERVICE_ACCOUNT_TOKEN:
            self._valid_tokens.inc()

    def authorization(self, result: str, seconds: float) -> None:
        """``result`` is allowed, denied, no-opinion or error."""
        self._authorized[result].inc()
        self._authorization_duration.observe((result,), seconds)

    def audit_level(self, level: str) -> None:
        self._audit_levels.labels(level).inc()

    def audit_event(self) -> None:
        self._audit_events.inc()

    def audit_lost(self, plugin: str, count: int) -> None:
        """Events that ``plugin`` (``log``, ``webhook``, ``buffered`` or ``truncate``) did not keep."""
        self._audit_errors.labels(plugin).inc(count)

    def audit_rejected(self) -> None:
        self._audit_rejected.inc()

    def watch_began(self, group: str, version: str, resource: str, subresource: str, scope: str) -> Callable[[], None]:
        """Count a watch until what is returned is called."""
        child = self._longrunning.labels("WATCH", group, version, resource, subresource, scope, "apiserver")
        child.inc()
        return child.dec

    def read_at_scrape(self, collect: Callable[[], Iterator[Metric]]) -> None:
        """Metrics that are kept elsewhere and read when somebody asks."""
        self.registry.register(_AtScrape(collect))

    def request(self, labels: tuple[str, ...], code: int, seconds: float, *, watch: bool) -> None:
        """Count one finished request; ``labels`` are those of the latency histogram."""
        self._requests.labels(*labels, str(code)).inc()
        if not watch:
            self._latency.observe(labels, seconds)

    def response_size(self, labels: tuple[str, ...], size: int) -> None:
        """An answer of ``size`` bytes to a read; ``labels`` are verb to component, as for the latency."""
        self._response_sizes.observe(labels, size)

    def watch_events(self, group: str, version: str, resource: str) -> Callable[[int, int], None]:
        """What to call for a watch with the number of events written, and their bytes."""
        count = self._watch_events.labels(group, version, resource)

        def sent(events: int, size: int) -> None:
            count.inc(events)
            self._watch_bytes.observe((group, version, resource), size / events)

        return sent

    def inflight(self, kind: str, read: Callable[[], float]) -> None:
        """``read`` tells how many requests of a kind (``mutating``, ``readOnly``) are under way."""
        self._inflight.labels(kind).set_function(read)

    def csr_duration(self, signer_name: str, *, honored: bool) -> None:
        """Count a certificate whose request named a duration (registry/certificates, Kubernetes 1.36)."""
        label = signer_name if signer_name.startswith("kubernetes.io/") else "other"
        self._requested_duration.labels(label).inc()
        if honored:
            self._honored_duration.labels(label).inc()


async def exposition(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Body and content type for a scrape. Gives way to others again and again: there may be tens of thousands of
    samples. When a series began (``_created``) is left out, as kube-apiserver does."""
    encode, content_type = choose_encoder(accept)
    text = content_type.startswith("text/plain")
    if text and "escaping=" not in content_type:
        # Go's client says how names are escaped even when nobody asked.
        content_type += "; escaping=underscores"
    body = []
    written = 0
    for part in _parts(registry):
        lines = encode(_AtScrape(lambda part=part: iter((part.family,))))  # type: ignore[misc]  # bound at once
        if not text:
            lines = lines.removesuffix(_END)
        body.append(_named_as_in_go(lines) if text else lines)
        if part.continues:
            body[-1] = body[-1].split(b"\n", _HEAD_LINES)[_HEAD_LINES]
        written += len(part.family.samples)
        if written >= _SCRAPE_SLICE:
            written = 0
            await give_way()
    return b"".join(body) + (b"" if text else _END), content_type


class _Part(msgspec.Struct, frozen=True):
    """Some samples of a family; ``continues``: its head has been written."""

    family: Metric
    continues: bool


def _parts(registry: CollectorRegistry) -> Iterator[_Part]:
    before = ""
    for family in registry.collect():
        samples = [each for each in family.samples if not each.name.endswith("_created")]
        for at in range(0, max(len(samples), 1), _SCRAPE_SLICE):
            part = Metric(family.name, family.documentation, family.type, family.unit)
            part.samples = samples[at : at + _SCRAPE_SLICE]
            yield _Part(part, continues=family.name == before)
            before = family.name


def exposed_name(family: Metric) -> str:
    """What a family is called in the text format."""
    plain = family.type != "counter" or family.name.encode() in _PLAIN_COUNTERS
    return family.name if plain else f"{family.name}_total"


def _named_as_in_go(body: bytes) -> bytes:
    # prometheus_client puts _total behind every counter. Go does so in the OpenMetrics format only.
    for name in _PLAIN_COUNTERS:
        body = body.replace(name + b"_total", name)
    return body


def _user_label(name: str) -> str:
    """Kubernetes' few words for users, so that names do not become series."""
    if name in _KNOWN_USERS:
        return name
    return "email_id" if "@" in name else "other"


class _AtScrape(Collector):
    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Metric]:
        return self._collect()


def counter(name: str, help_text: str, labels: tuple[str, ...], values: dict[tuple[str, ...], float]) -> Metric:
    """A counter's present values by label values."""
    family = CounterMetricFamily(name, help_text, labels=labels)
    for each, value in values.items():
        family.add_metric(each, value)
    return family


def gauge(name: str, help_text: str, labels: tuple[str, ...], values: dict[tuple[str, ...], float]) -> Metric:
    """A gauge's present values by label values."""
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for each, value in values.items():
        family.add_metric(each, value)
    return family
