"""How long a client may take for each thing that the server waits for."""

from __future__ import annotations

import datetime as dt

import msgspec

REQUEST_TIMEOUT = dt.timedelta(seconds=60)  # kube-apiserver's --request-timeout


class Timeouts(msgspec.Struct, frozen=True):
    """All in seconds.

    Args:
        handshake: from accepting a connection to the end of its TLS handshake, each half.
        head: for the request line and headers on a fresh connection.
        body: for the whole body of a request.
        answer: until a client that lags behind has taken what was written to it.
        frame: the same for the next frames of a watch.
    """

    handshake: float = 10.0
    head: float = 32.0  # Go's ReadHeaderTimeout in kube-apiserver
    body: float = REQUEST_TIMEOUT.total_seconds()
    answer: float = REQUEST_TIMEOUT.total_seconds()
    frame: float = 30.0

    @classmethod
    def within(cls, request_timeout: dt.timedelta) -> Timeouts:
        """None longer than ``request_timeout``, which bodies and answers may take in full."""
        most, usual = request_timeout.total_seconds(), cls()
        return cls(
            handshake=min(usual.handshake, most),
            head=min(usual.head, most),
            body=most,
            answer=most,
            frame=min(usual.frame, most),
        )
