"""What went wrong, in one sentence: answers and exceptions to the errors of ``client.interface``. No I/O."""

from __future__ import annotations

import datetime as dt
import errno
import html
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from http import HTTPStatus

import aiohttp
import msgspec

from kubevouch.client import codec
from kubevouch.client.interface import ConnectFailed, NotKubernetes, TLSFailed, TransportError
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import Status, StatusDetails
from kubevouch.machinery.text.times import Time
from kubevouch.util import backoff

_EXCERPT = 200  # characters of a foreign answer that may stand in a message


class Peer(msgspec.Struct, frozen=True):
    """Whom a request went to: host:port of the API server, and the proxy it was told to use, if any."""

    address: str
    proxy: str = ""


class Answer(msgspec.Struct, frozen=True):
    """An HTTP answer: headers by lower-case name, the body decompressed."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")


# ------------------------------------------------------------------ answers


_REASONS = {
    400: Reason.BAD_REQUEST, 401: Reason.UNAUTHORIZED, 403: Reason.FORBIDDEN, 404: Reason.NOT_FOUND,
    405: Reason.METHOD_NOT_ALLOWED, 406: Reason.NOT_ACCEPTABLE, 409: Reason.CONFLICT, 410: Reason.EXPIRED,
    413: Reason.REQUEST_ENTITY_TOO_LARGE, 415: Reason.UNSUPPORTED_MEDIA_TYPE, 422: Reason.INVALID,
    429: Reason.TOO_MANY_REQUESTS, 500: Reason.INTERNAL_ERROR, 503: Reason.SERVICE_UNAVAILABLE, 504: Reason.TIMEOUT,
}  # fmt: skip


def refusal(answer: Answer, peer: Peer, now: dt.datetime) -> APIStatusError | NotKubernetes:
    """The error for an answer of 400 or above, or a redirect.

    Flow control, the not-found handler and authentication in front of an API server answer in plain text; such an
    answer is given a Status as client-go does. What a proxy or a web server says is :class:`NotKubernetes`.
    """
    status = codec.decode_status(answer.body)
    if status is not None:
        return APIStatusError(_completed(status, answer, now))
    if not _plausible(answer):
        return not_kubernetes(answer, peer)
    said = _first_line(answer.body)
    message = f"the API server answered {_status_line(answer.status)}" + (f": {said}" if said else "")
    bare = Status(status="Failure", message=message, reason=str(_REASONS.get(answer.status, "")), code=answer.status)
    return APIStatusError(_completed(bare, answer, now))


def _completed(status: Status, answer: Answer, now: dt.datetime) -> Status:
    """``status`` with the code and the Retry-After that stand in the HTTP head."""
    if not status.code:
        status = msgspec.structs.replace(status, code=answer.status)
    details = status.details or StatusDetails()
    if not details.retry_after_seconds and "retry-after" in answer.headers:
        seconds = backoff.retry_after(answer.headers["retry-after"], now)
        if seconds is not None:
            details = msgspec.structs.replace(details, retry_after_seconds=min(int(-(-seconds // 1)), 2**31 - 1))
            return msgspec.structs.replace(status, details=details)
    return status


def not_kubernetes(answer: Answer, peer: Peer) -> NotKubernetes:
    """The error for an answer that no API server gives."""
    line = _status_line(answer.status)
    proxy = _proxy_marks(answer.headers)
    location = answer.headers.get("location", "")
    by_proxy = answer.status == 407 or bool(proxy)
    if by_proxy:
        marks = f" ({proxy})" if proxy else ""
        message = f"{line} for {peer.address} came from a proxy{marks}, not from the API server"
        hint = "take the address out of the proxy's reach, or allow it there"
    elif 300 <= answer.status < 400 and location:
        message = f"{peer.address} redirects to {_printable(location)}, which an API server does not do"
        hint = "give the address of the API server itself, not of a console or a login page"
    elif b"HTTP request to an HTTPS server" in answer.body[:_EXCERPT]:
        message = f"{peer.address} expects TLS but was asked in plain HTTP"
        hint = "write https:// in front of the server's address"
    else:
        what = codec.kind_of(answer.body) or codec.media_type(answer.content_type) or "nothing that says its type"
        message = f"{peer.address} answered {line} with {what}, which is no answer of an API server"
        hint = "check host and port: a proxy, a load balancer or another web server stands there"
    return NotKubernetes(message, address=peer.address, status=answer.status, hint=hint, by_proxy=by_proxy)


def unreadable(answer: Answer, peer: Peer, problem: codec.CodecError) -> NotKubernetes:
    """The error for a successful answer whose body is not the object that was asked for."""
    if codec.media_type(answer.content_type) not in (codec.JSON, codec.PROTOBUF) or _proxy_marks(answer.headers):
        return not_kubernetes(answer, peer)
    return NotKubernetes(
        f"{peer.address} answered {_status_line(answer.status)} with {problem}",
        address=peer.address,
        status=answer.status,
        hint="check that the server is a Kubernetes API server of a supported version",
    )


def _plausible(answer: Answer) -> bool:
    """Whether an API server may have said this although it is no Status."""
    headers = answer.headers
    if "audit-id" in headers or "x-kubernetes-pf-flowschema-uid" in headers:
        return True
    if answer.status not in _REASONS or _proxy_marks(headers) or answer.body.lstrip()[:1] in (b"<", b"{", b"["):
        return False
    if b"HTTP request to an HTTPS server" in answer.body[:_EXCERPT]:
        return False
    return codec.media_type(answer.content_type) in ("", "text/plain")


_PROXY_HEADERS = ("via", "proxy-authenticate", "proxy-connection", "x-squid-error", "x-cache", "x-cache-lookup")
_PROXY_SOFTWARE = re.compile(
    r"(squid|envoy|haproxy|varnish|cloudflare|awselb|microsoft-azure-application-gateway|bluecoat|zscaler|tinyproxy)"
    r"\b.*",
    re.ASCII | re.IGNORECASE,
)


def _proxy_marks(headers: Mapping[str, str]) -> str:
    """The headers by which a proxy shows itself; an API server's own Audit-Id outweighs them."""
    if "audit-id" in headers:
        return ""
    marks = [f"{name.title()}: {_printable(headers[name])}" for name in _PROXY_HEADERS if name in headers]
    server = headers.get("server", "")
    if _PROXY_SOFTWARE.fullmatch(server):
        marks.insert(0, f"Server: {_printable(server)}")
    return ", ".join(marks)


def _status_line(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _first_line(body: bytes) -> str:
    text = body[: 4 * _EXCERPT].decode("utf-8", "replace").strip()
    return _printable(text.partition("\n")[0])


def _printable(text: str) -> str:
    """At most a few words of somebody else's text, without control characters."""
    clean = "".join(char if char.isprintable() else " " for char in text[: _EXCERPT + 1])
    return clean if len(clean) <= _EXCERPT else f"{clean[:_EXCERPT]}…"


# ------------------------------------------------------------------ exceptions


def no_answer(err: Exception, peer: Peer, now: dt.datetime) -> TransportError:
    """The error for what aiohttp, asyncio or ssl raised instead of an answer."""
    if isinstance(err, aiohttp.ClientHttpProxyError):
        return NotKubernetes(
            f"{_status_line(err.status)} came from the proxy {peer.proxy}, not from {peer.address}",
            address=peer.address,
            status=err.status,
            hint="allow the address at the proxy, or leave the proxy out",
            by_proxy=True,
        )
    if isinstance(err, aiohttp.ClientProxyConnectionError):
        return ConnectFailed(f"no connection to the proxy {peer.proxy}: {_os_words(err.os_error)}", address=peer.proxy)
    tls = next(filter(_is_of_openssl, _chain(err)), None)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return _unverified(tls, peer, now)
    if isinstance(tls, ssl.SSLError):
        return _handshake(tls, peer)
    if isinstance(err, aiohttp.ClientConnectorDNSError):
        host = peer.address.rpartition(":")[0]
        return ConnectFailed(
            f"the name {host} cannot be resolved", address=peer.address, hint="check the name and this machine's DNS"
        )
    if isinstance(err, TimeoutError):
        return ConnectFailed(f"{peer.address} did not answer in time", address=peer.address)
    if isinstance(err, aiohttp.ClientConnectorError):
        return ConnectFailed(f"no connection to {peer.address}: {_os_words(err.os_error)}", address=peer.address)
    if isinstance(err, aiohttp.ClientResponseError):
        return NotKubernetes(
            f"{peer.address} does not speak HTTP as an API server does",
            address=peer.address,
            hint="check host and port: another service listens there",
        )
    return ConnectFailed(f"{peer.address} closed the connection before it had answered", address=peer.address)


def _is_of_openssl(err: BaseException) -> bool:
    """aiohttp's own errors are ``ssl.SSLError`` by inheritance and lack ``verify_code`` and ``reason``."""
    return isinstance(err, ssl.SSLError) and not isinstance(err, aiohttp.ClientError)


def _chain(err: BaseException) -> Iterator[BaseException]:
    """``err`` and what it was raised from or wraps, nearest first."""
    seen: set[int] = set()
    following: BaseException | None = err
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        inner = getattr(following, "os_error", None)
        if isinstance(inner, BaseException) and id(inner) not in seen:
            yield inner
        following = following.__cause__ or following.__context__


_OS_WORDS = {
    errno.ECONNREFUSED: "connection refused", errno.EHOSTUNREACH: "host unreachable",
    errno.ENETUNREACH: "network unreachable", errno.ETIMEDOUT: "connection timed out",
    errno.ECONNRESET: "connection reset", errno.EACCES: "not permitted by this machine",
    errno.EMFILE: "too many open files", errno.EADDRNOTAVAIL: "no free local port",
}  # fmt: skip


def _os_words(err: OSError) -> str:
    if isinstance(err, socket.gaierror):
        return "the name cannot be resolved"
    if isinstance(err, ConnectionResetError):
        return "connection reset"
    return _OS_WORDS.get(err.errno or 0, err.strerror or type(err).__name__)


# X509_V_ERR_* of openssl/x509_vfy.h.
_NOT_YET_VALID, _EXPIRED, _HOSTNAME, _ADDRESS = 9, 10, 62, 64
_UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21})


def _unverified(err: ssl.SSLCertVerificationError, peer: Peer, now: dt.datetime) -> TLSFailed:
    clock = Time.of(now)
    if err.verify_code == _EXPIRED:
        what, hint = f"has expired (it is {clock} here)", "renew it on the server, or set this machine's clock"
    elif err.verify_code == _NOT_YET_VALID:
        what, hint = f"is not yet valid (it is {clock} here)", "set this machine's clock"
    elif err.verify_code in (_HOSTNAME, _ADDRESS):
        host = peer.address.rpartition(":")[0]
        what, hint = f"is not for {host}", "use a name or address that the certificate has, or tls-server-name"
    elif err.verify_code in _UNKNOWN_ISSUER:
        what = "comes from a certificate authority that is not trusted here"
        hint = "give the cluster's CA bundle; if it is the right one, something in between answers for the server"
    else:
        what, hint = f"cannot be verified: {err.verify_message}", ""
    return TLSFailed(f"the certificate of {peer.address} {what}", address=peer.address, hint=hint)


_ALERTS = {
    "BAD_CERTIFICATE": "the client certificate is not accepted",
    "UNSUPPORTED_CERTIFICATE": "the client certificate is of a kind that is not accepted",
    "CERTIFICATE_REVOKED": "the client certificate is revoked",
    "CERTIFICATE_EXPIRED": "the client certificate has expired",
    "CERTIFICATE_UNKNOWN": "the client certificate is not accepted",
    "UNKNOWN_CA": "the client certificate's authority is not known there",
    "ACCESS_DENIED": "the client certificate has no access",
    "CERTIFICATE_REQUIRED": "a client certificate is required",
    "PROTOCOL_VERSION": "no TLS version that both sides speak",
    "HANDSHAKE_FAILURE": "no parameters that both sides accept",
    "UNRECOGNIZED_NAME": "the server name is not served there",
}
_ALERT = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_ALERT_(\w+)|(?:TLSV1|TLSV13)_(UNRECOGNIZED_NAME)", re.ASCII)
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE"})


def _handshake(err: ssl.SSLError, peer: Peer) -> TLSFailed:
    reason = err.reason or ""
    if reason in _NO_TLS:
        return TLSFailed(
            f"{peer.address} does not speak TLS",
            address=peer.address,
            hint="check the port; plain HTTP is not an API server's",
        )
    alert = _ALERT.fullmatch(reason)
    if alert is not None:
        word = alert[1] or alert[2]
        what = _ALERTS.get(word, word.replace("_", " ").lower())
        return TLSFailed(f"{peer.address} refused the TLS connection: {what}", address=peer.address)
    what = reason.replace("_", " ").lower() or "the handshake failed"
    return TLSFailed(f"no TLS connection to {peer.address}: {what}", address=peer.address)


# ------------------------------------------------------------------ denials


class Denial(msgspec.Struct, frozen=True):
    """What an API server says about a request that is not allowed: who asked, and what right is missing."""

    user: str
    verb: str
    resource: str = ""
    api_group: str = ""
    namespace: str = ""
    path: str = ""


# k8s.io/apiserver endpoints/handlers/responsewriters/errors.go (Kubernetes 1.36).
_DENIED = re.compile(
    r'User "((?:[^"\\]|\\.)*)" cannot ([a-z*]+) '
    r'(?:path "([^"]*)"|resource "([^"]*)" in API group "([^"]*)"(?: in the namespace "([^"]*)"| at the cluster scope))'
)


def denial_of(status: Status) -> Denial | None:
    """The parts of a 403's message, or None when it is not authorization's."""
    if status.code != 403:
        return None
    found = _DENIED.search(status.message[:4096])
    if found is None:
        return None
    user, verb, path, resource, group, namespace = (html.unescape(part or "") for part in found.groups())
    return Denial(user, verb, resource, group, namespace, path)


_REFUSED_BY = re.compile(r"Connect call failed \('([0-9.]+)', ([0-9]+)\)", re.ASCII)


def in_words_of_go(err: BaseException) -> str:
    """Why there was no answer, as Go's HTTP client says it, for what Kubernetes hands on to its own clients."""
    for each in _chain(err):
        if (
            isinstance(each, ssl.SSLCertVerificationError)
            and _is_of_openssl(each)
            and each.verify_code in _UNKNOWN_ISSUER
        ):
            return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        if isinstance(each, TimeoutError):
            return "context deadline exceeded"
        if isinstance(each, OSError) and (found := _REFUSED_BY.search(str(each))):
            words = {errno.ECONNREFUSED: "connect: connection refused", errno.EHOSTUNREACH: "connect: no route to host"}
            return f"dial tcp {found[1]}:{found[2]}: {words.get(each.errno or 0, 'connect: ' + _os_words(each))}"
        if isinstance(each, ConnectionResetError):
            return "EOF"
        if isinstance(each, aiohttp.ClientConnectorDNSError):
            return f"dial tcp: lookup {each.host}: no such host"
    return str(err)
