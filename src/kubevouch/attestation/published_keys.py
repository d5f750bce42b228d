"""The keys that a cloud publishes for its tokens: in a file or at a URL, kept, and read again when one is not known.

Where they are is a setting, and nothing else: what a token or a discovery document says of it is not followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from kubevouch.attestation.http import Web
from kubevouch.attestation.interface import SettingsError, UnavailableError
from kubevouch.attestation.jwt import KeySet, KeySetError, UnknownKeyError
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("attestation.keys")

FRESH_SECONDS = 3600.0
"""Keys older than that are fetched before they are used."""
STALE_SECONDS = 24 * 3600.0
"""Keys that cannot be fetched again count for that long: a cloud publishes a key days before it signs with it, and a
fetch that somebody can hinder must not keep a withdrawn key for ever."""
BETWEEN_SECONDS = 30.0
"""At least, between two fetches: tokens that name unknown keys cost the cloud no more."""
MAX_BYTES = 256 << 10
"""Of a file of keys."""

Fetch = Callable[[str], Awaitable[bytes]]
"""The document at an https URL; raises :class:`UnavailableError`."""


class PublishedKeys:
    """Verifies tokens with the keys of one source.

    Args:
        source: an https URL, or the path of a file, of a JWK Set.

    Raises:
        SettingsError: ``source`` is neither.
    """

    def __init__(self, source: str, fetch: Fetch, clock: Clock) -> None:
        if not source.startswith(("https://", "/")):
            raise SettingsError(f"got the keys {source!r}, expected an https URL or an absolute path")
        self._source = source
        self._fetch = fetch
        self._clock = clock
        self._keys: KeySet | None = None
        self._fetched = 0.0
        self._tried: float | None = None
        self._failure = ""
        self._lock = asyncio.Lock()

    async def payload(self, token: str) -> bytes:
        """As :meth:`~kubevouch.attestation.jwt.KeySet.payload`.

        Raises:
            RefusedEvidenceError: of an unknown key only when it is unknown to keys that were fetched for this token.
            UnavailableError: the keys cannot be fetched, or were a moment ago and may not be again by now.
        """
        asked = self._clock.monotonic()
        keys = await self._current(asked)
        try:
            return keys.payload(token)
        except UnknownKeyError:
            return (await self._refreshed(asked)).payload(token)

    async def _current(self, asked: float) -> KeySet:
        age = self._clock.monotonic() - self._fetched
        if self._keys is not None and age < FRESH_SECONDS:
            return self._keys
        try:
            return await self._refreshed(asked)
        except UnavailableError:
            if self._keys is None or age >= STALE_SECONDS:
                raise
            return self._keys

    async def _refreshed(self, asked: float) -> KeySet:
        """The keys as they are at ``asked`` or later; who waited for another's fetch shares its outcome."""
        async with self._lock:
            if self._tried is None or self._tried < asked:
                left = 0.0 if self._tried is None else self._tried + BETWEEN_SECONDS - self._clock.monotonic()
                if left > 0:
                    raise UnavailableError(
                        f"the keys of {self._source} were asked for a moment ago{self._failure}", retry_after=left
                    )
                self._tried = self._clock.monotonic()
                await self._read()
            if self._failure or self._keys is None:
                raise UnavailableError(f"the keys of {self._source} cannot be read{self._failure}", BETWEEN_SECONDS)
            return self._keys

    async def _read(self) -> None:
        try:
            self._keys = KeySet.parse(await self._document())
        except (UnavailableError, KeySetError, OSError) as err:
            self._failure = f": {err}"
            log.warning("published keys cannot be read", source=self._source, err=str(err))
            return
        self._failure = ""
        self._fetched = self._clock.monotonic()

    async def _document(self) -> bytes:
        if self._source.startswith("/"):
            return _file(Path(self._source))
        return await self._fetch(self._source)


def _file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES)


def fetch_with(web: Web) -> Fetch:
    """Documents by https. Any other status than 200 is the cloud's to mend."""

    async def fetch(url: str) -> bytes:
        answer = await web.get(url, {"Accept": "application/json"})
        if answer.status != 200:
            raise UnavailableError(f"{url} answered {answer.status}")
        return answer.body

    return fetch
