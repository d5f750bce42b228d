"""A trusted proxy that has authenticated the user and names him in headers.

Source: k8s.io/apiserver/pkg/authentication/request/headerrequest (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kubevouch.authentication.client_chain import ClientChainVerifier
from kubevouch.authentication.impersonation import unescape_extra_key
from kubevouch.authentication.interface import Authentication, AuthenticationError, Credentials, UserInfo
from kubevouch.authentication.x509 import Revocation, refuse_revoked
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.revocation.revocations import Mark, marks_of
from kubevouch.util.clock import Clock

METHOD = "request-header"


class RequestHeaderOptions(msgspec.Struct, frozen=True):
    """Where the proxy puts what, and who may be one. Header names are compared without regard to case.

    Args:
        allowed_names: common names of proxies; empty allows everybody whom the CA has certified.
    """

    username_headers: tuple[str, ...] = ("X-Remote-User",)
    uid_headers: tuple[str, ...] = ("X-Remote-Uid",)
    group_headers: tuple[str, ...] = ("X-Remote-Group",)
    extra_header_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)
    allowed_names: tuple[str, ...] = ()


class RequestHeaderAuthenticator:
    """Believes the headers of whoever presents a certificate of the request-header CA.

    Every other client certificate is an error here, which the x509 authenticator behind this one may heal.

    Args:
        anchors: the request-header CA bundle.
        clock: decides about dates, at every request.
        options: header names and allowed proxies.
        revoked: asked at every request, as for other client certificates.
    """

    def __init__(
        self,
        anchors: TrustAnchors,
        clock: Clock,
        options: RequestHeaderOptions | None = None,
        revoked: Revocation | None = None,
    ) -> None:
        options = options or RequestHeaderOptions()
        self._revoked = revoked
        self._verifier = ClientChainVerifier(anchors, clock, _conclude)
        self._allowed_names = frozenset(options.allowed_names)
        self._username_headers = _lower(options.username_headers)
        self._uid_headers = _lower(options.uid_headers)
        self._group_headers = _lower(options.group_headers)
        self._extra_prefixes = _lower(options.extra_header_prefixes)

    def replace_anchors(self, anchors: TrustAnchors) -> None:
        """Trust another request-header CA bundle from the next request on."""
        self._verifier.replace_anchors(anchors)

    async def authenticate(self, credentials: Credentials) -> Authentication | None:
        if not credentials.peer_chain:
            return None
        name, marks = self._verifier.verify(credentials.peer_chain).conclusion
        if self._revoked is not None:
            refuse_revoked(self._revoked, marks)
        if self._allowed_names and name not in self._allowed_names:
            raise AuthenticationError(f"x509: subject with cn={name} is not in the allowed list")
        headers = credentials.headers
        username = _first(headers, self._username_headers)
        if not username:
            return None
        groups = tuple(value for header in self._group_headers for value in headers.get(header, ()) if value)
        user = UserInfo(username, _first(headers, self._uid_headers), groups, self._extra(headers))
        return Authentication(user, METHOD)

    def _extra(self, headers: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
        extra: dict[str, tuple[str, ...]] = {}
        for prefix in self._extra_prefixes:
            for header, values in headers.items():
                if header.startswith(prefix):
                    key = unescape_extra_key(header[len(prefix) :])
                    extra[key] = extra.get(key, ()) + tuple(values)
        return extra


def _conclude(chain: Sequence[Certificate]) -> tuple[str, tuple[Mark, ...]]:
    return chain[0].subject.common_name, marks_of(chain)


def _lower(headers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(header.lower() for header in headers)


def _first(headers: Mapping[str, Sequence[str]], names: tuple[str, ...]) -> str:
    """The first value of the first header that has one that is not empty."""
    for name in names:
        values = headers.get(name)
        if values and values[0]:
            return values[0]
    return ""
