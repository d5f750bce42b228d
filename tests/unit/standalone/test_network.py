from __future__ import annotations

import ipaddress
import socket

import pytest

from kubevouch.standalone.network import bind, default_address, is_loopback, is_ours, is_wildcard


@pytest.mark.parametrize(
    ("address", "wildcard"),
    [("0.0.0.0", True), ("::", True), ("0:0::0", True), ("127.0.0.1", False), ("::1", False), ("192.0.2.1", False)],
)
def test_wildcard(address: str, wildcard: bool) -> None:
    assert is_wildcard(address) is wildcard


@pytest.mark.parametrize(
    ("host", "loopback", "ours"),
    [
        ("127.0.0.1", True, True),
        ("127.0.0.9", True, True),
        ("::1", True, True),
        ("localhost", True, True),
        ("192.0.2.1", False, False),
        ("2001:db8::1", False, False),
        ("localhost.example.com", False, False),
    ],
)
def test_whose_address_it_is(host: str, loopback: bool, ours: bool) -> None:
    assert (is_loopback(host), is_ours(host)) == (loopback, ours)


def test_the_address_with_which_others_are_reached_is_ours() -> None:
    assert is_ours(default_address())


@pytest.mark.parametrize("address", ["", "localhost", "1.2.3"])
def test_names_are_no_addresses(address: str) -> None:
    with pytest.raises(ValueError):
        is_wildcard(address)


def test_default_address_is_one_that_others_can_be_told() -> None:
    address = ipaddress.ip_address(default_address())
    assert not address.is_unspecified
    assert not address.is_multicast


def test_bound_socket_listens_and_its_port_is_taken() -> None:
    (bound,) = bind("127.0.0.1", 0)
    with bound:
        host, port = bound.getsockname()
        assert host == "127.0.0.1"
        assert not bound.getblocking()
        with socket.create_connection((host, port), timeout=120):
            pass
        with pytest.raises(OSError):
            bind("127.0.0.1", port)


def test_foreign_address_is_refused() -> None:
    with pytest.raises(OSError):
        bind("192.0.2.1", 0)
