"""The request boundary: an exception in one request becomes that request's 500 and touches nothing else."""

from __future__ import annotations

from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.registry.store_failures import status_of
from kubevouch.server.request import Handler, Request, Result
from kubevouch.storage.interface import StoreUnavailable
from kubevouch.util.logger import get_logger

log = get_logger("server")


async def recovery(request: Request, following: Handler) -> Result:
    try:
        return await following(request)
    except APIStatusError:
        raise
    except StoreUnavailable as err:
        log.warning("the store failed a request", audit_id=request.audit_id, path=request.path, err=str(err))
        raise status_of(err) from err
    except Exception as err:
        # One of the three places that catch everything (CONTRIBUTING.md, rule 5). The client learns no details.
        log.exception("request failed", audit_id=request.audit_id, method=request.method, path=request.path)
        raise errors.internal(f"an error occurred while processing the request ({type(err).__name__})") from err
