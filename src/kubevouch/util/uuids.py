"""Random UUIDs (RFC 9562 section 5.4), as text, drawn many at a time.

Each call of the system gives the interpreter lock away, and a loop whose threads are busy then waits for it: for a
request, that was as dear as its authorization. UUIDs tell objects and requests apart; secrets are drawn by ``secrets``.
"""

from __future__ import annotations

import os
from collections import deque

_AT_ONCE = 128
_BYTES = 16

_drawn: deque[str] = deque()


def random_uuid() -> str:
    """A new one. From any thread."""
    try:
        return _drawn.popleft()
    except IndexError:
        octets = os.urandom(_AT_ONCE * _BYTES)
        fresh = [_text(octets[at : at + _BYTES]) for at in range(0, len(octets), _BYTES)]
        _drawn.extend(fresh[1:])
        return fresh[0]


def _text(octets: bytes) -> str:
    """Version 4 in the upper half of octet 6, variant 10 in the top of octet 8."""
    digits = octets.hex()
    variant = "89ab"[octets[8] >> 6]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


# A process that was forked off would draw the same.
os.register_at_fork(after_in_child=_drawn.clear)
