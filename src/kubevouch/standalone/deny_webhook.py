"""The listener that a kube-apiserver asks before each request: ``kubevouch revoke webhook``.

DenyWebhookError              it cannot begin here; ``hint`` says what to do
  DenyWebhookOptionsError     a file that it is given cannot be used

Of several, each answers: whoever stood by for a Lease would let revoked certificates pass meanwhile.
"""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from kubevouch.api.authorization_v1 import SubjectAccessReview, SubjectAccessReviewStatus
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, SUBJECT_ACCESS_REVIEWS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import CertificateRevocation
from kubevouch.authentication.client_chain import ClientChainVerifier
from kubevouch.authentication.interface import AuthenticationError
from kubevouch.client.cache.informer import ChangeHandler, InformerFactory, SharedInformer
from kubevouch.client.rest_config import RESTConfig
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.codec.json_codec import UnmarshalError
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.revocation import deny
from kubevouch.revocation.node_records import issued_at
from kubevouch.revocation.revocations import Revocations
from kubevouch.server.edge.https import HTTPSServer
from kubevouch.server.edge.tls import ServingFiles, server_context, why_unusable
from kubevouch.server.request import NOT_FOUND, BytesResult, Handler, Request, Result
from kubevouch.standalone import network
from kubevouch.util.clock import Clock
from kubevouch.util.files import read_regular
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import Supervisor

log = get_logger("standalone.deny_webhook")

PATH = "/authorize"
DEFAULT_PORT = 10268
MAX_REVIEW = 1 << 20
"""Bytes. A user may have a header's worth of groups and extra."""
MAX_REMEMBERED = 50_000
"""Certificates of which it is known when they were issued."""
_GRACE_SECONDS = 2.0


class DenyWebhookError(Exception):
    """It cannot begin here; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class DenyWebhookOptionsError(DenyWebhookError):
    """A file that it is given cannot be used."""


class DenyWebhookOptions(msgspec.Struct, frozen=True):
    """Args: ``client_ca``: whose certificates may ask; None lets everybody ask that reaches the port."""

    bind_address: str
    port: int
    files: tuple[Path, Path]
    client_ca: Path | None = None


class Issued:
    """When certificates were issued, out of the cluster's requests; as long as they are there, and a while longer."""

    def __init__(self) -> None:
        self._moments: dict[bytes, dt.datetime] = {}

    def get(self, fingerprint: bytes) -> dt.datetime | None:
        return self._moments.get(fingerprint)

    def _note(self, csr: CertificateSigningRequest) -> None:
        if not csr.status.certificate:
            return
        try:
            leaf = x509_certificate.parse_bundle(csr.status.certificate)[0]
        except ParseError:
            return
        self._moments.setdefault(leaf.fingerprint(), issued_at(leaf))
        if len(self._moments) > MAX_REMEMBERED:
            del self._moments[next(iter(self._moments))]

    def on_add(self, obj: CertificateSigningRequest, *, initial: bool) -> None:  # noqa: ARG002
        self._note(obj)

    def on_update(self, old: CertificateSigningRequest, new: CertificateSigningRequest) -> None:  # noqa: ARG002
        self._note(new)

    def on_delete(self, obj: CertificateSigningRequest, *, missed: bool) -> None:
        """What was issued stays issued."""


def build_deny_webhook(
    revocations: Revocations, issued: Issued, clock: Clock, client_anchors: TrustAnchors | None = None
) -> Handler:
    """Answers SubjectAccessReviews at :data:`PATH`, and ``/readyz``."""
    verifier = None if client_anchors is None else ClientChainVerifier(client_anchors, clock, lambda chain: chain[0])

    async def serve(request: Request) -> Result:
        path = request.path.partition("?")[0]
        if path in ("/readyz", "/livez", "/healthz"):
            ready = revocations.has_loaded or path == "/livez"
            return BytesResult(b"ok" if ready else b"not loaded", "text/plain", 200 if ready else 500)
        if path != PATH or request.method != "POST":
            return NOT_FOUND
        if verifier is not None:
            try:
                verifier.verify(request.credentials.peer_chain or (b"",))
            except AuthenticationError as err:
                log.warning("somebody else asks", err=str(err), source=request.credentials.source)
                return BytesResult(b"the API server's client certificate is expected\n", "text/plain", 401)
        if not revocations.has_loaded:
            # What the API server makes of it is its failurePolicy.
            return BytesResult(b"what is revoked is not loaded yet\n", "text/plain", 503)
        try:
            review = json_codec.decode(await request.read_body(MAX_REVIEW), SubjectAccessReview)
        except UnmarshalError as err:
            return BytesResult(f"a SubjectAccessReview is expected: {err}\n".encode(), "text/plain", 400)
        reason = deny.why(review.spec, revocations, issued.get)
        if reason:
            log.info("denied", user=review.spec.user, reason=reason)
        status = SubjectAccessReviewStatus(allowed=False, denied=bool(reason), reason=reason)
        resource = SUBJECT_ACCESS_REVIEWS
        body = json_codec.encode(SubjectAccessReview(spec=review.spec, status=status))
        return BytesResult(json_codec.with_type_meta(body, resource.kind, resource.api_version), "application/json")

    return serve


def _followed(informer: SharedInformer[CertificateRevocation]) -> Revocations:
    """Loaded once the informer is. The API server that is read may be the one that asks: both begin in any order."""
    found = Revocations()

    def changed(obj: CertificateRevocation, gone: bool) -> None:
        found.changed(obj.metadata.name, None if gone else obj)

    informer.add_handler(ChangeHandler(changed), resync_seconds=0)
    found.loaded = lambda: informer.synced
    return found


@asynccontextmanager
async def running(config: RESTConfig, options: DenyWebhookOptions, clock: Clock) -> AsyncIterator[int]:
    """Listen inside the block; the port.

    Raises:
        DenyWebhookError
    """
    files = ServingFiles(*options.files)
    try:
        context = server_context(files)
    except (OSError, ssl.SSLError) as err:
        why = why_unusable(files, err)
        raise DenyWebhookOptionsError(
            f"the serving certificate and key cannot be used: {why}", "see --tls-cert-file, --tls-private-key-file"
        ) from err
    try:
        anchors = None
        if options.client_ca is not None:
            anchors = TrustAnchors.from_pem(read_regular(options.client_ca, MAX_REVIEW))
    except (OSError, ParseError) as err:
        why = (err.strerror or str(err)).lower() if isinstance(err, OSError) else str(err)
        raise DenyWebhookOptionsError(f"{options.client_ca} is no CA file: {why}", "see --client-ca-file") from err
    try:
        sockets = network.bind(options.bind_address, options.port)
    except OSError as err:
        where = f"{options.bind_address}:{options.port}"
        raise DenyWebhookError(
            f"cannot listen on {where}: {(err.strerror or str(err)).lower()}", "choose another --port"
        ) from err
    async with config.client(component="deny-webhook", clock=clock) as client:
        informers = InformerFactory(client, clock)
        revocations = _followed(informers.informer(CERTIFICATE_REVOCATIONS))
        issued = Issued()
        informers.informer(CERTIFICATE_SIGNING_REQUESTS).add_handler(issued, resync_seconds=0)
        server = HTTPSServer(build_deny_webhook(revocations, issued, clock, anchors), clock)
        async with Supervisor(clock) as tasks:
            tasks.start("informers", informers.run)
            await server.start(sockets, context)
            try:
                yield sockets[0].getsockname()[1]
            finally:
                await server.close(_GRACE_SECONDS)
