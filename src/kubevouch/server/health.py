"""/livez, /readyz, /healthz (apiserver server/healthz; Kubernetes 1.36)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from kubevouch.server.request import BytesResult, Request, Result

# A check passes by returning and fails by raising HealthError.
Check = Callable[[], Awaitable[None]]

_TEXT = "text/plain; charset=utf-8"


class HealthError(Exception):
    """A check that does not pass. Its text is for the log; over HTTP the reason is withheld."""


class Health:
    """One of the three endpoints, with the checks in the order given."""

    def __init__(self, name: str, checks: Mapping[str, Check]) -> None:
        self._name = name
        self._checks = dict(checks)

    async def serve(self, request: Request) -> Result:
        """``/<name>`` with ``verbose`` and ``exclude``, and ``/<name>/<check>`` alone."""
        one = request.target.path.removeprefix(f"/{self._name}").strip("/")
        headers = {"X-Content-Type-Options": "nosniff"}
        if one:
            if one not in self._checks:
                return BytesResult(b"404 page not found\n", _TEXT, 404, headers)
            passed = await self._passes(one)
            body = b"ok" if passed else f"internal server error: {one} failed\n".encode()
            return BytesResult(body, _TEXT, 200 if passed else 500, headers)
        return await self._all(request, headers)

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
            body = "\n".join([*lines, f"{self._name} check failed"]) + "\n"
            return BytesResult(body.encode(), _TEXT, 500, headers)
        if "verbose" not in request.query:
            return BytesResult(b"ok", _TEXT, 200, headers)
        return BytesResult(("\n".join([*lines, f"{self._name} check passed"]) + "\n").encode(), _TEXT, 200, headers)

    async def _passes(self, name: str) -> bool:
        try:
            await self._checks[name]()
        except HealthError:
            return False
        return True
