"""``nodes/{name}/proxy``: requests to a kubelet, with the API server's own certificate.

A Node's status is what its kubelet says, its addresses too: whoever has become one node could name another's address,
and have requests meant for it, and allowed for it, answered there. So the kubelet is not only verified with the
cluster's CA and by its address, as kube-apiserver does it where it is given a CA: its certificate has to be that
node's, before anything is sent.

Source: pkg/registry/core/node/strategy.go, ResourceLocation, and …/rest/subresources.go (Kubernetes 1.36). Another port
than the kubelet's, upgrades and streams without end are left out: nothing here runs to attach to.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import http.client
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.nodes import EXTERNAL_IP, HOSTNAME, INTERNAL_IP
from kubevouch.client.interface import ClientConfigurationError
from kubevouch.client.tls import ClientTLS, client_context
from kubevouch.machinery import errors
from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import ParseError
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.x509 import x509_certificate
from kubevouch.server.request import BytesResult, Request, Result

KIND = "NodeProxyOptions"
VERBS = ("create", "delete", "get", "patch", "update")
MAX_ANSWER = 16 * 1024 * 1024
SECONDS = 30.0
_CONNECT_SECONDS = 5.0
_AT_ONCE = 8
_MAX_BODY = 3 * 1024 * 1024
_PIECE = 64 * 1024
_KUBELET_PORT = 10250
# kube-apiserver's --kubelet-preferred-address-types; the names that need a resolver come last.
_PREFERRED = (INTERNAL_IP, EXTERNAL_IP, HOSTNAME)
_PASSED_ON = ("Accept", "Content-Type", "User-Agent")


class _Refused(Exception):
    """The kubelet was not asked, or what it says is not passed on."""


_FAILURES = (_Refused, ClientConfigurationError, ParseError, OSError, http.client.HTTPException, ValueError)


@dataclass(frozen=True, slots=True)
class _Call:
    node_name: str
    host: str
    port: int
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class NodeProxy:
    """Passes requests on to kubelets.

    Args:
        credential: what the server shows to kubelets, and trusts them by; asked for at each request.
        seconds: after which nobody waits for a kubelet any longer.
    """

    def __init__(
        self,
        node_named: Callable[[str], Awaitable[Node]],
        credential: Callable[[], ClientTLS],
        *,
        seconds: float = SECONDS,
    ) -> None:
        self._node_named = node_named
        self._credential = credential
        self._seconds = seconds
        # A kubelet that takes its time holds one of these, and nothing else.
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def serve(self, request: Request) -> Result:
        """Raises APIStatusError: 404 for a Node that is not there, 503 for a kubelet that is not reached or not it."""
        info = request.target
        if info.verb not in VERBS:
            raise errors.method_not_allowed()
        name, _, port = info.name.partition(":")
        node = await self._node_named(name)
        host, kubelet_port = _address_of(node)
        if port not in ("", str(kubelet_port)):
            raise errors.bad_request(f"invalid node request {quote(info.name)}: only the kubelet's port is proxied to")
        query = f"?{request.query.raw}" if request.query.raw else ""
        # /api/v1/nodes/NAME/proxy/REST, as it was sent.
        *_, rest = [*request.path.split("/", 6), ""][:7]
        if request.method == "GET" and request.path.count("/") < 6:
            return BytesResult(b"", "", 301, {"Location": f"{request.path}/{query}"})
        headers = {each: request.headers[each] for each in _PASSED_ON if each in request.headers}
        body = await request.read_body(_MAX_BODY)
        call = _Call(name, host, kubelet_port, request.method, f"/{rest}{query}", headers, body)
        async with self._turns:
            try:
                return await _asked(call, self._credential, self._seconds)
            except _FAILURES as err:
                raise errors.service_unavailable(f"error trying to reach service: {err}") from err


def _address_of(node: Node) -> tuple[str, int]:
    found = [each for each in node.status.addresses if each.type in _PREFERRED and each.address]
    if not found:
        why = "no preferred addresses found; known addresses: []"
        raise errors.service_unavailable(f"error trying to reach service: {why}")
    found.sort(key=lambda each: _PREFERRED.index(each.type))
    return found[0].address, node.status.daemon_endpoints.kubelet_endpoint.port or _KUBELET_PORT


async def _asked(call: _Call, credential: Callable[[], ClientTLS], seconds: float) -> BytesResult:
    """In a thread of its own: a kubelet decides how slowly it answers, and the loop's threads are for everybody's work.

    After ``seconds`` nobody waits any longer, and the connection is cut: that ends the thread. No exit waits for it.

    Raises:
        _Refused: and what the standard library does.
    """
    connection = _Connection(call.host, call.port, timeout=_CONNECT_SECONDS, context=client_context(credential()))
    answered: concurrent.futures.Future[BytesResult] = concurrent.futures.Future()
    answered.set_running_or_notify_cancel()

    def work() -> None:
        try:
            answered.set_result(_ask(call, connection, seconds))
        except _FAILURES as err:
            answered.set_exception(err)
        finally:
            if not answered.done():
                answered.set_exception(_Refused("the request to the kubelet ended without an answer"))

    threading.Thread(target=work, name="node-proxy", daemon=True).start()
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            return await asyncio.wrap_future(answered)
    except TimeoutError:
        if not deadline.expired():  # it is the socket's, of a kubelet that is not reached
            raise
        raise _Refused(f"the kubelet takes more than {seconds:g} s to answer") from None
    finally:
        connection.cut()


class _Connection(http.client.HTTPSConnection):
    """Can be cut from another thread, also when an answer without a length has taken its socket over."""

    _wire: socket.socket | None = None
    _is_cut = False

    def connect(self) -> None:
        super().connect()
        self._wire = self.sock
        if self._is_cut:
            raise _Refused("nobody waits for the kubelet any longer")

    def cut(self) -> None:
        self._is_cut = True
        if self._wire is not None:
            with suppress(OSError):
                self._wire.shutdown(socket.SHUT_RDWR)


def _ask(call: _Call, connection: _Connection, seconds: float) -> BytesResult:
    """In a thread. Raises what the standard library does, and :class:`_Refused`."""
    try:
        connection.connect()
        assert isinstance(connection.sock, ssl.SSLSocket)
        _verify_is(call.node_name, connection.sock)
        # Longer than anybody waits: of two limits that end at once, either might have told its own words.
        connection.sock.settimeout(2 * seconds)
        connection.request(call.method, call.url, call.body or None, dict(call.headers))
        with connection.getresponse() as answer:
            if not 200 <= answer.status < 600:
                raise _Refused(f"the kubelet answers with the status {answer.status}")
            body = bytearray()
            while piece := answer.read1(_PIECE):
                body += piece
                if len(body) > MAX_ANSWER:
                    raise _Refused(f"the kubelet answers with more than {MAX_ANSWER} bytes")
            content_type = answer.headers.get("Content-Type", "")
            if not content_type.isascii() or not content_type.isprintable():
                content_type = ""  # it would end our own answer
            return BytesResult(bytes(body), content_type or "application/octet-stream", answer.status)
    finally:
        connection.close()


def _verify_is(node_name: str, connection: ssl.SSLSocket) -> None:
    """Raises :class:`_Refused` unless the verified certificate is that node's."""
    leaf = x509_certificate.parse_der(connection.getpeercert(binary_form=True) or b"")
    name = leaf.subject.common_name
    if node_name_of(name) != node_name:
        raise _Refused(f"the certificate of the kubelet is for {quote(name)}, not for node {node_name}")
