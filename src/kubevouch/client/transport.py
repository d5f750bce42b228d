"""HTTPS requests as an API server wants them: credentials, retries, bounds, and errors of our own. No objects here."""

from __future__ import annotations

import asyncio
import datetime as dt
import email.utils
import io
import ipaddress
import random as random_module
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import replace

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from kubevouch.client import headers
from kubevouch.client.connections import Connections
from kubevouch.client.credentials import Credential, CredentialSource, FixedCredential
from kubevouch.client.failures import Answer, Peer, no_answer
from kubevouch.client.gate import Gate
from kubevouch.client.interface import ClientConfigurationError, ConnectFailed, CredentialsFailed, NotKubernetes
from kubevouch.client.options import ClientOptions
from kubevouch.client.tls import TLSFiles, TLSSources, client_context
from kubevouch.util import backoff, tracing
from kubevouch.util.clock import Clock, SystemClock
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import deadline
from kubevouch.util.tracing import Kind

log = get_logger("client.transport")

# aiohttp warns of larger bodies given as bytes, because it writes them in one go.
_WHOLE_BODY_BYTES = 1024 * 1024
_RETRIED = frozenset({429, 503})
_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})


def log_warning(text: str) -> None:
    """What becomes of a server's warning when nobody asks for it."""
    log.warning("the server warns", warning=text)


class ServerDate(msgspec.Struct, frozen=True):
    """The Date of an answer, and the local time at which it came: the difference is the clocks' skew."""

    server: dt.datetime
    local: dt.datetime

    @property
    def skew(self) -> dt.timedelta:
        """How far the local clock is ahead of the server's."""
        return self.local - self.server


class HTTPRequest(msgspec.Struct, frozen=True):
    """One request. ``timeout`` seconds bound all its attempts; a ``stream``'s body is not read with the answer."""

    method: str
    path: str
    timeout: float
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes | None = None
    stream: bool = False


class Stream:
    """An answer whose body is read as it comes. Has to be closed."""

    def __init__(self, answer: Answer, response: aiohttp.ClientResponse, connections: Connections, peer: Peer) -> None:
        self.answer = answer
        self._response = response
        self._connections = connections
        self._peer = peer
        self._done = False
        connections.acquire()
        connections.add_stream(response)

    async def read(self) -> bytes:
        """The next bytes; none when the stream has ended, or had to because the client's certificate was replaced.

        Raises:
            ConnectFailed: the connection broke.
        """
        if self._retired():
            return b""
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as err:
            if self._retired():
                return b""
            raise ConnectFailed(
                f"the connection to {self._peer.address} broke off in the middle of a watch", address=self._peer.address
            ) from err

    def _retired(self) -> bool:
        return self._connections.retired

    def close(self) -> None:
        """May be called more than once."""
        if not self._done:
            self._done = True
            self._connections.drop_stream(self._response)


class HTTPSTransport:
    """Sends requests to one API server.

    Args:
        tls: what connections trust and show; None trusts the machine's roots and shows nothing.
        credentials: what requests show besides; None shows nothing.
        on_warning: gets each text of a Warning header.
        gate: what every request passes, each attempt of it; None lets all pass and counts none.
    """

    def __init__(
        self,
        options: ClientOptions,
        *,
        tls: TLSFiles | None = None,
        credentials: CredentialSource | None = None,
        clock: Clock | None = None,
        random: backoff.Random = random_module.random,
        on_warning: Callable[[str], None] = log_warning,
        gate: Gate | None = None,
    ) -> None:
        """Raises :class:`ClientConfigurationError` for a server or proxy URL that cannot be used."""
        self.options = options
        self._clock = clock or SystemClock()
        self._files = tls or TLSFiles(TLSSources(), self._clock)
        self._credentials = credentials or FixedCredential()
        self._random = random
        self._on_warning = on_warning
        self._gate = gate
        self._base, self.peer, self._private = _endpoint(options)
        self._headers = _fixed_headers(options)
        self._connections: Connections | None = None
        self._retired: list[Connections] = []
        self._closed = False
        self._date: tuple[str, dt.datetime] | None = None

    @property
    def server_date(self) -> ServerDate | None:
        """The Date header of the newest answer, None before the first or if it had none."""
        if self._date is None:
            return None
        text, local = self._date
        try:
            moment = email.utils.parsedate_to_datetime(text)
        except ValueError:
            return None
        return ServerDate(moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC), local)

    def reload(self) -> None:
        """Read certificate files now, not at the next look every ten seconds."""
        self._files.reload()

    async def close(self) -> None:
        """Close every connection. Requests under way fail, streams end."""
        self._closed = True
        connections = [*self._retired, *([self._connections] if self._connections else [])]
        self._retired, self._connections = [], None
        for pool in connections:
            await pool.close()

    async def send(self, request: HTTPRequest) -> Answer:
        """The answer, whatever its status.

        Raises:
            TransportError: there was none.
        """
        answer, _ = await self._exchange(request)
        return answer

    async def open(self, request: HTTPRequest) -> Answer | Stream:
        """A stream if the answer is 200, otherwise the answer with its body. Raises as :meth:`send` does."""
        answer, stream = await self._exchange(msgspec.structs.replace(request, stream=True))
        return stream or answer

    # -------------------------------------------------------------- attempts

    async def _exchange(self, request: HTTPRequest) -> tuple[Answer, Stream | None]:
        give_up = self._clock.monotonic() + request.timeout
        try:
            async with deadline(self._clock, request.timeout):
                with tracing.child(request.method, Kind.CLIENT, **{"url.path": request.path}) as span:
                    found = await self._attempts(request, give_up)
                    if span is not None:
                        span.set("http.response.status_code", found[0].status)
                    return found
        except TimeoutError as err:
            raise ConnectFailed(
                f"{self.peer.address} did not answer within {request.timeout:g} s", address=self.peer.address
            ) from err

    async def _attempts(self, request: HTTPRequest, give_up: float) -> tuple[Answer, Stream | None]:
        refreshed = False
        attempt = 0
        while True:
            attempt += 1
            credential = await self._credentials.current()
            answer, stream = await self._passed(request, credential)
            if answer.status == 401 and not refreshed:
                refreshed = True
                if await self._credentials.refused(credential):
                    continue
            wait = self._wait_before_next(request, answer, attempt)
            if wait is None or self._clock.monotonic() + wait >= give_up:
                return answer, stream
            log.debug("the server asks to wait", status=answer.status, seconds=wait, path=request.path)
            await self._clock.sleep(wait)

    def _wait_before_next(self, request: HTTPRequest, answer: Answer, attempt: int) -> float | None:
        """Seconds until another attempt, None for no other attempt."""
        retry = self.options.retry
        if answer.status not in _RETRIED or request.method not in _IDEMPOTENT or attempt >= retry.attempts:
            return None
        asked = backoff.retry_after(answer.headers.get("retry-after", ""), self._clock.now())
        if asked is None or asked > retry.longest:
            return None
        return asked + self._random() * retry.spread * float(2 ** (attempt - 1))

    async def _passed(self, request: HTTPRequest, credential: Credential) -> tuple[Answer, Stream | None]:
        if self._gate is None:
            return await self._once(request, credential)
        await self._gate.enter(request.method)
        begun, status = self._clock.monotonic(), 0
        try:
            answer, stream = await self._once(request, credential)
            status = answer.status
            return answer, stream
        finally:
            self._gate.metrics.answered(request.method, status, self._clock.monotonic() - begun)

    async def _once(self, request: HTTPRequest, credential: Credential) -> tuple[Answer, Stream | None]:
        connections = await self._connected(credential)
        connections.acquire()
        try:
            return await self._answer(request, credential, connections)
        except (aiohttp.ClientError, OSError) as err:
            # aiohttp's response errors hold the request's headers, credentials among them.
            cause = err.__cause__ if isinstance(err, aiohttp.ClientResponseError) else err
            raise no_answer(err, self.peer, self._clock.now()) from cause
        finally:
            connections.release()

    async def _answer(
        self, request: HTTPRequest, credential: Credential, connections: Connections
    ) -> tuple[Answer, Stream | None]:
        query = f"?{urllib.parse.urlencode(request.query)}" if request.query else ""
        body = request.body
        response = await connections.session.request(
            request.method,
            URL(f"{self._base}{request.path}{query}", encoded=True),
            headers=self._request_headers(request, credential),
            data=io.BytesIO(body) if body is not None and len(body) > _WHOLE_BODY_BYTES else body,
            allow_redirects=False,
            proxy=self.options.proxy or None,
            server_hostname=connections.tls.server_name or None,
        )
        try:
            head = {name.lower(): value for name, value in response.headers.items()}
            if "warning" in head:
                # The one header that comes more than once: each warning has its own.
                head["warning"] = ", ".join(response.headers.getall("Warning"))
            self._note(response, head)
            if request.stream and response.status == 200:
                answer = Answer(response.status, head)
                return answer, Stream(answer, response, connections, self.peer)
            return Answer(response.status, head, await self._read(response)), None
        except BaseException:
            response.close()
            raise

    def _request_headers(self, request: HTTPRequest, credential: Credential) -> CIMultiDict[str]:
        merged = self._headers.copy()
        merged.update(request.headers)
        if parent := tracing.traceparent():
            merged[tracing.HEADER] = parent
        if credential.authorization:
            if not self._private:
                raise CredentialsFailed(
                    f"{self.peer.address} is asked in plain HTTP, over which no credential is sent",
                    address=self.peer.address,
                    hint="write https:// in front of the server's address",
                )
            merged["Authorization"] = credential.authorization
        return merged

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        limit = self.options.max_body_bytes
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > limit:
                raise NotKubernetes(
                    f"{self.peer.address} answered with more than {limit} bytes",
                    address=self.peer.address,
                    status=response.status,
                )
        return bytes(body)

    def _note(self, response: aiohttp.ClientResponse, head: Mapping[str, str]) -> None:
        if "date" in head:
            self._date = (head["date"], self._clock.now())
        if "warning" in head:
            for text in headers.warnings(response.headers.getall("Warning")):
                self._on_warning(text)

    # -------------------------------------------------------------- connections

    async def _connected(self, credential: Credential) -> Connections:
        """The pool for what is to be shown now; another one than before when that has changed."""
        self._expect_open()
        tls = self._files.current()
        if credential.certificate:
            tls = replace(tls, certificate=credential.certificate, private_key=credential.private_key)
        if self._connections is not None and self._connections.tls == tls:
            return self._connections
        context = self._files.context_of(tls)
        if context is None:
            if tls.ca_bundle is None and not tls.insecure:
                # The system's authorities are some 150 certificates.
                context = await asyncio.to_thread(client_context, tls)
                self._expect_open()
            else:
                context = client_context(tls)
        if self._connections is None or self._connections.tls != tls:
            fresh = Connections(tls, context, self.options.timeouts.connect)
            if self._connections is not None:
                log.info("connections are made anew with another certificate", address=self.peer.address)
                self._connections.retire()
                self._retired = [pool for pool in (*self._retired, self._connections) if not pool.closed]
            self._connections = fresh
        return self._connections

    def _expect_open(self) -> None:
        if self._closed:
            raise ConnectFailed(f"the client of {self.peer.address} is closed", address=self.peer.address)


def _endpoint(options: ClientOptions) -> tuple[str, Peer, bool]:
    """The URL before the path, the peer for messages, and whether a credential may be sent there."""
    url = _parsed(options.server, "server", ("https", "http"))
    if url.username or url.query or url.fragment:
        raise ClientConfigurationError(
            "the server URL holds a user, a query or a fragment", hint="give https://HOST:PORT"
        )
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    proxy = ""
    if options.proxy:
        through = _parsed(options.proxy, "proxy", ("http", "https"))
        proxy = f"{through.scheme}://{through.netloc.rpartition('@')[2]}"
    base = f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}"
    return base, Peer(address, proxy), url.scheme == "https" or _is_loopback(host)


def _parsed(text: str, what: str, schemes: tuple[str, ...]) -> urllib.parse.SplitResult:
    try:
        url = urllib.parse.urlsplit(text)
        usable = url.scheme in schemes and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError as err:
        raise ClientConfigurationError(f"the {what} URL cannot be read: {err}") from err
    if not usable:
        shown = url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()
        raise ClientConfigurationError(
            f"the {what} URL {shown!r} is none of a kind that works", hint=f"give {schemes[0]}://HOST:PORT"
        )
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _fixed_headers(options: ClientOptions) -> CIMultiDict[str]:
    fixed: CIMultiDict[str] = CIMultiDict()
    fixed["User-Agent"] = headers.user_agent(options.component)
    fixed["Accept-Encoding"] = "gzip" if options.compression else "identity"
    if options.impersonate is not None:
        try:
            for name, value in headers.impersonation(options.impersonate):
                fixed.add(name, value)
        except ValueError as err:
            raise ClientConfigurationError(str(err)) from err
    return fixed
