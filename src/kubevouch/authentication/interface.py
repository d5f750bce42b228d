"""The contract of authenticators.

AuthenticationError       a credential was presented and is no good: 401 unless another authenticator accepts
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from kubevouch.records.token_bounds import Network


class UserInfo(msgspec.Struct, frozen=True):
    """Name, uid, groups and extra of whoever asks. ``groups`` keeps the authenticator's order."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class AuthenticationError(Exception):
    """A credential that was presented does not hold. The text is for the log, never for the client."""


class Credentials(msgspec.Struct, frozen=True):
    """What a request brings to prove who sends it.

    Args:
        peer_chain: DER certificates of the TLS client, leaf first, **not verified**; empty when there are none.
        authorization: the Authorization header, or None.
        headers: all request headers by lower-case name, each with its values in order.
        source: the address of the connection, for limits and logs.
    """

    peer_chain: tuple[bytes, ...] = ()
    authorization: str | None = None
    headers: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    source: str = ""


class Authentication(msgspec.Struct, frozen=True):
    """Who it is, and how that was established (``x509``, ``bootstrap-token``, ``anonymous`` …) for audit."""

    user: UserInfo
    method: str
    warnings: tuple[str, ...] = ()
    # For which of the audiences that were asked about a token is meant; empty for methods without audiences.
    audiences: tuple[str, ...] = ()
    # The addresses from which the credential counts; empty for any.
    source_ranges: tuple[Network, ...] = ()
    # When the certificate ends that established it.
    expires: dt.datetime | None = None
    # Which one it was, never the credential itself: a token's ID, a certificate's serial number.
    credential: str = ""


class Authenticator(Protocol):
    """Looks at one kind of credential."""

    async def authenticate(self, credentials: Credentials) -> Authentication | None:
        """Who it is, or None when the request has no credential of this kind.

        Raises:
            AuthenticationError: it has one, and it does not hold.
        """
        ...


class TokenAuthenticator(Protocol):
    """Looks at a bearer token."""

    async def authenticate_token(self, bearer_token: str, audiences: Sequence[str] = ()) -> Authentication | None:
        """Who the token stands for, or None when it is not a token of this kind.

        Raises:
            AuthenticationError: it is of this kind, and it does not hold.
        """
        ...
