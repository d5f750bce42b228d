"""What a cloud does when it does not answer as it should."""

from __future__ import annotations

from aiohttp import web


class Faults:
    """Answers of the API that come before the right ones, in order."""

    def __init__(self) -> None:
        self._faults: list[tuple[int, dict[str, str]]] = []

    def fail(self, status: int, times: int = 1, retry_after: str = "") -> None:
        """Answer so the next ``times``."""
        self._faults += [(status, {"Retry-After": retry_after} if retry_after else {})] * times

    def next_fault(self) -> web.Response | None:
        if not self._faults:
            return None
        status, headers = self._faults.pop(0)
        return web.Response(status=status, headers=headers, text="backend error")
