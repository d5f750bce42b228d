"""Health and metrics of attached controllers, under the paths and rules of Kubernetes' components.

Whoever asks for more than health is asked for a token, and the cluster is asked who that is (TokenReview) and whether
they may (SubjectAccessReview of the path). Client certificates are not among the credentials here. Source:
k8s.io/apiserver pkg/server/options/{authentication,authorization}.go (Kubernetes 1.36).
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from kubevouch.agent.serving import SELF_SIGNED_VALIDITY
from kubevouch.authentication.anonymous import AnonymousAuthenticator
from kubevouch.authentication.bearer import BearerAuthenticator
from kubevouch.authentication.union import UnionAuthenticator
from kubevouch.authentication.webhook import WebhookTokenAuthenticator
from kubevouch.authorization.webhook import WebhookAuthorizer, WebhookSettings
from kubevouch.client.rest_config import RESTConfig
from kubevouch.client.webhook import Webhook
from kubevouch.pki import authority, keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.server.chain import chain
from kubevouch.server.edge.https import HTTPSServer
from kubevouch.server.edge.tls import ServingFiles, server_context, why_unusable
from kubevouch.server.filters.authentication import authentication
from kubevouch.server.filters.authorization import authorization
from kubevouch.server.health import Health
from kubevouch.server.metrics.catalog import Metrics, exposition
from kubevouch.server.request import NOT_FOUND, BytesResult, Handler, Request, Result
from kubevouch.server.request_info import parse
from kubevouch.standalone import network
from kubevouch.standalone.attached.options import AttachedError, AttachedOptionsError, ServingOptions
from kubevouch.util.clock import Clock
from kubevouch.util.files import write_new

COMPONENT = "kubevouch-controllers"
# k8s.io/apiserver's options for delegated reviews.
_REVIEW_SECONDS = 10.0
_REMEMBERED_SECONDS = 10.0
_GRACE_SECONDS = 2.0
_METRICS_PATH = "/metrics"


class Pages:
    """What is served: ``/healthz``, ``/livez`` and ``/readyz`` with a path for each check, and ``/metrics``."""

    def __init__(self, health: Sequence[Health], registry: CollectorRegistry) -> None:
        self._health = {each.name: each for each in health}
        self._registry = registry

    async def serve(self, request: Request) -> Result:
        path = request.target.path
        if request.method not in ("GET", "HEAD"):
            return NOT_FOUND
        if path == _METRICS_PATH:
            return BytesResult(*await exposition(self._registry, request.headers.get("Accept", "")))
        health = self._health.get(path.strip("/").partition("/")[0])
        return NOT_FOUND if health is None else await health.serve(request)


@asynccontextmanager
async def listening(
    pages: Pages, options: ServingOptions, authority_config: RESTConfig, clock: Clock
) -> AsyncIterator[int]:
    """Serve inside the block; the port, 0 for none.

    Raises:
        AttachedOptionsError, AttachedError: the settings cannot be meant, or the address is not to be had.
    """
    if options.port is None:
        yield 0
        return
    if options.is_plain and not network.is_loopback(options.bind_address):
        raise AttachedOptionsError(
            f"plain HTTP on {options.bind_address} would show metrics to whoever can reach it",
            "give --bind-address 127.0.0.1, or leave --plain-http out",
        )
    context = None if options.is_plain else _context(options, clock)
    sockets = _bound(options.bind_address, options.port)
    async with contextlib.AsyncExitStack() as stack:
        handler: Handler = pages.serve
        if not options.is_plain:
            handler = _guarded(handler, options, authority_config, clock, stack)
        server = HTTPSServer(_located(handler), clock)
        await server.start(sockets, context)
        stack.push_async_callback(server.close, _GRACE_SECONDS)
        yield sockets[0].getsockname()[1]


def _located(handler: Handler) -> Handler:
    async def serve(request: Request) -> Result:
        request.info = parse(request.method, request.path, request.query)
        return await handler(request)

    return serve


def _guarded(
    handler: Handler,
    options: ServingOptions,
    config: RESTConfig,
    clock: Clock,
    stack: contextlib.AsyncExitStack,
) -> Handler:
    def webhook(path: str) -> Webhook:
        at = replace(config, options=replace(config.options, server=config.options.server.rstrip("/") + path))
        return Webhook(at, clock, component=COMPONENT, seconds=_REVIEW_SECONDS)

    tokens = WebhookTokenAuthenticator(
        webhook("/apis/authentication.k8s.io/v1/tokenreviews"), "v1", (), _REMEMBERED_SECONDS, clock
    )
    settings = WebhookSettings("cluster", authorized_ttl=_REMEMBERED_SECONDS, unauthorized_ttl=_REMEMBERED_SECONDS)
    access = WebhookAuthorizer(webhook("/apis/authorization.k8s.io/v1/subjectaccessreviews"), settings, clock)
    stack.push_async_callback(tokens.close)
    stack.push_async_callback(access.close)
    who = UnionAuthenticator([BearerAuthenticator([tokens])], AnonymousAuthenticator())
    unseen = Metrics()
    guarded = chain([authentication(who, unseen, clock), authorization(access, unseen, clock)], handler)

    async def serve(request: Request) -> Result:
        return await (handler if _is_open(request.target.path, options.open_paths) else guarded)(request)

    return serve


def _is_open(path: str, open_paths: Sequence[str]) -> bool:
    """As ``--authorization-always-allow-paths``: exactly, or by their beginning.

    A check's own path is part of its page's: it tells no more than the page with ``verbose``.
    """
    for each in open_paths:
        if each.endswith("*") and path.startswith(each[:-1]):
            return True
        if path == each or path.startswith(f"{each}/"):
            return True
    return False


def _context(options: ServingOptions, clock: Clock) -> ssl.SSLContext:
    try:
        if options.files is not None:
            return server_context(ServingFiles(*options.files), options.tls)
        with tempfile.TemporaryDirectory(prefix="kubevouch-") as folder:
            return server_context(_own_pair(Path(folder), clock), options.tls)
    except (OSError, ssl.SSLError) as err:
        why = str(err) if options.files is None else why_unusable(ServingFiles(*options.files), err)
        raise AttachedOptionsError(
            f"the serving certificate and key cannot be used: {why}", "see --tls-cert-file, --tls-private-key-file"
        ) from err


def _own_pair(folder: Path, clock: Clock) -> ServingFiles:
    """Made anew at each start; OpenSSL reads files only, which are gone when it has."""
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    host = socket.gethostname().lower()
    names = SubjectAltNames(dns_names=(host, "localhost"), ip_addresses=(network.parsed("127.0.0.1"),))
    made = authority.create_self_signed(host, names, key, now=clock.now(), validity=SELF_SIGNED_VALIDITY)
    files = ServingFiles(folder / "tls.crt", folder / "tls.key")
    write_new(files.certificate, made.pem())
    write_new(files.key, keys.to_pem(key))
    return files


def _bound(address: str, port: int) -> list[socket.socket]:
    try:
        return network.bind(address, port)
    except OSError as err:
        raise AttachedError(
            f"cannot listen on {address}:{port}: {(err.strerror or str(err)).lower()}",
            "choose another --secure-port; 0 serves nothing",
        ) from err
