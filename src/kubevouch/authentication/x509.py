"""TLS client certificates as identities.

Source: k8s.io/apiserver/pkg/authentication/request/x509 (Kubernetes 1.36); the rules are in
``pki/client_certificate.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubevouch.authentication.client_chain import ClientChainVerifier
from kubevouch.authentication.interface import Authentication, AuthenticationError, Credentials, UserInfo
from kubevouch.pki.client_certificate import TrustAnchors, identify
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.revocation.revocations import Mark, marks_of
from kubevouch.util.clock import Clock
from kubevouch.wellknown import CREDENTIAL_ID_EXTRA

METHOD = "x509"

Revocation = Callable[[Sequence[Mark]], str]
"""Why a client with certificates of these marks is refused, or an empty text."""


class X509Authenticator:
    """The user is the common name, the groups are the organizations of a certificate that the client CA has issued.

    A certificate that does not verify is a bad credential: such a request is never anonymous. A valid one without a
    common name names nobody and leaves the decision to others.

    Args:
        anchors: the client CA bundle.
        clock: decides about dates, at every request.
        revoked: why a certificate no longer counts, or an empty text. Asked at every request and never remembered, so
            that a revocation also reaches open connections.
    """

    def __init__(self, anchors: TrustAnchors, clock: Clock, revoked: Revocation | None = None) -> None:
        self._verifier = ClientChainVerifier(anchors, clock, _conclude)
        self._revoked = revoked

    def replace_anchors(self, anchors: TrustAnchors) -> None:
        """Trust another client CA bundle from the next request on."""
        self._verifier.replace_anchors(anchors)

    async def authenticate(self, credentials: Credentials) -> Authentication | None:
        if not credentials.peer_chain:
            return None
        found, marks = self._verifier.verify(credentials.peer_chain).conclusion
        if self._revoked is not None:
            refuse_revoked(self._revoked, marks)
        return found


def refuse_revoked(revoked: Revocation, marks: Sequence[Mark]) -> None:
    """Raises :class:`AuthenticationError` for a client whose certificate is revoked."""
    why = revoked(marks)
    if why:
        raise AuthenticationError(f"client certificate is revoked: {why}")


def _conclude(chain: Sequence[Certificate]) -> tuple[Authentication | None, tuple[Mark, ...]]:
    return _user_of(chain[0]), marks_of(chain)


def _user_of(certificate: Certificate) -> Authentication | None:
    identity = identify(certificate)
    if identity is None:
        return None
    extra = {CREDENTIAL_ID_EXTRA: (identity.credential_id,)}
    user = UserInfo(identity.username, identity.uid, identity.groups, extra)
    return Authentication(user, METHOD, expires=certificate.not_after, credential=f"serial {certificate.serial:x}")
