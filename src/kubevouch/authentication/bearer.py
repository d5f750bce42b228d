"""Bearer tokens in the Authorization header.

Source: k8s.io/apiserver/pkg/authentication/request/bearertoken (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from kubevouch.authentication.aggregate import aggregate
from kubevouch.authentication.interface import (
    Authentication,
    AuthenticationError,
    Credentials,
    TokenAuthenticator,
)
from kubevouch.records.token_bounds import covers

INVALID_TOKEN = "invalid bearer token"
EXTRA_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"

_GO_WHITE_SPACE = " \t\n\v\f\r\x85\xa0"


def bearer_token_of(authorization: str | None) -> str:
    """The token in an Authorization header, or an empty text: other schemes are no credential, not a bad one."""
    scheme, _, rest = (authorization or "").strip(_GO_WHITE_SPACE).partition(" ")
    return rest.partition(" ")[0] if scheme.lower() == "bearer" else ""


def warnings_for(authorization: str | None) -> tuple[str, ...]:
    """What to tell a client whose header looks like a bearer token and is ignored all the same."""
    parts = (authorization or "").strip(_GO_WHITE_SPACE).split(" ", 2)
    if len(parts) == 3 and parts[0].lower() == "bearer" and not parts[1]:
        return (EXTRA_SPACE,)
    return ()


class BearerAuthenticator:
    """Asks each token authenticator in order. A token that nobody recognises is a bad credential.

    Args:
        authenticators: one a kind of token; service account tokens come before bootstrap tokens.
    """

    def __init__(self, authenticators: Sequence[TokenAuthenticator]) -> None:
        self._authenticators = tuple(authenticators)

    async def authenticate(self, credentials: Credentials) -> Authentication | None:
        bearer_token = bearer_token_of(credentials.authorization)
        if not bearer_token:
            return None
        authentication = await self._find(bearer_token)
        if authentication.source_ranges and not covers(authentication.source_ranges, credentials.source):
            raise AuthenticationError(
                f"the token of {authentication.user.name} is not accepted from {credentials.source}"
            )
        return authentication

    async def authenticate_token(self, bearer_token: str, audiences: Sequence[str] = ()) -> Authentication:
        """Who the token stands for; what a TokenReview asks.

        Raises:
            AuthenticationError: no authenticator accepts it, or only from some addresses: a review does not say where
                the token came from.
        """
        authentication = await self._find(bearer_token, audiences)
        if authentication.source_ranges:
            raise AuthenticationError(f"the token of {authentication.user.name} is accepted from some addresses only")
        return authentication

    async def _find(self, bearer_token: str, audiences: Sequence[str] = ()) -> Authentication:
        errors = []
        for authenticator in self._authenticators:
            try:
                authentication = await authenticator.authenticate_token(bearer_token, audiences)
            except AuthenticationError as err:
                errors.append(str(err))
                continue
            if authentication is not None:
                return authentication
        if errors:
            raise AuthenticationError(aggregate(errors))
        raise AuthenticationError(INVALID_TOKEN)
