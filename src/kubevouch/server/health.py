"""/livez, /readyz, /healthz (apiserver server/healthz; Kubernetes 1.36)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from prometheus_client import CollectorRegistry

from kubevouch.server.metrics.series import Counter, Gauge
from kubevouch.server.request import NO_SNIFFING, NOT_FOUND, BytesResult, Request, Result

# A check passes by returning and fails by raising HealthError.
Check = Callable[[], Awaitable[None]]

_TEXT = "text/plain; charset=utf-8"


class HealthError(Exception):
    """A check that does not pass. Its text is for the log; over HTTP the reason is withheld."""


class HealthMetrics:
    """What became of the checks, for ``/metrics/slis`` (component-base metrics/prometheus/slis)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("name", "type")
        self._last = Gauge(
            "kubernetes_healthcheck", "This metric records the result of a single healthcheck.", labels,
            registry=self.registry,
        )  # fmt: skip
        self._all = Counter(
            "kubernetes_healthchecks", "This metric records the results of all healthcheck.", (*labels, "status"),
            registry=self.registry,
        )  # fmt: skip

    def note(self, kind: str, name: str, *, passed: bool) -> None:
        self._last.labels(name, kind).set(int(passed))
        self._all.labels(name, kind, "success" if passed else "error").inc()


class Health:
    """One of the three endpoints, with the checks in the order given."""

    def __init__(self, name: str, checks: Mapping[str, Check], metrics: HealthMetrics | None = None) -> None:
        self.name = name
        self._checks = dict(checks)
        self._metrics = metrics or HealthMetrics()

    def add(self, name: str, check: Check) -> None:
        """One more, before that of a shutdown."""
        last = self._checks.pop("shutdown", None)
        self._checks[name] = check
        if last is not None:
            self._checks["shutdown"] = last

    async def serve(self, request: Request) -> Result:
        """``/<name>`` with ``verbose`` and ``exclude``, and ``/<name>/<check>`` alone."""
        one = request.target.path.removeprefix(f"/{self.name}").strip("/")
        if one:
            if one not in self._checks:
                return NOT_FOUND
            if await self._passes(one):
                return BytesResult(b"ok", _TEXT, 200)
            return BytesResult(f"internal server error: {one} failed\n".encode(), _TEXT, 500, NO_SNIFFING)
        return await self._all(request, NO_SNIFFING)

    async def _all(self, request: Request, headers: Mapping[str, str]) -> Result:
        excluded = set(request.query.all("exclude"))
        lines, failed = [], False
        for name in self._checks:
            if name in excluded:
                excluded.discard(name)
                lines.append(f"[+]{name} excluded: ok")
            elif await self._passes(name):
                lines.append(f"[+]{name} ok")
            else:
                failed = True
                lines.append(f"[-]{name} failed: reason withheld")
        if excluded:
            unknown = ", ".join(f'"{name}"' for name in sorted(excluded))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
        if failed:
            body = "\n".join([*lines, f"{self.name} check failed"]) + "\n"
            return BytesResult(body.encode(), _TEXT, 500, headers)
        if "verbose" not in request.query:
            return BytesResult(b"ok", _TEXT, 200, headers)
        return BytesResult(("\n".join([*lines, f"{self.name} check passed"]) + "\n").encode(), _TEXT, 200, headers)

    async def _passes(self, name: str) -> bool:
        try:
            await self._checks[name]()
        except HealthError:
            passed = False
        else:
            passed = True
        self._metrics.note(self.name, name, passed=passed)
        return passed
