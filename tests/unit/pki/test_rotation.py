"""When a certificate is asked for anew; the deadlines themselves are compared in tests/contract/test_pki_node.py."""

from __future__ import annotations

import datetime as dt
import ipaddress
import math
from collections.abc import Callable

import pytest

from kubevouch.pki import rotation
from kubevouch.pki.rotation import WantedCertificate, node_client
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.x509_certificate import Certificate

SECOND = dt.timedelta(seconds=1)
ADDRESS, OTHER = ipaddress.ip_address("192.0.2.1"), ipaddress.ip_address("192.0.2.2")


def test_what_a_node_wants_is_what_it_has(make_certificate: Callable[..., Certificate], now: dt.datetime) -> None:
    certificate = make_certificate()
    assert rotation.satisfies(certificate, node_client("worker-7"))
    assert not rotation.satisfies(certificate, node_client("worker-8"))
    assert rotation.next_rotation(certificate, node_client("worker-8"), now=now, draw=0) == now
    assert rotation.next_rotation(certificate, None, now=now, draw=0, forced=True) == now
    assert rotation.next_rotation(None, None, now=now, draw=0) == now
    later = rotation.next_rotation(certificate, node_client("worker-7"), now=now, draw=0)
    assert later == certificate.not_before + (certificate.not_after - certificate.not_before) * 0.7


@pytest.mark.parametrize(
    ("wanted", "satisfied"),
    [
        ({}, True),
        ({"organizations": ("system:nodes", "more")}, False),
        ({"alt_names": SubjectAltNames(dns_names=("a",), ip_addresses=(ADDRESS,))}, True),
        ({"alt_names": SubjectAltNames(dns_names=("a", "c"), ip_addresses=(ADDRESS,))}, False),
        ({"alt_names": SubjectAltNames(dns_names=("a",), ip_addresses=(ADDRESS, OTHER))}, False),
    ],
)
def test_more_than_is_wanted_is_good_enough(
    wanted: dict[str, object], satisfied: bool, make_certificate: Callable[..., Certificate]
) -> None:
    certificate = make_certificate(alt_names=SubjectAltNames(dns_names=("a", "b"), ip_addresses=(ADDRESS,)))
    want = WantedCertificate(common_name="system:node:worker-7", **wanted)  # type: ignore[arg-type]  # see the cases
    assert rotation.satisfies(certificate, want) is satisfied


def test_the_last_second(make_certificate: Callable[..., Certificate]) -> None:
    end = make_certificate().not_after
    assert rotation.usable(make_certificate(), now=end)
    assert not rotation.usable(make_certificate(), now=end + SECOND)
    assert rotation.seconds_to_expiry(end, now=end - SECOND * 1.9) == 1.0
    assert rotation.seconds_to_expiry(end, now=end) == 0.0
    assert rotation.seconds_to_expiry(end, now=end + SECOND) == rotation.seconds_to_expiry(None, now=end) == math.inf


@pytest.mark.parametrize(
    ("addresses", "dns_only", "names"),
    [
        ([], False, None),
        ([("Hostname", "a")], False, None),
        ([("InternalDNS", "a")], True, SubjectAltNames(dns_names=("a",))),
        ([], True, None),
        ([("Other", "192.0.2.1"), ("InternalIP", "a")], False, None),
        (
            [("InternalIP", "192.000.2.01"), ("ExternalIP", "192.0.2.1")],
            False,
            SubjectAltNames(ip_addresses=(ADDRESS,)),
        ),
        (
            [("ExternalIP", "192.0.2.2"), ("Hostname", "192.0.2.1"), ("ExternalDNS", "b"), ("Hostname", "a")],
            False,
            SubjectAltNames(dns_names=("a", "b"), ip_addresses=(ADDRESS, OTHER)),
        ),
    ],
)
def test_serving_names(addresses: list[tuple[str, str]], dns_only: bool, names: SubjectAltNames | None) -> None:
    assert rotation.serving_names(addresses, allow_dns_only=dns_only) == names
