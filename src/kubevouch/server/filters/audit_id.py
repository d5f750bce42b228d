"""Gives each request an identifier that is echoed in ``Audit-Id`` and stands on every log line about it."""

from __future__ import annotations

from kubevouch.server.request import Handler, Request, Result
from kubevouch.util.uuids import random_uuid

MAX_LENGTH = 64


async def audit_id(request: Request, following: Handler) -> Result:
    """The client's own identifier counts, cut to a sane length (apiserver endpoints/filters/request_auditid)."""
    given = request.headers.get("Audit-Id", "")
    request.audit_id = given if given.isprintable() and 0 < len(given) <= MAX_LENGTH else random_uuid()
    return await following(request)
