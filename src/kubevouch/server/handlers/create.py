"""POST on a collection."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from kubevouch.admission.interface import Operation, Version
from kubevouch.admission.interface import Request as AdmissionRequest
from kubevouch.machinery import errors
from kubevouch.machinery.codec import elements
from kubevouch.registry.interface import Context
from kubevouch.server import decoding, query_options
from kubevouch.server.endpoints import Action, ServedVersion
from kubevouch.server.handlers import shared
from kubevouch.server.handlers.shared import Environment
from kubevouch.server.request import ObjectResult, PlainResult, Request, Result
from kubevouch.util.worker import compute, is_large


async def create(env: Environment, endpoint: ServedVersion, request: Request) -> Result:
    """Create an object of a stored resource."""
    info, resource = request.target, endpoint.resource
    if resource.namespaced and not info.namespace:
        raise errors.method_not_allowed()
    shared.negotiate(request, "object", endpoint.resource)
    if request.typed:
        options = query_options.create_options(request.query)
        ctx = shared.context(request, options)
        obj = await shared.typed_object(request, resource, ctx)
    else:
        media = decoding.media_type(request.headers.get("Content-Type", ""))
        data = await shared.read_body(request)
        options = query_options.create_options(request.query)
        ctx = shared.context(request, options)
        obj = await shared.decode_body(request, data, media, resource, env, ctx)
    obj = shared.in_request_namespace(obj, resource.namespaced, info.namespace)
    stored = await endpoint.store.create(ctx, info.namespace, await compute(endpoint.to_storage, obj))
    return ObjectResult(stored, endpoint.encoder, 201)


async def perform(env: Environment, action: Action, request: Request) -> Result:
    """Create something that is answered and forgotten: a review, a token request."""
    info, resource = request.target, action.resource
    shared.negotiate(request, "object", resource, tables=False)
    if request.typed:
        ctx = shared.context(request, query_options.create_options(request.query))
        obj = request.obj
    else:
        media = decoding.media_type(request.headers.get("Content-Type", ""))
        data = await shared.read_body(request)
        ctx = shared.context(request, query_options.create_options(request.query))
        expected = resource if action.accepts is None else action.body
        obj = await shared.decode_body(request, data, media, expected, env, ctx)
    if is_large():
        await compute(elements.check, obj)
    if resource.namespaced and not action.subresource:
        obj = shared.in_request_namespace(obj, True, info.namespace)
    asked = _admission_request(action, ctx, request, obj)

    async def validate(final: Any) -> None:
        await env.admission.validate(structs.replace(asked, obj=final))

    obj = await env.admission.admit(asked)
    answer = await action.perform(ctx, info.namespace, info.name, obj, validate)
    kind = action.body
    return PlainResult(answer, kind.api_version, kind.kind, 201)


def _admission_request(action: Action, ctx: Context, request: Request, obj: Any) -> AdmissionRequest:
    info, resource = request.target, action.resource
    return AdmissionRequest(
        user=ctx.user,
        operation=Operation.CREATE,
        resource=resource.group_resource,
        kind=action.body.gvk,
        subresource=action.subresource,
        namespace=info.namespace,
        name=info.name or obj.metadata.name,
        obj=obj,
        old=None,
        dry_run=ctx.dry_run,
        field_manager=ctx.field_manager,
        warnings=ctx.warnings,
        annotations=ctx.annotations,
        versions=(Version(resource, body=action.accepts),),
        options=ctx.options,
    )
