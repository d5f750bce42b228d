"""Who is it: nothing behind this link runs without a user."""

from __future__ import annotations

from collections.abc import Callable

from kubevouch.authentication import webhook
from kubevouch.authentication.interface import Authentication, AuthenticationError
from kubevouch.authentication.union import UnionAuthenticator
from kubevouch.machinery import errors
from kubevouch.server.metrics.catalog import Metrics
from kubevouch.server.request import Filter, Handler, Request, Result
from kubevouch.storage.watchcache.freshness import Freshness, StaleError
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("server")


# A credential that ends otherwise than by a revocation counts for so long after it was looked at.
_STANDS_SECONDS = 1.0


# How a server is does not depend on who asks, and a probe that fails restarts it.
_PROBES = ("/livez", "/readyz", "/healthz")


def authentication(
    authenticator: UnionAuthenticator,
    metrics: Metrics,
    clock: Clock,
    revoked: Callable[[], int] = lambda: 0,
    freshness: Freshness | None = None,
) -> Filter:
    """The filter for one authenticator.

    Whoever lets the server wait, for the body or for a seat, is asked again once the body is there: a certificate that
    is revoked meanwhile writes nothing.

    Args:
        revoked: another number once something is revoked, or is no more.
        freshness: credentials are judged by what is not older than it says; None where nobody else writes.
    """

    async def expect_fresh(request: Request) -> None:
        shown = request.credentials
        if freshness is None or not (shown.peer_chain or shown.authorization) or request.path.startswith(_PROBES):
            return
        try:
            await freshness.expect()
        except StaleError as err:
            log.error("no credential is judged", err=str(err))
            raise errors.service_unavailable("the server does not hear of its store, and not of revocations") from err

    async def judged(request: Request) -> Authentication:
        moment = None if freshness is None else freshness.moment
        try:
            return await authenticator.authenticate(request.credentials, request.target.path)
        except AuthenticationError:
            # Another server may have said a moment ago that the token is there.
            if freshness is None or moment is None or not await freshness.has_news_of(moment):
                raise
            return await authenticator.authenticate(request.credentials, request.target.path)

    async def authenticate(request: Request, following: Handler) -> Result:
        if not request.loopback:
            await expect_fresh(request)
            begun, known = clock.monotonic(), revoked()
            try:
                found = await judged(request)
            except AuthenticationError as err:
                metrics.authentication("failure", clock.monotonic() - begun)
                # The reason is for the operator; the client hears nothing but 401.
                log.info("unable to authenticate the request", audit_id=request.audit_id, err=str(err))
                raise errors.unauthorized() from None
            metrics.authentication("success", clock.monotonic() - begun)
            metrics.authenticated(found, clock.now())
            request.authentication = found
            request.warnings.extend(found.warnings)
            read, who = request.read_body, (found.user.name, found.user.uid)

            async def read_body(limit: int) -> bytes:
                body = await read(limit)
                # A webhook remembers its answer for minutes, and cannot tell a refusal from an outage.
                if found.method == webhook.METHOD or (
                    revoked() == known and clock.monotonic() - begun < _STANDS_SECONDS
                ):
                    return body
                await expect_fresh(request)
                try:
                    again = await authenticator.authenticate(request.credentials, request.target.path)
                except AuthenticationError as err:
                    log.info("the credential ended before the body came", audit_id=request.audit_id, err=str(err))
                    raise errors.unauthorized() from None
                if (again.user.name, again.user.uid) != who:
                    raise errors.unauthorized()
                return body

            request.read_body = read_body
        return await following(request)

    return authenticate
