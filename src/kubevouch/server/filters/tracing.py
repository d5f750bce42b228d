"""A span for each request, within the client's own where the client is known."""

from __future__ import annotations

import msgspec

from kubevouch.machinery.errors import APIStatusError
from kubevouch.server.request import Handler, ObjectResult, Request, Result
from kubevouch.util import tracing
from kubevouch.util.tracing import Attribute, Kind, Origins, Span, Tracer
from kubevouch.wellknown import ANONYMOUS_USER


class Tracing(msgspec.Struct, frozen=True):
    """A tracer, and in which span each object was created."""

    tracer: Tracer
    origins: Origins = msgspec.field(default_factory=Origins)

    async def filter(self, request: Request, following: Handler) -> Result:
        """Stands behind authentication: an anonymous client's trace is only pointed to, as kube-apiserver does for
        whoever is not trusted, so that nobody from outside decides what is sampled."""
        with tracing.active(self._span(request)) as span:
            try:
                result = await following(request)
            except APIStatusError as err:
                span.set("http.response.status_code", err.code)
                raise
            span.set("http.response.status_code", result.status)
            info = request.info
            if info is not None and info.verb == "create" and isinstance(result, ObjectResult):
                meta = result.stored.obj.metadata
                self.origins.remember((info.group, info.resource, meta.namespace, meta.name), span.traceparent)
            return result

    def _span(self, request: Request) -> Span:
        name, attributes = _described(request)
        within = tracing.current()
        if request.loopback and within is not None:
            return within.child(name, Kind.SERVER, attributes)
        given = tracing.parse(request.headers.get(tracing.HEADER, ""))
        if request.user.name == ANONYMOUS_USER:
            return self.tracer.start(name, Kind.SERVER, attributes, link=given)
        return self.tracer.start(name, Kind.SERVER, attributes, parent=given)


def _described(request: Request) -> tuple[str, dict[str, Attribute]]:
    """Name and attributes; bounded by what is served, unlike paths."""
    info = request.target
    attributes: dict[str, Attribute] = {
        "http.request.method": request.method,
        "url.path": request.path,
        "audit-id": request.audit_id,
        "user": request.user.name,
    }
    if not info.is_resource:
        return request.method, attributes
    what = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    return f"{info.verb} {what}", attributes
