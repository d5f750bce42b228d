"""The client over HTTPS: any Kubernetes API server, ours included."""

from __future__ import annotations

import asyncio
import datetime as dt
import random as random_module
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from kubevouch.client import codec
from kubevouch.client.credentials import CredentialSource
from kubevouch.client.failures import Answer, refusal, unreadable
from kubevouch.client.frames import FrameError, Framer
from kubevouch.client.gate import Gate
from kubevouch.client.interface import (
    DEFAULT_LIST,
    DEFAULT_WATCH,
    DEFAULT_WRITE,
    ConnectFailed,
    Items,
    ListOptions,
    NotKubernetes,
    PatchType,
    RawResponse,
    WatchEvent,
    WatchOptions,
    WriteOptions,
)
from kubevouch.client.options import ClientOptions
from kubevouch.client.paths import collection_path, list_query, object_path, watch_query, write_query
from kubevouch.client.tls import TLSFiles
from kubevouch.client.transport import HTTPRequest, HTTPSTransport, ServerDate, Stream, log_warning
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import DeleteOptions, Object
from kubevouch.machinery.scheme import Resource
from kubevouch.util import backoff
from kubevouch.util.clock import Clock, SystemClock
from kubevouch.util.tasks import deadline

T = TypeVar("T", bound=Object)

# Items that are decoded before other tasks have their turn: one to two milliseconds.
_SLICE = 256
# How much longer than its timeoutSeconds a watch may be silent before this side takes the connection for dead.
_WATCH_GRACE_SECONDS = 30.0


class HTTPSClient:
    """Implements :class:`kubevouch.client.interface.Client`. Arguments as for :class:`HTTPSTransport`."""

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
        self._clock = clock or SystemClock()
        self._transport = HTTPSTransport(
            options,
            tls=tls,
            credentials=credentials,
            clock=self._clock,
            random=random,
            on_warning=on_warning,
            gate=gate,
        )
        self._options = options
        self._timeouts = options.timeouts
        self._json_only: set[Resource[Any]] = set()

    async def __aenter__(self) -> HTTPSClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def address(self) -> str:
        """host:port of the API server."""
        return self._transport.peer.address

    @property
    def server_date(self) -> ServerDate | None:
        """The Date of the newest answer, for finding clocks that differ."""
        return self._transport.server_date

    def server_now(self, clock: Clock) -> dt.datetime:
        """The server's time by its newest answer; that of ``clock`` where no answer has told it."""
        date = self.server_date
        return clock.now() if date is None else date.server

    def reload(self) -> None:
        """Read certificate files again at once; connections made with a replaced pair are ended."""
        self._transport.reload()

    async def close(self) -> None:
        await self._transport.close()

    # -------------------------------------------------------------- reading

    async def get(self, resource: Resource[T], name: str, namespace: str = "", *, subresource: str = "") -> T:
        path = object_path(resource, namespace, name, subresource)
        answer = await self._succeed(HTTPRequest("GET", path, self._timeouts.get, (), self._accept(resource)))
        return self._decoded(resource, answer, name, namespace)

    async def list(self, resource: Resource[T], namespace: str = "", options: ListOptions = DEFAULT_LIST) -> Items[T]:
        path = collection_path(resource, namespace)
        answer = await self._succeed(
            HTTPRequest("GET", path, self._timeouts.list, list_query(options), self._accept(resource))
        )
        try:
            parts = codec.split_list(resource, answer.body, answer.content_type)
            items: list[T] = []
            for start in range(0, len(parts.items), _SLICE):
                if start:
                    await asyncio.sleep(0)
                items += [parts.decode_item(raw) for raw in parts.items[start : start + _SLICE]]
        except codec.CodecError as err:
            raise unreadable(answer, self._transport.peer, err) from err
        metadata = parts.metadata
        return Items(items, metadata.resource_version, metadata.continue_, metadata.remaining_item_count)

    async def watch(
        self, resource: Resource[T], namespace: str = "", options: WatchOptions = DEFAULT_WATCH
    ) -> AsyncGenerator[WatchEvent[T], None]:
        path = collection_path(resource, namespace)
        request = HTTPRequest("GET", path, self._timeouts.watch, watch_query(options), self._accept(resource))
        stream = await self._transport.open(request)
        if isinstance(stream, Answer):
            self._refuse(stream)
        content_type = stream.answer.content_type
        try:
            frames = _Frames(stream, codec.framer_for(content_type, self._options.max_frame_bytes))
            give_up = self._give_up_watch(options.timeout_seconds)
            while (batch := await self._next(frames, give_up)) is not None:
                for frame in batch:
                    yield codec.decode_event(resource, frame, content_type)
        except codec.CodecError as err:
            raise unreadable(stream.answer, self._transport.peer, err) from err
        finally:
            stream.close()

    def _give_up_watch(self, timeout_seconds: int | None) -> float | None:
        return None if timeout_seconds is None else self._clock.monotonic() + timeout_seconds + _WATCH_GRACE_SECONDS

    async def _next(self, frames: _Frames, give_up: float | None) -> Sequence[bytes] | None:
        left = None if give_up is None else give_up - self._clock.monotonic()
        address = self._transport.peer.address
        try:
            async with deadline(self._clock, left):
                return await frames.read()
        except TimeoutError:
            return None
        except FrameError as err:
            if frames.ended:
                raise ConnectFailed(f"{address} ended a watch inside an event", address=address) from err
            raise NotKubernetes(f"{address} sent {err}", address=address, status=200) from err

    # -------------------------------------------------------------- writing

    async def create(
        self, resource: Resource[T], obj: T, options: WriteOptions = DEFAULT_WRITE, *, subresource: str = ""
    ) -> T:
        metadata = obj.metadata
        if subresource:
            path = object_path(resource, metadata.namespace, metadata.name, subresource)
        else:
            path = collection_path(resource, metadata.namespace)
        return await self._write("POST", path, resource, obj, options)

    async def update(
        self, resource: Resource[T], obj: T, options: WriteOptions = DEFAULT_WRITE, *, subresource: str = ""
    ) -> T:
        path = object_path(resource, obj.metadata.namespace, obj.metadata.name, subresource)
        return await self._write("PUT", path, resource, obj, options)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Any,
        patch_type: PatchType,
        namespace: str = "",
        options: WriteOptions = DEFAULT_WRITE,
        *,
        subresource: str = "",
        force: bool = False,
    ) -> T:
        path = object_path(resource, namespace, name, subresource)
        query = write_query(options)
        if force:
            query += (("force", "true"),)
        head = {**self._accept(resource), "Content-Type": patch_type.media_type}
        body = json_codec.encode(patch)
        answer = await self._succeed(HTTPRequest("PATCH", path, self._timeouts.write, query, head, body))
        return self._decoded(resource, answer, name, namespace)

    async def delete(
        self, resource: Resource[T], name: str, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        path = object_path(resource, namespace, name)
        head, body = self._accept(resource), None
        if options is not None:
            head["Content-Type"] = codec.JSON
            body = codec.encode_json("v1", "DeleteOptions", options)
        await self._succeed(HTTPRequest("DELETE", path, self._timeouts.write, (), head, body))

    async def delete_collection(
        self, resource: Resource[T], namespace: str = "", options: ListOptions = DEFAULT_LIST
    ) -> None:
        path = collection_path(resource, namespace)
        await self._succeed(
            HTTPRequest("DELETE", path, self._timeouts.write, list_query(options), self._accept(resource))
        )

    async def raw(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> RawResponse:
        if not path.startswith("/"):
            raise ValueError(f"a path begins with a slash: {path!r}")
        timeout = self._timeouts.get if method in ("GET", "HEAD") else self._timeouts.write
        head = {"Accept": "application/json, */*", **(headers or {})}
        answer = await self._transport.send(HTTPRequest(method, path, timeout, (), head, body))
        return RawResponse(answer.status, answer.headers, answer.body)

    # -------------------------------------------------------------- answers

    async def _write(self, method: str, path: str, resource: Resource[T], obj: T, options: WriteOptions) -> T:
        plain = not (self._options.protobuf and codec.speaks_protobuf(resource) and resource not in self._json_only)
        answer = await self._send_object(method, path, resource, obj, options, as_protobuf=not plain)
        if answer.status == 415 and not plain:
            # A custom resource in a group of Kubernetes' own. It was refused unread, so it may be sent again.
            self._json_only.add(resource)
            answer = await self._send_object(method, path, resource, obj, options, as_protobuf=False)
        if not 200 <= answer.status < 300:
            self._refuse(answer)
        return self._decoded(resource, answer, obj.metadata.name, obj.metadata.namespace)

    async def _send_object(
        self, method: str, path: str, resource: Resource[T], obj: T, options: WriteOptions, *, as_protobuf: bool
    ) -> Answer:
        content_type, body = codec.encode(resource, obj, as_protobuf=as_protobuf)
        head = {**self._accept(resource), "Content-Type": content_type}
        return await self._transport.send(
            HTTPRequest(method, path, self._timeouts.write, write_query(options), head, body)
        )

    async def _succeed(self, request: HTTPRequest) -> Answer:
        answer = await self._transport.send(request)
        if not 200 <= answer.status < 300:
            self._refuse(answer)
        return answer

    def _decoded(self, resource: Resource[T], answer: Answer, name: str, namespace: str) -> T:
        """The object ``name`` of an answer; an empty name is the server's to choose."""
        try:
            obj = codec.decode(resource, answer.body, answer.content_type)
            codec.verify_identity(resource, obj, name, namespace)
        except codec.CodecError as err:
            raise unreadable(answer, self._transport.peer, err) from err
        return obj

    def _refuse(self, answer: Answer) -> NoReturn:
        raise refusal(answer, self._transport.peer, self._clock.now())

    def _accept(self, resource: Resource[Any]) -> dict[str, str]:
        """A kind of Kubernetes' own that no struct declares is read as a tree, which protobuf does not make."""
        protobuf = self._options.protobuf and resource.codec.schema is not None
        return {"Accept": f"{codec.PROTOBUF},{codec.JSON}" if protobuf else codec.JSON}


class _Frames:
    """The frames of a stream in batches, as they come."""

    def __init__(self, stream: Stream, framer: Framer) -> None:
        self._stream = stream
        self._framer = framer
        self.ended = False

    async def read(self) -> Sequence[bytes] | None:
        """The frames that the next bytes complete, None at the end.

        Raises:
            FrameError: the bytes are no frames; with ``ended``, they stop inside one.
            ConnectFailed: the connection broke.
        """
        received = await self._stream.read()
        if received:
            return self._framer.feed(received)
        self.ended = True
        self._framer.finish()
        return None
