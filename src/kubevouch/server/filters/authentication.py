"""Who is it: nothing behind this link runs without a user."""

from __future__ import annotations

import structlog

from kubevouch.authentication.interface import AuthenticationError
from kubevouch.authentication.union import UnionAuthenticator
from kubevouch.machinery import errors
from kubevouch.server.metrics.catalog import Metrics
from kubevouch.server.request import Filter, Handler, Request, Result
from kubevouch.util.clock import Clock

log = structlog.get_logger("server")


def authentication(authenticator: UnionAuthenticator, metrics: Metrics, clock: Clock) -> Filter:
    """The filter for one authenticator."""

    async def authenticate(request: Request, following: Handler) -> Result:
        if not request.loopback:
            begun = clock.monotonic()
            try:
                found = await authenticator.authenticate(request.credentials, request.target.path)
            except AuthenticationError as err:
                metrics.authentication("failure", clock.monotonic() - begun)
                # The reason is for the operator; the client hears nothing but 401.
                log.info("unable to authenticate the request", audit_id=request.audit_id, err=str(err))
                raise errors.unauthorized() from None
            metrics.authentication("success", clock.monotonic() - begun)
            metrics.authenticated(found, clock.now())
            request.authentication = found
            request.warnings.extend(found.warnings)
        return await following(request)

    return authenticate
