"""The addresses of one cluster's API servers, in the order in which to try them."""

from __future__ import annotations

from collections.abc import Iterable

from kubevouch.client.interface import TransportError
from kubevouch.machinery.errors import APIStatusError


def answers(err: APIStatusError | TransportError | None) -> bool:
    """Whether a call that ended so has reached an API server at work (client-go's guess, ``util/certificate``).

    A refusal is an answer; a proxy's page, a failed connection and an internal error are none.
    """
    if err is None:
        return True
    return isinstance(err, APIStatusError) and err.code in (401, 403, 404)


class Servers:
    """Those that answered last come first, each group in the order given; then the one whose failure is oldest."""

    def __init__(self, urls: Iterable[str] = ()) -> None:
        self._urls: list[str] = []
        self._failures: dict[str, float] = {}
        self.know(urls)

    def know(self, urls: Iterable[str]) -> None:
        """These are the addresses now; what is known of those that stay is kept."""
        self._urls = list(dict.fromkeys(url.rstrip("/") for url in urls if url))
        self._failures = {url: at for url, at in self._failures.items() if url in self._urls}

    def in_order(self) -> list[str]:
        healthy = [url for url in self._urls if url not in self._failures]
        return healthy + sorted(self._failures, key=lambda url: (self._failures[url], self._urls.index(url)))

    def worked(self, url: str) -> None:
        self._failures.pop(url, None)

    def failed(self, url: str, monotonic: float) -> None:
        self._failures[url] = monotonic
