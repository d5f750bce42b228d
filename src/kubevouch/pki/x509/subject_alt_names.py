"""The subjectAltName extension: what Go reads out of it, and how it writes it (Go 1.26 ``crypto/x509``).

Only DNS names, e-mail addresses, IP addresses and URIs exist; names of other kinds are neither seen by any rule nor
issued.
"""

from __future__ import annotations

import ipaddress

import msgspec

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import DERError, ParseError
from kubevouch.pki.x509 import der, uri

OID = "2.5.29.17"

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_EMAIL = 0x81
_DNS = 0x82
_URI = 0x86
_IP = 0x87


class SubjectAltNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names by kind, each kind in its order. An IPv6 address that maps an IPv4 one is that IPv4 address."""

    dns_names: tuple[str, ...] = ()
    email_addresses: tuple[str, ...] = ()
    ip_addresses: tuple[IPAddress, ...] = ()
    uris: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.dns_names or self.email_addresses or self.ip_addresses or self.uris)

    def and_those_of(self, other: SubjectAltNames) -> SubjectAltNames:
        """Both, each name once."""
        return SubjectAltNames(
            dns_names=tuple(dict.fromkeys((*self.dns_names, *other.dns_names))),
            email_addresses=tuple(dict.fromkeys((*self.email_addresses, *other.email_addresses))),
            ip_addresses=tuple(dict.fromkeys((*self.ip_addresses, *other.ip_addresses))),
            uris=tuple(dict.fromkeys((*self.uris, *other.uris))),
        )

    def encode(self) -> bytes:
        """The value of the extension: all DNS names, then e-mail addresses, IP addresses, URIs.

        Raises:
            ValueError: a name is not ASCII.
        """
        return der.encode(
            der.SEQUENCE,
            *(der.encode(_DNS, name.encode("ascii")) for name in self.dns_names),
            *(der.encode(_EMAIL, name.encode("ascii")) for name in self.email_addresses),
            *(der.encode(_IP, address.packed) for address in self.ip_addresses),
            *(der.encode(_URI, name.encode("ascii")) for name in self.uris),
        )


NONE = SubjectAltNames()


def parse(value: bytes) -> SubjectAltNames:
    """The names in the value of the extension; octets behind the sequence are not looked at.

    Raises:
        ParseError: with Go's text.
    """
    try:
        position, stop = der.expect(value, 0, len(value), der.SEQUENCE)
    except DERError as error:
        raise ParseError("x509: invalid subject alternative names") from error
    dns_names: list[str] = []
    email_addresses: list[str] = []
    ip_addresses: list[IPAddress] = []
    uris: list[str] = []
    while position < stop:
        try:
            tag, start, position = der.element(value, position, stop)
        except DERError as error:
            raise ParseError("x509: invalid subject alternative name") from error
        if tag > 0xFF:
            raise ParseError("x509: invalid subject alternative name")
        name = value[start:position]
        if tag == _DNS:
            dns_names.append(_ascii(name, "dNSName"))
        elif tag == _IP:
            ip_addresses.append(_ip_address(name))
        elif tag == _EMAIL:
            email_addresses.append(_ascii(name, "rfc822Name"))
        elif tag == _URI:
            uris.append(_uri(_ascii(name, "uniformResourceIdentifier")))
    return SubjectAltNames(
        dns_names=tuple(dns_names),
        email_addresses=tuple(email_addresses),
        ip_addresses=tuple(ip_addresses),
        uris=tuple(uris),
    )


def _ascii(raw: bytes, kind: str) -> str:
    if not raw.isascii():
        raise ParseError(f"x509: SAN {kind} is malformed")
    return raw.decode("ascii")


def canonical(address: IPAddress) -> IPAddress:
    """As Go prints and issues it: the IPv4 address inside an IPv4-mapped one."""
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def _ip_address(raw: bytes) -> IPAddress:
    if len(raw) not in {4, 16}:
        raise ParseError(f"x509: cannot parse IP address of length {len(raw)}")
    return canonical(ipaddress.ip_address(raw))


def _uri(text: str) -> str:
    try:
        parsed = uri.parse(text)
    except ValueError as error:
        raise ParseError(f"x509: cannot parse URI {quote(text)}: {error}") from error
    if not is_domain(parsed.host):
        raise ParseError(f"x509: cannot parse URI {quote(text)}: invalid domain")
    return parsed.text


def is_domain(name: str) -> bool:
    """Go's lax check of a domain: printable ASCII, no empty label. The empty name passes."""
    if not name:
        return True
    return all(name.split(".")) and all("!" <= char <= "~" for char in name)
