"""The judgements about the way to an API server."""

from __future__ import annotations

import datetime as dt
import socket

import pytest

from asynctest import async_test
from kubevouch.client.endpoint import Endpoint
from kubevouch.client.interface import ConnectFailed, CredentialsFailed, NotKubernetes, TLSFailed, TransportError
from kubevouch.doctor.findings import Code
from kubevouch.doctor.reach import (
    NotReached,
    covers,
    is_here,
    judge_clock,
    judge_proxies,
    judge_serving,
    judge_transport,
    serving_certificate,
    start,
)
from kubevouch.pki.x509 import x509_certificate
from kubevouch.util.clock import SystemClock
from throwaway_ca import ThrowawayCA

CA = ThrowawayCA()
ANCHORS = x509_certificate.parse_bundle(CA.bundle)
HOST = Endpoint("api.example.com", 6443)
NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


@pytest.mark.parametrize(
    ("names", "name", "covered"),
    [
        (("api.example.com",), "API.example.com", True),
        (("api.example.com",), "api.example.com.", True),
        (("*.example.com",), "api.example.com", True),
        (("*.example.com",), "a.b.example.com", False),
        (("*.example.com",), "example.com", False),
        (("*",), "localhost", False),
        (("192.0.2.1",), "192.0.2.1", True),
        (("192.0.2.1",), "::ffff:192.0.2.1", True),
        (("192.0.2.1",), "192.0.2.2", False),
        (("2001:db8::1",), "2001:db8:0::1", True),
        ((), "api.example.com", False),
    ],
)
def test_names_of_a_certificate(names: tuple[str, ...], name: str, covered: bool) -> None:
    leaf = x509_certificate.parse_pem(CA.issue(names=names).certificate)
    assert covers(leaf, name) is covered


@pytest.mark.parametrize(
    ("begins", "ends", "ca", "names", "expected"),
    [
        (-DAY, 400 * DAY, CA, ("api.example.com",), []),
        (-DAY, 29 * DAY, CA, ("api.example.com",), [Code.SERVING_CERTIFICATE_EXPIRING]),
        (-2 * DAY, -DAY, CA, ("api.example.com",), [Code.SERVING_CERTIFICATE_DATES]),
        (DAY, 400 * DAY, CA, ("api.example.com",), [Code.SERVING_CERTIFICATE_DATES]),
        (-DAY, 400 * DAY, ThrowawayCA(), ("api.example.com",), [Code.SERVER_NOT_TRUSTED]),
        (-DAY, 400 * DAY, CA, ("other.example.com",), [Code.SERVER_NAME_MISSING]),
        (-2 * DAY, -DAY, ThrowawayCA(), (), [
            Code.SERVING_CERTIFICATE_DATES, Code.SERVER_NAME_MISSING, Code.SERVER_NOT_TRUSTED,
        ]),
    ],
)  # fmt: skip
def test_the_servers_certificate(
    begins: dt.timedelta, ends: dt.timedelta, ca: ThrowawayCA, names: tuple[str, ...], expected: list[Code]
) -> None:
    pair = ca.issue(names=names, not_before=NOW + begins, not_after=NOW + ends)
    leaf = x509_certificate.parse_pem(pair.certificate)
    assert [each.code for each in judge_serving(leaf, HOST.host, ANCHORS, HOST, now=NOW)] == expected


@pytest.mark.parametrize(
    ("minutes", "said"), [(4, ""), (-4, ""), (6, "6m ahead of"), (-90, "90m behind"), (60 * 24 * 400, "400d ahead of")]
)
def test_clocks(minutes: int, said: str) -> None:
    causes = [each.cause for each in judge_clock(dt.timedelta(minutes=minutes))]
    assert causes == ([f"this machine's clock is {said} the API server's"] if said else [])
    assert not list(judge_clock(None))


@pytest.mark.parametrize(
    ("host", "exempt", "captured"),
    [
        ("api.example.com", "", True),
        ("api.example.com", "*", False),
        ("api.example.com", "api.example.com", False),
        ("api.example.com", "API.example.com:6443", False),
        ("api.example.com", "example.com", False),
        ("api.example.com", ".example.com, x", False),
        ("api.example.com", "ample.com", True),
        ("192.0.2.1", "192.0.2.0/24", False),
        ("192.0.2.1", "10.0.0.0/8", True),
        ("2001:db8::1", "2001:db8::/32", False),
        ("localhost", "", False),
        ("::1", "", False),
    ],
)
def test_proxies(host: str, exempt: str, captured: bool) -> None:
    environ = {"https_proxy": "http://proxy.example:3128", "no_proxy": exempt}
    assert bool(list(judge_proxies(environ, Endpoint(host, 6443)))) is captured
    assert not list(judge_proxies({"no_proxy": exempt}, Endpoint(host, 6443)))


@pytest.mark.parametrize(
    ("err", "code"),
    [
        (ConnectFailed("x"), Code.NO_ANSWER),
        (TLSFailed("x"), Code.SERVER_NOT_TRUSTED),
        (NotKubernetes("x"), Code.NOT_KUBERNETES),
        (NotKubernetes("x", by_proxy=True), Code.PROXY_ANSWERS),
        (CredentialsFailed("x"), Code.ACCESS_REFUSED),
    ],
)
def test_requests_without_an_answer(err: TransportError, code: Code) -> None:
    found = judge_transport(err, HOST)
    assert (found.code, found.cause) == (code, "x")


def test_what_to_do_depends_on_what_is_in_the_way() -> None:
    """A command that only looks, such as ss or traceroute, is no fix by itself."""
    far, near = Endpoint("192.0.2.1", 6443), Endpoint("127.0.0.1", 6443)
    assert not is_here(far.host) and is_here(near.host) and is_here("::1") and is_here("localhost")
    assert not is_here("api.example.com")
    for endpoint in (far, near):
        filtered = judge_transport(ConnectFailed("x"), endpoint).fix
        assert filtered.startswith("let TCP port 6443 through") and "firewall" in filtered
        other = judge_transport(NotKubernetes("x"), endpoint).fix
        assert "which program has the port" in other and "stop it" in other
        assert ("on 192.0.2.1" in other) is ("firewall-cmd" in filtered) is (endpoint is far)


@async_test
async def test_what_to_do_about_a_port_that_is_refused() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        for host, where in (("127.0.0.1", "on this machine"), ("localhost", "on this machine")):
            with pytest.raises(NotReached) as caught:
                await serving_certificate(Endpoint(host, port), SystemClock())
            fix = caught.value.finding.fix
            assert caught.value.finding.code is Code.PORT_REFUSED
            assert where in fix and f"kubevouch up --secure-port {port}" in fix
    assert "on 192.0.2.1, start the API server" in start(Endpoint("192.0.2.1", 6443))
