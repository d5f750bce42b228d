"""HOST:PORT of an API server, as people type it."""

from __future__ import annotations

import ipaddress
import re
import urllib.parse

import msgspec

from kubevouch.machinery.text import names

_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)


class EndpointError(ValueError):
    """A text that is no HOST:PORT."""


class Endpoint(msgspec.Struct, frozen=True):
    """``host`` is a DNS name or an address in its canonical form, without brackets."""

    host: str
    port: int

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"https://{self.address}"


def parse_endpoint(text: str) -> Endpoint:
    """``HOST:PORT`` or ``[IPv6]:PORT``. Raises :class:`EndpointError`, in Go's words where Go has them."""
    if "://" in text:
        raise EndpointError(f"got the URL {text}, expected HOST:PORT")
    host, colon, port = text.rpartition(":")
    if not colon or (text.startswith("[") and text.endswith("]")):
        raise EndpointError(f"address {text}: missing port in address")
    bracketed = host.startswith("[") and host.endswith("]")
    if ":" in host and not bracketed:
        raise EndpointError(f"address {text}: too many colons in address")
    if not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
        raise EndpointError(f"address {text}: got port {port or 'nothing'}, expected 1 to 65535")
    return Endpoint(_host(host[1:-1] if bracketed else host, text), int(port))


def _host(host: str, text: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.lower().removesuffix(".")
        if ":" in host or names.subdomain(name):
            raise EndpointError(f"address {text}: the host is neither a DNS name nor an IP address") from None
        return name
    # A zone means something on one machine only.
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id:
        raise EndpointError(f"address {text}: an address with a zone cannot be joined by")
    return str(address)


def endpoint_of_url(url: str) -> Endpoint:
    """The endpoint behind the ``server`` of a kubeconfig. Raises :class:`EndpointError`."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as err:
        raise EndpointError(f"the server URL {url} cannot be read: {err}") from err
    if parts.scheme != "https" or not parts.hostname:
        raise EndpointError(f"got the server URL {url}, expected https://HOST:PORT")
    return Endpoint(_host(parts.hostname, url), port or 443)
