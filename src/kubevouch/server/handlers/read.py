"""GET of an object and of a collection."""

from __future__ import annotations

from kubevouch.server import query_options
from kubevouch.server.endpoints import ServedVersion
from kubevouch.server.handlers import shared
from kubevouch.server.handlers.shared import Environment
from kubevouch.server.request import ListingResult, Request, Result


async def get(_env: Environment, endpoint: ServedVersion, request: Request) -> Result:
    """One object; subresources that hold the whole object read alike."""
    info = request.target
    subresource = endpoint.store.definition.subresource(info.subresource)
    shared.negotiate(request, "object", endpoint.resource, tables=subresource is None or subresource.prints_table)
    stored = await endpoint.store.get(info.namespace, info.name, request.query.get("resourceVersion"))
    return endpoint.shown_by(info.subresource).result(stored)


async def list_(_env: Environment, endpoint: ServedVersion, request: Request) -> Result:
    """One page of a collection."""
    info = request.target
    shared.negotiate(request, "list", endpoint.resource)
    reading = query_options.list_options(request.query, watch=False)
    options = reading.options
    scope = shared.scope_of(endpoint, info.namespace, options.label_selector, options.field_selector)
    page = await endpoint.store.list_(
        scope,
        limit=reading.limit,
        continue_token=options.continue_,
        resource_version=options.resource_version,
        match=options.resource_version_match,
    )
    return ListingResult(page, endpoint.encoder)
