"""Acting as somebody else: the headers name whom, ``authorization.impersonation`` decides.

Source: apiserver endpoints/filters/impersonation (Kubernetes 1.36).
"""

from __future__ import annotations

from msgspec.structs import replace

from kubevouch.authentication import impersonation as headers
from kubevouch.authorization.impersonation import Impersonator
from kubevouch.authorization.interface import Authorizer
from kubevouch.machinery.errors import APIStatusError
from kubevouch.server.filters.authorization import attributes_of
from kubevouch.server.request import NO_SNIFFING, Filter, Handler, Request, Result

# Audit annotation: who really sent the request.
IMPERSONATOR = "authentication.kubevouch.io/impersonator"


def impersonation(authorizer: Authorizer) -> Filter:
    """The filter that asks ``authorizer`` for each part of the wanted identity."""
    impersonator = Impersonator(authorizer)

    async def impersonate(request: Request, following: Handler) -> Result:
        if request.loopback or not _may_impersonate(request):
            return await following(request)
        try:
            wanted = headers.requested(request.credentials.headers)
            found = None if wanted is None else await impersonator.impersonate(attributes_of(request), wanted)
        except APIStatusError:
            request.reply_headers = {**request.reply_headers, **NO_SNIFFING}
            raise
        if found is not None:
            assert request.authentication is not None  # attributes_of read the user
            request.annotations[IMPERSONATOR] = request.user.name
            request.authentication = replace(request.authentication, user=found.user)
        return await following(request)

    return impersonate


def _may_impersonate(request: Request) -> bool:
    """Cheap look at the header names: next to no request has any of these."""
    return "impersonate-" in "\n".join(request.headers).lower()
