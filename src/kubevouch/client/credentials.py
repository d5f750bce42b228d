"""What a client shows besides its certificate, kept fresh: tokens, token files, passwords, plug-ins."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kubevouch.client.interface import ClientConfigurationError, CredentialsFailed
from kubevouch.client.tls import read_bounded
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("client.credentials")

MAX_TOKEN_BYTES = 64 * 1024
# client-go reads a token file again after a minute (transport/token_source.go); bound tokens rotate in place.
TOKEN_FILE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Credential:
    """An Authorization header, a client certificate with its key, or both, or neither."""

    authorization: str = field(default="", repr=False)
    certificate: bytes = b""
    private_key: bytes = field(default=b"", repr=False)


class CredentialSource(Protocol):
    """Gives the credential for each request."""

    async def current(self) -> Credential:
        """What to send now. Raises :class:`CredentialsFailed`."""
        ...

    async def refused(self, credential: Credential) -> bool:
        """The server answered 401 to ``credential``. True when :meth:`current` now has another one to try.

        Raises:
            CredentialsFailed: getting another one failed.
        """
        ...


_TOKEN = re.compile(r"[\x21-\x7e]+", re.ASCII)


def bearer(token: str) -> str:
    """The Authorization header of a bearer token.

    Raises:
        ClientConfigurationError: the token cannot stand in a header.
    """
    if not _TOKEN.fullmatch(token):
        raise ClientConfigurationError("the bearer token is empty or has blanks or characters that no token has")
    return f"Bearer {token}"


class FixedCredential:
    """One credential for ever; with no arguments, none at all (anonymous, or a certificate alone)."""

    def __init__(self, credential: Credential = Credential()) -> None:
        self._credential = credential

    @classmethod
    def token(cls, bearer_token: str) -> FixedCredential:
        return cls(Credential(bearer(bearer_token)))

    @classmethod
    def password(cls, username: str, password: str) -> FixedCredential:
        """HTTP basic authentication, for proxies in front of an API server; Kubernetes itself dropped it in 1.19."""
        return cls(Credential("Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()))

    async def current(self) -> Credential:
        return self._credential

    async def refused(self, credential: Credential) -> bool:  # noqa: ARG002 - there is only the one
        return False


class TokenFile:
    """A bearer token in a file that somebody else rewrites, as the kubelet does in pods."""

    def __init__(self, path: Path, clock: Clock, *, first: str = "") -> None:
        """``first`` is used for as long as the file has not been read (client-go: token besides tokenFile)."""
        self._path = path
        self._clock = clock
        self._credential = Credential(bearer(first)) if first else None
        self._read_at: float | None = None

    async def current(self) -> Credential:
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= TOKEN_FILE_SECONDS:
            self._read(now)
        assert self._credential is not None
        return self._credential

    async def refused(self, credential: Credential) -> bool:
        if credential == self._credential:
            self._read(self._clock.monotonic())
        return credential != self._credential

    def _read(self, now: float) -> None:
        try:
            text = read_bounded(self._path, "token file", MAX_TOKEN_BYTES)
            self._credential = Credential(bearer(text.decode("ascii", "replace").strip()))
            self._read_at = now
        except ClientConfigurationError as err:
            if self._credential is None:
                raise CredentialsFailed(str(err), address=str(self._path)) from err
            log.warning("the token file cannot be used, the former token stays", error=str(err))
