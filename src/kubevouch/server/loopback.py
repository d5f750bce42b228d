"""The client whose transport is the own handler chain, in process.

It enters behind authentication as a named identity. Everything else applies: impersonation aside, the request is
authorized, admitted, validated and stored like one that came over HTTPS. Objects go in and out as they are, without
being encoded.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from kubevouch.authentication.interface import Authentication, UserInfo
from kubevouch.client import paths
from kubevouch.client.gate import NOT_SENT, READS
from kubevouch.client.interface import (
    EventType,
    Items,
    ListOptions,
    NotLeading,
    PatchType,
    RawResponse,
    WatchEvent,
    WatchOptions,
    WriteOptions,
)
from kubevouch.client.paths import list_query, watch_query, write_query
from kubevouch.machinery import errors
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import DeleteOptions, Object, ObjectMeta, Status
from kubevouch.machinery.scheme import Resource
from kubevouch.server import encoding
from kubevouch.server.edge.https import warning_headers
from kubevouch.server.negotiation import Negotiated
from kubevouch.server.query import Query
from kubevouch.server.request import (
    BytesResult,
    Handler,
    ListingResult,
    ObjectResult,
    PlainResult,
    Request,
    Result,
    WatchResult,
)
from kubevouch.server.request_info import RequestInfo, selected_name
from kubevouch.server.watch_item import Bookmark, WatchItem
from kubevouch.storage.watchcache.objects import Stored
from kubevouch.util.clock import Clock
from kubevouch.wellknown import INITIAL_EVENTS_END_ANNOTATION

T = TypeVar("T", bound=Object)

_DEFAULT_LIST = ListOptions()
_DEFAULT_WATCH = WatchOptions()
_DEFAULT_WRITE = WriteOptions()


class LoopbackClient:
    """A ``client.interface.Client`` as ``user``, reported to audit as ``component``.

    Args:
        may_write: asked right before each request that is no read; one that comes when it is False raises NotLeading.
    """

    def __init__(
        self,
        handler: Handler,
        user: UserInfo,
        clock: Clock,
        component: str,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self._handler = handler
        self._may_write = may_write
        self._authentication = Authentication(user, "loopback")
        self._clock = clock
        self._headers = {"User-Agent": f"{component}/loopback"}

    # -------------------------------------------------------------- verbs

    async def get(self, resource: Resource[T], name: str, namespace: str = "", *, subresource: str = "") -> T:
        return await self._object(resource, "get", namespace, name, subresource)

    async def list(self, resource: Resource[T], namespace: str = "", options: ListOptions = _DEFAULT_LIST) -> Items[T]:
        query = _query(list_query(options))
        name = selected_name(options.field_selector)
        result = await self._send(resource, "list", namespace, name, "", query=query, selectors=options)
        assert isinstance(result, ListingResult)  # what the list handler returns
        view = _view(result, resource)
        return Items(
            [view(stored) for stored in result.page.items],
            str(result.page.revision),
            result.page.continue_token,
            result.page.remaining,
        )

    async def watch(
        self, resource: Resource[T], namespace: str = "", options: WatchOptions = _DEFAULT_WATCH
    ) -> AsyncGenerator[WatchEvent[T], None]:
        query = _query(watch_query(options))
        name = selected_name(options.field_selector)
        result = await self._send(resource, "watch", namespace, name, "", query=query, selectors=options)
        assert isinstance(result, WatchResult)  # what the watch handler returns
        view = _view(result, resource)
        try:
            async for batch in result.batches:
                for item in batch:
                    yield _event(item, view, resource)
        finally:
            await result.close()

    async def create(
        self, resource: Resource[T], obj: T, options: WriteOptions = _DEFAULT_WRITE, *, subresource: str = ""
    ) -> T:
        meta = obj.metadata
        name = meta.name if subresource else ""
        query = _query(write_query(options))
        return await self._object(resource, "create", meta.namespace, name, subresource, obj=obj, query=query)

    async def update(
        self, resource: Resource[T], obj: T, options: WriteOptions = _DEFAULT_WRITE, *, subresource: str = ""
    ) -> T:
        meta = obj.metadata
        query = _query(write_query(options))
        return await self._object(resource, "update", meta.namespace, meta.name, subresource, obj=obj, query=query)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Any,
        patch_type: PatchType,
        namespace: str = "",
        options: WriteOptions = _DEFAULT_WRITE,
        *,
        subresource: str = "",
        force: bool = False,
    ) -> T:
        query = _query(write_query(options) + ((("force", "true"),) if force else ()))
        body = json_codec.encode(patch)
        return await self._object(
            resource, "patch", namespace, name, subresource, query=query, body=body, content_type=patch_type.media_type
        )

    async def delete(
        self, resource: Resource[T], name: str, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        await self._send(resource, "delete", namespace, name, "", obj=options)

    async def delete_collection(
        self, resource: Resource[T], namespace: str = "", options: ListOptions = _DEFAULT_LIST
    ) -> None:
        query = _query(list_query(options))
        await self._send(resource, "deletecollection", namespace, "", "", query=query, selectors=options)

    async def raw(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> RawResponse:
        """A path, answered as bytes in JSON."""

        async def read(_limit: int) -> bytes:
            return body or b""

        bare, _, query = path.partition("?")
        request = Request(
            method=method,
            path=bare,
            query=Query(query),
            headers=self._headers | dict(headers or {}),
            received=self._clock.now(),
            read_body=read,
            authentication=self._authentication,
            loopback=True,
        )
        self._expect_leading(method)
        try:
            result = await self._handler(request)
        except APIStatusError as err:
            answer = RawResponse(err.code, {}, encoding.status(err.status, Negotiated("json")))
        else:
            if isinstance(result, ObjectResult) and request.negotiated is not None:
                request.share.weigh(encoding.effort(result.stored, request.negotiated))
            answer = await request.share.compute(_raw_response, result, request, self._clock)
        warnings = ", ".join(warning_headers(request.warnings))
        return replace(answer, headers={**answer.headers, "warning": warnings}) if warnings else answer

    async def close(self) -> None:
        """Nothing is held open."""

    # -------------------------------------------------------------- sending

    async def _object(
        self, resource: Resource[T], verb: str, namespace: str, name: str, subresource: str, **parts: Any
    ) -> T:
        result = await self._send(resource, verb, namespace, name, subresource, **parts)
        if isinstance(result, PlainResult):
            answer: T = result.obj
            return answer
        assert isinstance(result, ObjectResult)  # what handlers of single objects return
        obj: T = _view(result, resource)(result.stored)
        return obj

    async def _send(
        self,
        resource: Resource[Any],
        verb: str,
        namespace: str,
        name: str,
        subresource: str,
        *,
        obj: Any = None,
        query: Query | None = None,
        selectors: ListOptions | WatchOptions | None = None,
        body: bytes = b"",
        content_type: str = "",
    ) -> Result:
        info = RequestInfo(
            path=_path(resource, verb, namespace, name, subresource),
            verb=verb,
            is_resource=True,
            group=resource.group,
            version=resource.version,
            namespace=namespace if resource.namespaced else "",
            resource=resource.plural,
            subresource=subresource,
            name=name,
            field_selector=selectors.field_selector if selectors is not None else "",
            label_selector=selectors.label_selector if selectors is not None else "",
        )

        async def read(_limit: int) -> bytes:
            return body

        request = Request(
            method=_METHODS[verb],
            path=info.path,
            query=query or _NO_QUERY,
            headers=self._headers | {"Content-Type": content_type} if content_type else self._headers,
            received=self._clock.now(),
            read_body=read,
            obj=obj,
            info=info,
            authentication=self._authentication,
            loopback=True,
            typed=True,
        )
        self._expect_leading(request.method)
        result = await self._handler(request)
        if isinstance(result, BytesResult) and result.status == 404:
            # Plain text, for want of the group version; over HTTPS the client says it in these words.
            raise errors.unknown_resource()
        return result

    def _expect_leading(self, method: str) -> None:
        if method not in READS and not self._may_write():
            raise NotLeading(NOT_SENT)


_METHODS = {
    "get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT", "patch": "PATCH",
    "delete": "DELETE", "deletecollection": "DELETE",
}  # fmt: skip
_NO_QUERY = Query("", {})


def _query(pairs: paths.Query) -> Query:
    return Query("", {key: [value] for key, value in pairs})


_COLLECTION_VERBS = frozenset(("list", "watch", "deletecollection"))


def _path(resource: Resource[Any], verb: str, namespace: str, name: str, subresource: str) -> str:
    """Raises ``ValueError`` for names that stand in no path, as the client over HTTPS does."""
    if verb in _COLLECTION_VERBS or (verb == "create" and not subresource):
        return paths.collection_path(resource, namespace)
    return paths.object_path(resource, namespace, name, subresource)


def _view(result: ObjectResult | ListingResult | WatchResult, resource: Resource[Any]) -> Callable[[Stored[Any]], Any]:
    """From a stored object to the version and the Python type that were asked for."""
    encoder = result.encoder
    if encoder.resource.codec.schema is None and resource.codec.schema is not None:
        return lambda stored: resource.codec.bare(resource.codec.from_json(encoder.item_json(stored)))
    return lambda stored: encoder.view(stored.obj)


def _event(item: WatchItem, view: Callable[[Stored[Any]], Any], resource: Resource[T]) -> WatchEvent[T]:
    if isinstance(item, Status):
        return WatchEvent(EventType.ERROR, status=item)
    if isinstance(item, Bookmark):
        annotations = {INITIAL_EVENTS_END_ANNOTATION: "true"} if item.initial_end else {}
        meta = ObjectMeta(resource_version=str(item.revision), annotations=annotations)
        return WatchEvent(EventType.BOOKMARK, resource.codec.blank(meta, resource.kind, resource.api_version))
    stored: Stored[Any] = item.stored
    return WatchEvent(EventType(item.type), view(stored))


def _raw_response(result: Result, request: Request, clock: Clock) -> RawResponse:
    if isinstance(result, BytesResult):
        return RawResponse(result.status, {"content-type": result.content_type, **result.headers}, result.body)
    how = request.negotiated or Negotiated("json")
    if isinstance(result, PlainResult):
        return RawResponse(result.status, {}, encoding.plain(result.obj, result.api_version, result.kind, how))
    include = request.query.get("includeObject") or "Metadata"
    if isinstance(result, ObjectResult):
        return RawResponse(result.status, {}, result.encoder.one(result.stored, how, clock.now(), include))
    assert isinstance(result, ListingResult)  # a watch cannot be read as one answer
    return RawResponse(result.status, {}, result.encoder.many(result.page, how, clock.now(), include))
