"""DELETE of an object and of a collection."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kubevouch.authorization.interface import Decision
from kubevouch.machinery import errors
from kubevouch.machinery.codec import elements, protobuf
from kubevouch.machinery.codec.object_codec import codec_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import DeleteOptions, Status, StatusDetails
from kubevouch.machinery.schema import schema_of
from kubevouch.machinery.scheme import GroupResource, GroupVersionKind
from kubevouch.machinery.text.gotext import quote
from kubevouch.registry.reader import ListResult
from kubevouch.server import decoding, query_options
from kubevouch.server.endpoints import ServedVersion
from kubevouch.server.filters.authorization import attributes_of
from kubevouch.server.handlers import shared
from kubevouch.server.handlers.shared import Environment
from kubevouch.server.negotiation import PROTOBUF
from kubevouch.server.request import ListingResult, ObjectResult, PlainResult, Request, Result
from kubevouch.storage.watchcache.objects import Stored
from kubevouch.util.worker import compute


async def delete(env: Environment, endpoint: ServedVersion, request: Request) -> Result:
    """Delete one object."""
    info = request.target
    shared.negotiate(request, "object", endpoint.resource)
    options = await _options(request)
    ctx = shared.context(request)
    ctx.dry_run, ctx.options = bool(options.dry_run), options
    if options.ignore_store_read_error_with_cluster_breaking_potential:
        await _expect_may_ignore_read_errors(env, request)
    deleted = await endpoint.store.delete(ctx, info.namespace, info.name, options)
    if not deleted.gone:
        return ObjectResult(deleted.stored, endpoint.encoder)
    resource = endpoint.resource
    details = StatusDetails(
        name=info.name, group=resource.group, kind=resource.plural, uid=deleted.stored.obj.metadata.uid
    )
    if request.negotiated is not None and request.negotiated.transform:
        request.negotiated = request.negotiated.without_transform()
    return PlainResult(Status(status="Success", details=details), "v1", "Status")


async def delete_collection(_env: Environment, endpoint: ServedVersion, request: Request) -> Result:
    """Delete what a list with the same selectors and limit returns, and return that list."""
    info = request.target
    shared.negotiate(request, "list", endpoint.resource)
    reading = query_options.list_options(request.query, watch=False)
    options = await _options(request)
    ctx = shared.context(request)
    ctx.dry_run, ctx.options = bool(options.dry_run), options
    listed = reading.options
    scope = shared.scope_of(endpoint, info.namespace, listed.label_selector, listed.field_selector)
    page = await endpoint.store.list_(
        scope, limit=reading.limit, continue_token=listed.continue_, resource_version=listed.resource_version
    )
    deleted: list[Stored[Any]] = []
    for stored in page.items:
        meta = stored.obj.metadata
        try:
            result = await endpoint.store.delete(ctx, meta.namespace, meta.name, options)
        except APIStatusError as err:
            if err.code == 404:
                continue
            raise
        deleted.append(result.stored)
    return ListingResult(ListResult(deleted, page.revision, page.continue_token, page.remaining), endpoint.encoder)


async def _expect_may_ignore_read_errors(env: Environment, request: Request) -> None:
    """Raises ``APIStatusError`` (403): to delete what nobody can read is a right of its own."""
    attributes = replace(attributes_of(request), verb=_IGNORE_READ_ERRORS)
    verdict = await env.authorizer.authorize(attributes)
    if verdict.decision is not Decision.ALLOW:
        resource = GroupResource(attributes.group, attributes.resource)
        why = f"not permitted to do {quote(_IGNORE_READ_ERRORS)}, reason: {verdict.reason}"
        raise errors.forbidden(resource, attributes.name, why)


_IGNORE_READ_ERRORS = "unsafe-delete-ignore-read-errors"
_DELETE_OPTIONS = GroupVersionKind("", "v1", "DeleteOptions")


async def _options(request: Request) -> DeleteOptions:
    """DeleteOptions of the body (any group version) or of the query. Raises ``APIStatusError``."""
    if request.typed:
        return query_options.delete_options(request.query, request.obj)
    data = await shared.read_body(request)
    if not data:
        return query_options.delete_options(request.query, None)
    media = decoding.media_type(request.headers.get("Content-Type", ""))
    return query_options.delete_options(request.query, await compute(_decode, data, media))


def _decode(data: bytes, media: str) -> DeleteOptions:
    if media == PROTOBUF:
        try:
            opened = protobuf.unseal(data)
            _require_kind(opened.kind)
            elements.check_protobuf(opened.raw, schema_of(DeleteOptions))
            return protobuf.codec_for(DeleteOptions).decode(opened.raw)
        except protobuf.ProtobufError as err:
            raise errors.bad_request(str(err)) from None
    try:
        tree, _ = decoding.parse_tree(data, media)
    except ValueError as err:
        raise errors.bad_request(f"couldn't get version/kind; json parse error: {err}") from None
    if isinstance(tree, dict):
        _require_kind(tree.get("kind") or "")
    # fieldValidation does nothing here (observed on 1.36.2).
    options: DeleteOptions = decoding.from_tree(tree, _DELETE_OPTIONS, codec_of(DeleteOptions), "DeleteOptions").obj
    return options


def _require_kind(kind: object) -> None:
    if kind not in ("", "DeleteOptions"):
        raise errors.bad_request(f"decoded object cannot be converted to DeleteOptions: got kind {kind!r}")
