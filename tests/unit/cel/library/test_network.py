"""cel/library/network.py"""

from __future__ import annotations

import pytest

from cel_cases import error_of, value_of


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("ip('127.0.0.1').family()", 4),
        ("ip('::1').family()", 6),
        ("isIP('127.0.0.1') && isIP('::1')", True),
        ("isIP('127.0.0.256') || isIP(':::1') || isIP('::ffff:1.2.3.4') || isIP('fe80::1%eth0')", False),
        ("isIP('01.2.3.4') || isIP('1.2.3') || isIP('')", False),
        ("ip.isCanonical('127.0.0.1') && ip.isCanonical('2001:db8::abcd')", True),
        ("ip.isCanonical('2001:DB8::ABCD') || ip.isCanonical('2001:db8::0:0:0:abcd')", False),
        ("ip('0.0.0.0').isUnspecified() && ip('::').isUnspecified() && !ip('::1').isUnspecified()", True),
        ("ip('127.0.0.1').isLoopback() && ip('::1').isLoopback() && !ip('192.168.0.1').isLoopback()", True),
        ("ip('224.0.0.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()", True),
        ("ip('224.0.1.1').isLinkLocalMulticast() || ip('fd00::1').isLinkLocalMulticast()", False),
        ("ip('169.254.169.254').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast()", True),
        ("ip('192.168.0.1').isLinkLocalUnicast() || ip('fd80::1').isLinkLocalUnicast()", False),
        ("ip('192.168.0.1').isGlobalUnicast() && ip('2001:db8::abcd').isGlobalUnicast()", True),
        ("ip('255.255.255.255').isGlobalUnicast() || ip('ff00::1').isGlobalUnicast()", False),
        ("ip('::0001') == ip('::1') && ip('::1') != ip('::2')", True),
        ("string(dyn(ip('::0001')))", "::1"),
        ("isCIDR('192.168.0.0/16') && isCIDR('::1/128') && isCIDR('192.168.0.1/16')", True),
        ("isCIDR('192.168.0.0/33') || isCIDR('::1/129') || isCIDR('::ffff:1.2.3.4/24') || isCIDR('1.2.3.4')", False),
        ("isCIDR('1.2.3.4/08')", False),
        ("cidr('192.168.0.0/24').containsIP(ip('192.168.0.1'))", True),
        ("cidr('192.168.0.0/24').containsIP('192.168.1.1') || cidr('192.168.0.0/24').containsIP('::1')", False),
        ("cidr('192.168.0.0/16').containsCIDR(cidr('192.168.10.0/24'))", True),
        ("cidr('192.168.0.0/16').containsCIDR('192.168.0.0/15')", False),
        ("cidr('192.168.1.0/24').containsCIDR('192.168.2.0/24')", False),
        ("cidr('192.168.0.1/24').ip() == ip('192.168.0.1')", True),
        ("cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24')", True),
        ("cidr('192.168.0.1/24') == cidr('192.168.0.1/24').masked()", False),
        ("cidr('192.168.0.0/16').prefixLength()", 16),
    ],
)  # fmt: skip
def test_values(source: str, value: object) -> None:
    assert value_of(source) == value


PARSING = "network address parse error during conversion from string"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("ip('::ffff:1.2.3.4')", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        ("ip('fe80::1%eth0')", 'IP address "fe80::1%eth0" with zone value is not allowed'),
        ("cidr('1.2.3.4')", f"{PARSING}: {PARSING}: netip.ParsePrefix(\"1.2.3.4\"): no '/'"),
        ("cidr('::ffff:1.2.3.4/24')", f'{PARSING}: IPv4-mapped IPv6 address "::ffff:1.2.3.4/24" is not allowed'),
    ],
)
def test_errors(source: str, text: str) -> None:
    assert error_of(source) == text


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.256", "IPv4 field has value >255"),
        ("127.0.0.01", "IPv4 field has octet with leading zero"),
        ("127.0.0", "IPv4 address too short"),
        ("127..0.1", "IPv4 field must have at least one digit"),
        ("nonsense", "unable to parse IP"),
    ],
)
def test_what_is_no_address(address: str, why: str) -> None:
    what = f'IP Address "{address}" parse error during conversion from string'
    assert error_of(f"ip('{address}')") == f'{what}: ParseAddr("{address}"): {why}'
