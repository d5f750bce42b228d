"""The way to an API server, stage by stage: name, port, TLS, certificate, clock, proxies."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kubevouch.client.endpoint import Endpoint
from kubevouch.client.interface import Client, ConnectFailed, NotKubernetes, TLSFailed, TransportError
from kubevouch.client.tls import insecure_context_that_verifies_nothing
from kubevouch.doctor.findings import Code, Finding
from kubevouch.machinery.text.gotext import human_duration
from kubevouch.machinery.text.times import Time
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.errors import ClientCertificateError, ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.subject_alt_names import canonical
from kubevouch.pki.x509.usages import EXTENDED_KEY_USAGES, SERVER_AUTH
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.util.clock import Clock
from kubevouch.util.tasks import deadline

STAGE_SECONDS = 10.0
# Certificates are backdated by five minutes; a clock that is further off shows.
SKEW_WORTH_TELLING = dt.timedelta(minutes=5)
SERVING_SOON = dt.timedelta(days=30)
_PROXY_VARIABLES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


class NotReached(Exception):
    """A stage did not work; ``finding`` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.cause)
        self.finding = finding


# ------------------------------------------------------------------ stages


async def addresses_of(endpoint: Endpoint, clock: Clock) -> list[str]:
    """Stage 1: the addresses behind the host. Raises :class:`NotReached`."""
    try:
        async with deadline(clock, STAGE_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError) as err:
        why = "in time" if isinstance(err, TimeoutError) else f"({err.strerror})"
        raise NotReached(
            Code.NAME_NOT_RESOLVED.found(
                f"the name {endpoint.host} cannot be resolved {why}", f"getent hosts {endpoint.host}"
            )
        ) from err
    return list(dict.fromkeys(str(each[4][0]) for each in found))


async def serving_certificate(endpoint: Endpoint, clock: Clock, server_name: str = "") -> Certificate:
    """Stages 2 and 3: the certificate that the server shows, of which nothing is verified.

    Raises:
        NotReached: no connection, or no TLS.
    """
    try:
        async with deadline(clock, STAGE_SECONDS):
            return await _handshake(endpoint, server_name or endpoint.host)
    except TimeoutError as err:
        raise NotReached(_no_answer(endpoint, f"did not answer within {STAGE_SECONDS:g} s")) from err
    except ConnectionRefusedError as err:
        raise NotReached(
            Code.PORT_REFUSED.found(
                f"{endpoint.address} refuses the connection: nothing listens on that port", start(endpoint)
            )
        ) from err
    except ssl.SSLError as err:
        raise NotReached(await _no_tls(endpoint, clock, err)) from err
    except OSError as err:
        why = (err.strerror or type(err).__name__).lower()
        raise NotReached(_no_answer(endpoint, f"cannot be reached: {why}")) from err
    except ParseError as err:
        raise NotReached(
            Code.NOT_KUBERNETES.found(
                f"{endpoint.address} shows a certificate that cannot be read: {err}", _make_room(endpoint)
            )
        ) from err


async def _handshake(endpoint: Endpoint, server_name: str) -> Certificate:
    context = insecure_context_that_verifies_nothing()
    _, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context, server_hostname=server_name)
    try:
        contents = writer.get_extra_info("ssl_object").getpeercert(True)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return x509_certificate.parse_der(contents or b"")


def _no_answer(endpoint: Endpoint, why: str) -> Finding:
    return Code.NO_ANSWER.found(f"{endpoint.address} {why}", let_through(endpoint))


def is_here(host: str) -> bool:
    """Whether ``host`` is this machine; of names only localhost, as others may be anybody's tomorrow."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    if address.is_loopback:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))  # the kernel takes its own addresses only; nothing is sent
    except OSError:
        return False
    return True


def start(endpoint: Endpoint) -> str:
    """What to do where a connection is refused."""
    how = f"systemctl start kubevouch, or kubevouch up --secure-port {endpoint.port}"
    if is_here(endpoint.host):
        return f"start the API server on this machine ({how}), or give the port on which it listens"
    return (
        f"on {endpoint.host}, start the API server ({how}); if it runs there, give the port that ss -ltnp shows for "
        f"it, and let TCP port {endpoint.port} in where a firewall rejects it"
    )


def _make_room(endpoint: Endpoint) -> str:
    where = "" if is_here(endpoint.host) else f"on {endpoint.host}, "
    return (
        f"{where}look which program has the port (ss -ltnp sport = :{endpoint.port}); stop it and start the API "
        "server, or give the port on which the API server listens"
    )


def let_through(endpoint: Endpoint) -> str:
    """What to do where nothing comes back."""
    if is_here(endpoint.host):
        return f"let TCP port {endpoint.port} through this machine's firewall, and restart what listens there"
    return (
        f"let TCP port {endpoint.port} through the firewalls from here to {endpoint.host} (on it, firewall-cmd "
        f"--add-port={endpoint.port}/tcp or ufw allow {endpoint.port}/tcp); traceroute {endpoint.host} shows where the "
        "way ends"
    )


async def _no_tls(endpoint: Endpoint, clock: Clock, err: ssl.SSLError) -> Finding:
    fix = _make_room(endpoint)
    if await _speaks_http(endpoint, clock):
        return Code.PLAIN_HTTP.found(f"{endpoint.address} speaks plain HTTP, expected TLS", fix)
    if isinstance(err, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        why = "hung up in the TLS handshake, as a load balancer without servers does"
    else:
        why = f"does not complete a TLS handshake: {(err.reason or 'unknown reason').replace('_', ' ').lower()}"
    return Code.NOT_KUBERNETES.found(f"{endpoint.address} {why}", fix)


async def _speaks_http(endpoint: Endpoint, clock: Clock) -> bool:
    request = f"GET /version HTTP/1.1\r\nHost: {endpoint.address}\r\nConnection: close\r\n\r\n"
    try:
        async with deadline(clock, STAGE_SECONDS):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            try:
                writer.write(request.encode("ascii"))
                return (await reader.read(5)).startswith(b"HTTP/")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


# ------------------------------------------------------------------ judgements


def judge_transport(err: TransportError, endpoint: Endpoint) -> Finding:
    """What a request without an answer shows, once the stages have worked."""
    if isinstance(err, NotKubernetes):
        if err.by_proxy:
            fix = f"curl -kv --noproxy '*' {endpoint.url}/version"
            return Code.PROXY_ANSWERS.found(str(err), fix)
        return Code.NOT_KUBERNETES.found(str(err), _make_room(endpoint))
    if isinstance(err, TLSFailed):
        return Code.SERVER_NOT_TRUSTED.found(str(err), f"openssl s_client -connect {endpoint.address} -showcerts")
    if isinstance(err, ConnectFailed):
        return Code.NO_ANSWER.found(str(err), let_through(endpoint))
    return Code.ACCESS_REFUSED.found(str(err))


def judge_serving(
    leaf: Certificate, server_name: str, anchors: Sequence[Certificate], endpoint: Endpoint, *, now: dt.datetime
) -> Iterator[Finding]:
    """The server's certificate against the name it is reached by, the trusted CA and the time."""
    if not leaf.not_before <= now <= leaf.not_after:
        yield Code.SERVING_CERTIFICATE_DATES.found(
            f"the certificate of {endpoint.address} is valid from {Time.of(leaf.not_before)} to "
            f"{Time.of(leaf.not_after)}, and it is {Time.of(now)} here"
        )
    elif leaf.not_after - now < SERVING_SOON:
        yield Code.SERVING_CERTIFICATE_EXPIRING.found(
            f"the certificate of {endpoint.address} ends at {Time.of(leaf.not_after)}"
        )
    if not covers(leaf, server_name):
        names = [*leaf.meaning.alt_names.dns_names, *map(str, leaf.meaning.alt_names.ip_addresses)]
        yield Code.SERVER_NAME_MISSING.found(
            f"the certificate of {endpoint.address} is not for {server_name} but for {', '.join(names) or 'no name'}"
        )
    try:
        when = min(max(now, leaf.not_before), leaf.not_after)
        verify_chain(leaf, (), TrustAnchors(anchors), now=when, usage=EXTENDED_KEY_USAGES[SERVER_AUTH])
    except ClientCertificateError as err:
        fix = f"openssl s_client -connect {endpoint.address} -showcerts"
        yield Code.SERVER_NOT_TRUSTED.found(
            f"the certificate of {endpoint.address} does not come from the CA that is trusted here: {err}", fix
        )


def covers(leaf: Certificate, name: str) -> bool:
    """Whether the certificate is for ``name`` (RFC 6125: a wildcard is the whole leftmost label)."""
    names = leaf.meaning.alt_names
    try:
        return canonical(ipaddress.ip_address(name)) in map(canonical, names.ip_addresses)
    except ValueError:
        pass
    wanted = name.lower().removesuffix(".")
    parent = wanted.partition(".")[2]
    listed = {each.lower().removesuffix(".") for each in names.dns_names}
    return wanted in listed or bool(parent and f"*.{parent}" in listed)


async def is_kubevouch(client: Client) -> bool | None:
    """Whether the API server that answers is kubevouch's, by its version; None if it does not say."""
    try:
        answer = await client.raw("GET", "/version")
    except TransportError:
        return None
    return b"+kubevouch-" in answer.body if answer.status == 200 else None


def judge_clock(skew: dt.timedelta | None) -> Iterator[Finding]:
    """``skew`` is how far this machine's clock is ahead of the server's."""
    if skew is not None and abs(skew) > SKEW_WORTH_TELLING:
        order = "ahead of" if skew > dt.timedelta() else "behind"
        yield Code.CLOCK_OFF.found(
            f"this machine's clock is {human_duration(abs(skew).total_seconds())} {order} the API server's"
        )


def judge_proxies(environ: Mapping[str, str], endpoint: Endpoint) -> Iterator[Finding]:
    """Whether the environment would send requests for the API server to a proxy (Go's x/net/http/httpproxy)."""
    variable = next((name for name in _PROXY_VARIABLES if environ.get(name)), "")
    if not variable:
        return
    exempt = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if not _exempted(endpoint, exempt.split(",")):
        yield Code.PROXY_CAPTURES.found(
            f"{variable} sends requests for {endpoint.host} to a proxy; kubevouch goes past it, other programs do not",
            f'export NO_PROXY="{f"{exempt}," if exempt else ""}{endpoint.host}"',
        )


def _exempted(endpoint: Endpoint, entries: Iterable[str]) -> bool:
    try:
        address = ipaddress.ip_address(endpoint.host)
    except ValueError:
        address = None
    if endpoint.host == "localhost" or (address is not None and address.is_loopback):
        return True
    for entry in (each.strip().lower() for each in entries):
        if entry == "*" or entry in (endpoint.host, endpoint.address):
            return True
        with contextlib.suppress(ValueError):
            if address is not None and address in ipaddress.ip_network(entry, strict=False):
                return True
        if address is None and entry and endpoint.host.endswith(f".{entry.removeprefix('*').removeprefix('.')}"):
            return True
    return False
