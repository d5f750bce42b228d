from __future__ import annotations

import pytest

from kubevouch.client.endpoint import Endpoint
from kubevouch.standalone.addresses import is_out_of_reach

_OURS = ("127.0.0.1", "::1", "localhost", "192.0.2.1", "192.0.2.2")


@pytest.mark.parametrize(
    ("shared", "here", "bound", "lost"),
    [
        (("192.0.2.1", 6443), ("192.0.2.1", 6443), "0.0.0.0", False),
        (("192.0.2.2", 6443), ("192.0.2.1", 6443), "0.0.0.0", False),
        (("192.0.2.1", 7001), ("192.0.2.1", 6443), "0.0.0.0", True),
        # Another machine, or a balancer, whatever its port.
        (("lb.example.com", 443), ("192.0.2.1", 6443), "0.0.0.0", False),
        (("192.0.2.9", 443), ("192.0.2.1", 6443), "192.0.2.1", False),
        # A loopback address is every machine's own.
        (("127.0.0.1", 7001), ("192.0.2.1", 6443), "0.0.0.0", True),
        (("127.0.0.1", 6443), ("192.0.2.1", 6443), "::", True),
        (("localhost", 6443), ("192.0.2.1", 6443), "0.0.0.0", True),
        (("127.0.0.1", 6443), ("127.0.0.1", 6443), "127.0.0.1", False),
        (("localhost", 6443), ("127.0.0.1", 6443), "127.0.0.1", False),
        (("127.0.0.1", 6443), ("127.0.0.1", 6443), "0.0.0.0", False),
        # Listening at one address alone.
        (("192.0.2.1", 6443), ("127.0.0.1", 6443), "127.0.0.1", True),
        (("192.0.2.1", 6443), ("192.0.2.2", 6443), "192.0.2.2", True),
        (("127.0.0.1", 6443), ("192.0.2.2", 6443), "192.0.2.2", True),
    ],
)
def test_machines_are_sent_to_where_this_server_listens(
    shared: tuple[str, int], here: tuple[str, int], bound: str, lost: bool
) -> None:
    assert is_out_of_reach(Endpoint(*shared), Endpoint(*here), bound, lambda host: host in _OURS) is lost
