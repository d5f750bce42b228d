"""PUT on an object or a subresource."""

from __future__ import annotations

from typing import Any

from kubevouch.machinery import errors
from kubevouch.registry.store import uid_precondition_text
from kubevouch.server import decoding, query_options
from kubevouch.server.endpoints import ServedVersion
from kubevouch.server.handlers import shared
from kubevouch.server.handlers.shared import Environment
from kubevouch.server.request import Request, Result
from kubevouch.util.worker import compute


async def update(env: Environment, endpoint: ServedVersion, request: Request) -> Result:
    """Replace an object, or create it where the resource allows that."""
    info = request.target
    shown = endpoint.shown_by(info.subresource)
    resource = shown.resource
    subresource = endpoint.store.definition.subresource(info.subresource)
    shared.negotiate(request, "object", endpoint.resource, tables=subresource is None or subresource.prints_table)
    if request.typed:
        ctx = shared.context(request, query_options.update_options(request.query))
        obj = await shared.typed_object(request, resource, ctx)
    else:
        data = await shared.read_body(request)
        ctx = shared.context(request, query_options.update_options(request.query))
        media = decoding.media_type(request.headers.get("Content-Type", ""))
        obj = await shared.decode_body(request, data, media, resource, env, ctx)
    shared.require_name_match(obj, info.name)
    obj = shared.in_request_namespace(obj, resource.namespaced, info.namespace)
    sent = await compute(endpoint.to_storage, obj) if shown.form is None else obj
    key = endpoint.store.definition.key(info.namespace, info.name)

    async def transform(existing: Any) -> Any:
        if existing is None:
            await shared.require_permission(env, request, "create")
        elif sent.metadata.uid and sent.metadata.uid != existing.metadata.uid:
            why = uid_precondition_text(key, sent.metadata.uid, existing.metadata.uid)
            raise errors.conflict(endpoint.store.definition.resource.group_resource, info.name, why)
        return shown.take(existing, sent)

    stored, created = await endpoint.store.update(ctx, info.namespace, info.name, transform, info.subresource)
    return shown.result(stored, 201 if created else 200)
