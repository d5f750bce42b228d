"""What the API of a cloud is asked with, how its answers are read, and files that say the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from kubevouch.attestation.http import Web
from kubevouch.attestation.interface import AttestationError, UnavailableError
from kubevouch.util.clock import Clock

MAX_FILE = 4 << 20
"""Bytes of a file of machines: some 600 of Google's."""
MAX_ANSWER = 256 << 10
_RETRY = 30.0


class AccessToken(Protocol):
    """An OAuth 2.0 access token (RFC 6750)."""

    async def get(self) -> str:
        """One that is good for a while. Raises :class:`UnavailableError`."""
        ...


class TokenFile:
    """An access token that somebody else keeps fresh in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def get(self) -> str:
        try:
            return read_file(self._path).decode("ascii").strip()
        except (OSError, ValueError) as err:
            raise UnavailableError(f"the access token in {self._path} cannot be read: {err}", _RETRY) from err


class TokenOfThisMachine:
    """The access token of the identity of the machine that this runs on, asked for again before it ends.

    Args:
        ask: the token and for how many seconds it is good; raises :class:`AttestationError`.
    """

    def __init__(self, ask: Callable[[], Awaitable[tuple[str, float]]], clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._token = ""
        self._until = 0.0

    async def get(self) -> str:
        if self._clock.monotonic() >= self._until:
            try:
                token, seconds = await self._ask()
            except AttestationError as err:
                raise UnavailableError(f"no access token for the API: {err}", _RETRY) from err
            # Metadata services have a new one five minutes before the former one ends.
            self._token, self._until = token, self._clock.monotonic() + seconds - 240
        return self._token


async def ask(web: Web, url: str, token: AccessToken) -> bytes | None:
    """What the API says; None if there is no such thing.

    Raises:
        UnavailableError: for every other refusal, too: a machine must not be refused for what our credentials lack.
    """
    headers = {"Accept": "application/json", "Authorization": f"Bearer {await token.get()}"}
    answer = await web.send("GET", url, headers, limit=MAX_ANSWER)
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise UnavailableError(f"the API of the cloud answered {answer.status}: {answer.text[:200]}", _RETRY)
    return answer.body


def read(body: bytes, into: Any) -> Any:
    """An answer. Raises :class:`UnavailableError`: what the cloud says wrongly is its own to mend."""
    try:
        return msgspec.json.decode(body, type=into)
    except (msgspec.MsgspecError, RecursionError) as err:
        raise UnavailableError(f"the cloud answered what cannot be read: {str(err)[:200]}", _RETRY) from err


def read_file(path: Path) -> bytes:
    """Raises OSError, and ValueError for more than :data:`MAX_FILE`."""
    with path.open("rb") as file:
        contents = file.read(MAX_FILE + 1)
    if len(contents) > MAX_FILE:
        raise ValueError(f"expected at most {MAX_FILE} bytes")
    return contents


class Listing:
    """A file of machines, read again when it has changed.

    Args:
        parse: what is in it, by what it is looked up with; raises ``ValueError`` or ``msgspec.MsgspecError``.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], dict[Any, Any]]) -> None:
        self._path = path
        self._parse = parse
        self._seen: tuple[int, int] | None = None
        self._known: dict[Any, Any] = {}

    def find(self, key: Any) -> Any:
        """Raises :class:`UnavailableError` while the file cannot be read."""
        try:
            status = self._path.stat()
            if (status.st_mtime_ns, status.st_size) != self._seen:
                self._known = self._parse(read_file(self._path))
                self._seen = (status.st_mtime_ns, status.st_size)
        except (OSError, msgspec.MsgspecError, ValueError) as err:
            raise UnavailableError(f"the machines in {self._path} cannot be read: {err}", _RETRY) from err
        return self._known.get(key)
