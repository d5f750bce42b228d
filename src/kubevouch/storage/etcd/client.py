"""Calls to an etcd cluster: several endpoints, TLS, a token, deadlines, and moving on when a member fails.

One endpoint is used until it fails; each client begins with another one, so that servers spread over the members.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import grpc.aio

from kubevouch.pki import keys
from kubevouch.pki.errors import KeyMaterialError, ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.storage.etcd import errors, messages
from kubevouch.storage.etcd.options import DEFAULT_PORT, EtcdOptions
from kubevouch.storage.interface import Revision, StoreUnavailable
from kubevouch.util import backoff
from kubevouch.util.clock import Clock

ATTEMPT_SECONDS, LIST_ATTEMPT_SECONDS = 3.0, 15.0
"""After which another member is asked, where that does no harm; a page of a list may have megabytes."""
STATUS_SECONDS = 2.0
_PAUSE_SECONDS = 0.025
_ENDING_SECONDS = 0.02
_MOST_PAUSE_SECONDS = 0.5

_HAS_LEADER = ("hasleader", "true")
"""A member that is cut off from the others says so at once, instead of keeping the call until its deadline."""
_API_VERSION = ("client-api-version", "3.6")

_CHANNEL_OPTIONS = (
    # A watch's message may have 8 MB, a list more.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # etcd ends a connection that pings more often than every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A proxy for the web is none for etcd.
    ("grpc.enable_http_proxy", 0),
)


class Endpoint:
    """One member, as far as a client sees it."""

    def __init__(self, url: str, credentials: grpc.ChannelCredentials | None) -> None:
        parts = urlsplit(url)
        self.url = url
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        target = f"{host}:{parts.port or DEFAULT_PORT}"
        # Its own connections: one that two stores of a process shared would end for both.
        options = (*_CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1))
        if parts.scheme == "https":
            self.channel = grpc.aio.secure_channel(target, credentials or grpc.ssl_channel_credentials(), options)
        else:
            self.channel = grpc.aio.insecure_channel(target, options)
        self._stubs: dict[str, Any] = {}

    def stub(self, method: messages.Method) -> Any:
        found = self._stubs.get(method.path)
        if found is None:
            found = self._stubs[method.path] = self.channel.unary_unary(
                method.path, method.request.SerializeToString, method.response.FromString
            )
        return found


class EtcdClient:
    """Calls to whichever member answers. Belongs to the loop it is used in."""

    def __init__(self, options: EtcdOptions, clock: Clock) -> None:
        """Raises StoreUnavailable: a file of the options cannot be read."""
        credentials = _credentials(options)
        self.endpoints = [Endpoint(url, credentials) for url in options.endpoints]
        self.read_seconds = options.read_seconds
        self.write_seconds = options.write_seconds
        self.streams: set[WatchStream] = set()
        self._clock = clock
        self._current = random.randrange(len(self.endpoints))  # noqa: S311 - only spreads load
        self._login = (options.user, _password(options.password_file)) if options.user else None
        self._token = ""
        self._closed = False

    async def read(self, method: messages.Method, request: Any, attempt: float = ATTEMPT_SECONDS) -> Any:
        """:meth:`call`, for as long as a read may take."""
        return await self.call(method, request, self.read_seconds, attempt)

    async def write(self, method: messages.Method, request: Any) -> Any:
        """:meth:`call`, for as long as a write may take."""
        return await self.call(method, request, self.write_seconds)

    async def call(
        self, method: messages.Method, request: Any, seconds: float, attempt: float = ATTEMPT_SECONDS
    ) -> Any:
        """The answer, within ``seconds``. What may be sent again is, to another member, after ``attempt`` seconds.

        Raises:
            CallFailed: etcd refused, or nobody answered.
        """
        end = self._clock.monotonic() + seconds
        pauses = backoff.exponential(_PAUSE_SECONDS, _MOST_PAUSE_SECONDS)
        while True:
            endpoint, left = self.current, end - self._clock.monotonic()
            if self._closed:
                raise errors.CallFailed(grpc.StatusCode.CANCELLED, "the store is closed", endpoint.url)
            had_token = bool(self._token)
            try:
                metadata = await self._metadata(endpoint, left)
                timeout = min(left, attempt) if method.repeats else left
                return await endpoint.stub(method)(request, timeout=timeout, metadata=metadata)
            except grpc.aio.AioRpcError as err:
                failure = self.failed(endpoint, err)
            harmless = failure.is_never_sent or (method.repeats and failure.is_member_failing)
            pause = next(pauses)
            if not (harmless or (failure.is_login_expired and had_token)):
                raise failure
            if end - self._clock.monotonic() <= pause:
                failure.timed_out = True
                raise failure
            await self._clock.sleep(pause)

    @property
    def current(self) -> Endpoint:
        return self.endpoints[self._current]

    async def watch(self) -> WatchStream:
        """A stream on the member in use. Raises CallFailed."""
        endpoint = self.current
        try:
            metadata = await self._metadata(endpoint, ATTEMPT_SECONDS)
        except grpc.aio.AioRpcError as err:
            raise self.failed(endpoint, err) from err
        return WatchStream(self, endpoint, metadata)

    def failed(self, endpoint: Endpoint, err: grpc.aio.AioRpcError) -> errors.CallFailed:
        """What ``err`` means, once what it says of the member and of our login is taken to heart."""
        failure = errors.CallFailed(err.code(), err.details() or "", endpoint.url)
        if failure.is_login_expired:
            self._token = ""
        elif failure.is_member_failing and endpoint is self.current and len(self.endpoints) > 1:
            self._current = (self._current + 1) % len(self.endpoints)
            # A member that does not answer calls tells no events either, and may take long to be found out.
            for stream in self.streams:
                stream.give_up(endpoint)
        return failure

    async def _metadata(self, endpoint: Endpoint, seconds: float) -> tuple[tuple[str, str], ...]:
        if self._login is None:
            return (_HAS_LEADER, _API_VERSION)
        if not self._token:
            name, password = self._login
            request = messages.AuthenticateRequest(name=name, password=password)
            answer = await endpoint.stub(messages.AUTHENTICATE)(request, timeout=min(seconds, ATTEMPT_SECONDS))
            self._token = answer.token
        return (_HAS_LEADER, _API_VERSION, ("token", self._token))

    async def statuses(self) -> list[Any]:
        """What each member says of itself, of those that answer."""
        answers = await asyncio.gather(*map(self._status, self.endpoints))
        return [status for status in answers if status is not None]

    async def _status(self, endpoint: Endpoint) -> Any | None:
        try:
            metadata = await self._metadata(endpoint, STATUS_SECONDS)
            # It answers without a leader, too.
            metadata = tuple(each for each in metadata if each != _HAS_LEADER)
            return await endpoint.stub(messages.STATUS)(
                messages.StatusRequest(), timeout=STATUS_SECONDS, metadata=metadata
            )
        except grpc.aio.AioRpcError:
            return None

    async def close(self) -> None:
        self._closed = True
        for endpoint in self.endpoints:
            await endpoint.channel.close()
        # What is cancelled by that ends in a thread of gRPC's, which would tell it to a loop that is closed by then.
        await asyncio.sleep(_ENDING_SECONDS)


class WatchStream:
    """One stream of watches. One task may read, another one ask."""

    def __init__(self, client: EtcdClient, endpoint: Endpoint, metadata: Any) -> None:
        client.streams.add(self)
        self._client = client
        self._endpoint = endpoint
        self._given_up = False
        # gRPC takes one request at a time.
        self._writing = asyncio.Lock()
        self._call = endpoint.channel.stream_stream(
            messages.WATCH_PATH, messages.WatchRequest.SerializeToString, messages.WatchResponse.FromString
        )(metadata=metadata)

    async def create(self, key: bytes, end: bytes, start: Revision) -> None:
        """Watch a range from the write ``start`` on. Raises CallFailed."""
        created = messages.WatchCreateRequest(
            key=key, range_end=end, start_revision=start, prev_kv=True, progress_notify=True
        )
        await self._write(messages.WatchRequest(create_request=created))

    async def request_progress(self) -> None:
        """Ask up to where everything was told; the answer has no events. Raises CallFailed."""
        await self._write(messages.WatchRequest(progress_request=messages.WatchProgressRequest()))

    async def read(self) -> Any:
        """The next answer. Raises CallFailed."""
        try:
            answer = await self._call.read()
        except grpc.aio.AioRpcError as err:
            raise self._client.failed(self._endpoint, err) from err
        except asyncio.CancelledError:  # gRPC's word for a call that we cancelled, too
            if not self._given_up or _is_cancelled():
                raise
            raise self._ended() from None
        if answer is grpc.aio.EOF:
            raise self._ended()
        return answer

    async def _write(self, request: Any) -> None:
        try:
            async with self._writing:
                await self._call.write(request)
        except grpc.aio.AioRpcError as err:
            raise self._client.failed(self._endpoint, err) from err
        except asyncio.InvalidStateError as err:  # gRPC's word for a stream that has ended
            raise self._ended() from err
        except asyncio.CancelledError:
            if not self._given_up or _is_cancelled():
                raise
            raise self._ended() from None

    def give_up(self, endpoint: Endpoint) -> None:
        """Whoever reads hears that the stream has ended, if it is one of ``endpoint``."""
        if endpoint is self._endpoint:
            self._given_up = True
            self._call.cancel()

    def _ended(self) -> errors.CallFailed:
        return errors.CallFailed(grpc.StatusCode.UNAVAILABLE, "the watch stream ended", self._endpoint.url)

    def close(self) -> None:
        self._client.streams.discard(self)
        self._call.cancel()


def _is_cancelled() -> bool:
    """Whether the task that asks is to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _credentials(options: EtcdOptions) -> grpc.ChannelCredentials | None:
    if not options.uses_tls:
        return None
    cafile, keyfile, certfile = _read(options.cafile), _read(options.keyfile), _read(options.certfile)
    # gRPC takes any bytes, and says later that it cannot connect.
    if cafile is not None:
        _certificates(cafile, options.cafile, "that of etcd's CA in PEM")
    if certfile is not None:
        leaf = _certificates(certfile, options.certfile, "that of etcd's user in PEM")[0]
        try:
            key = keys.public_key_of(keys.load_pem(keyfile or b"", trusted=True))
        except KeyMaterialError as err:
            raise StoreUnavailable(f"{options.keyfile}: got {err}, expected a key in PEM, not encrypted") from err
        if key.canonical_info != leaf.public_key.canonical_info:
            raise StoreUnavailable(f"{options.keyfile}: got another key, expected that of {options.certfile}")
    return grpc.ssl_channel_credentials(cafile, keyfile, certfile)


def _certificates(text: bytes, path: Path | None, expected: str) -> list[Certificate]:
    """Raises StoreUnavailable: there are none, or they cannot be read."""
    try:
        found = x509_certificate.parse_bundle(text)
    except ParseError:
        found = []
    if not found:
        raise StoreUnavailable(f"{path}: got no certificate, expected {expected}")
    return found


def _read(path: Path | None, expected: str = "a PEM file for etcd") -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as err:
        raise StoreUnavailable(f"{path}: {(err.strerror or str(err)).lower()}, expected {expected}") from err


def _password(path: Path | None) -> str:
    lines = (_read(path, "the password of etcd's user") or b"").decode().splitlines()
    if not lines:
        raise StoreUnavailable(f"{path}: got no password, expected that of etcd's user in the first line")
    return lines[0]
