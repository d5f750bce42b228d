"""Names the request that holds the event loop, without a cost for those that do not."""

from __future__ import annotations

from pathlib import Path
from types import FrameType

from kubevouch.server import chain
from kubevouch.server.request import Request

_EDGE = frozenset((chain.__file__, str(Path(chain.__file__).with_name("https.py"))))
_PATH_SHOWN = 200


def request_of(frame: FrameType) -> str:
    """The request of a link of the chain or of the edge, such as ``GET /version by system:node:a``; empty elsewhere.

    Only the path is told: a query may be as long as a client likes.
    """
    if frame.f_code.co_filename not in _EDGE:
        return ""
    request = frame.f_locals.get("request")
    if not isinstance(request, Request):
        return ""
    who = f" by {request.authentication.user.name}" if request.authentication is not None else ""
    return f"{request.method} {request.path[:_PATH_SHOWN]}{who}"
