"""May they: the last link before a handler. Authorization happens before the object is looked up (403 before 404)."""

from __future__ import annotations

from kubevouch.authorization.interface import Attributes, Authorizer, Decision
from kubevouch.authorization.messages import forbidden
from kubevouch.server.metrics.catalog import Metrics
from kubevouch.server.request import NO_SNIFFING, Filter, Handler, Request, Result, plain_text
from kubevouch.util.clock import Clock

DECISION, ALLOWED = "authorization.k8s.io/decision", "allow"
"""The audit annotation on what was decided."""

_RESULTS = {Decision.ALLOW: "allowed", Decision.DENY: "denied", Decision.NO_OPINION: "no-opinion"}


def attributes_of(request: Request) -> Attributes:
    """What is asked of the authorizer for a request."""
    info = request.target
    if not info.is_resource:
        return Attributes(user=request.user, verb=info.verb, path=info.path)
    return Attributes(
        user=request.user,
        verb=info.verb,
        group=info.group,
        api_version=info.version,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name,
        field_selector=info.field_selector,
        label_selector=info.label_selector,
    )


def authorization(authorizer: Authorizer, metrics: Metrics, clock: Clock) -> Filter:
    """The filter for one authorizer."""

    async def authorize(request: Request, following: Handler) -> Result:
        attributes = attributes_of(request)
        begun = clock.monotonic()
        verdict = await authorizer.authorize(attributes)
        metrics.authorization(_RESULTS[verdict.decision], clock.monotonic() - begun)
        if verdict.decision is Decision.ALLOW:
            request.annotations[DECISION] = ALLOWED
            request.annotations["authorization.k8s.io/reason"] = verdict.reason
            return await following(request)
        request.annotations[DECISION] = "forbid"
        request.annotations["authorization.k8s.io/reason"] = verdict.reason
        if verdict.error:
            text = f'Internal Server Error: "{request.path}": {verdict.error}\n'
            return plain_text(text, 500)
        request.reply_headers = {**request.reply_headers, **NO_SNIFFING}
        raise forbidden(attributes, verdict.reason)

    return authorize
