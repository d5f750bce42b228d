"""All authenticators in their order.

Source: k8s.io/apiserver/pkg/authentication/request/union, pkg/kubeapiserver/authenticator/config.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from kubevouch.authentication.aggregate import aggregate
from kubevouch.authentication.anonymous import AnonymousAuthenticator
from kubevouch.authentication.group_adder import with_authenticated_group
from kubevouch.authentication.interface import Authentication, AuthenticationError, Authenticator, Credentials

NO_CREDENTIAL = "the request has no credential that this server knows"


class UnionAuthenticator:
    """Front proxy, client certificate, bearer token, and at last the anonymous user.

    The first success counts. An error does not stop the others, but it is remembered: whoever presented something that
    does not hold is never taken for anonymous.

    Args:
        authenticators: those that prove an identity, in their order.
        anonymous: for requests without any credential; None answers them with 401.
    """

    def __init__(
        self, authenticators: Sequence[Authenticator], anonymous: AnonymousAuthenticator | None = None
    ) -> None:
        self._authenticators = tuple(authenticators)
        self._anonymous = anonymous

    async def authenticate(self, credentials: Credentials, path: str = "") -> Authentication:
        """Who sends a request for the URL path ``path``, with ``system:authenticated`` added.

        Raises:
            AuthenticationError: 401.
        """
        # Texts: an exception kept here would hold this frame, the frame it, and both the request with its body until a
        # collection of cycles. With a client certificate there is one for each request, from the front proxy's.
        errors = []
        for authenticator in self._authenticators:
            try:
                authentication = await authenticator.authenticate(credentials)
            except AuthenticationError as err:
                errors.append(str(err))
                continue
            if authentication is not None:
                return with_authenticated_group(authentication)
        if errors:
            raise AuthenticationError(aggregate(errors))
        if self._anonymous is not None:
            authentication = await self._anonymous.authenticate(credentials, path)
            if authentication is not None:
                return authentication
        raise AuthenticationError(NO_CREDENTIAL)
