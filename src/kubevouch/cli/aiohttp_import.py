"""aiohttp as the processes of our own commands need it."""

from __future__ import annotations

import ssl
import sys


def load_aiohttp() -> None:
    """Import aiohttp without the system's certificate authorities: 45 ms of processor time and 3 MiB.

    It reads them twice, for requests that say nothing of TLS; of ours each brings a context of its own. Such a request
    would trust nobody. For programs that import our client aiohttp stays as it is: only commands call this.
    """
    if "aiohttp" in sys.modules:
        return
    ssl.SSLContext.set_default_verify_paths = _none  # type: ignore[method-assign, assignment]  # typeshed has it take two
    try:
        import aiohttp  # noqa: F401 - what follows finds it loaded
    finally:
        del ssl.SSLContext.set_default_verify_paths  # which leaves that of the class below it


def _none(_context: ssl.SSLContext) -> None:
    """No authorities."""
