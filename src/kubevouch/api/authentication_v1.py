"""authentication.k8s.io/v1: who somebody is, and tokens for service accounts. Nothing of it is stored.

Source: k8s.io/api/authentication/v1, pkg/apis/authentication (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from kubevouch.machinery import field
from kubevouch.machinery.declaration import ExtraValue, Int64, Struct, always, null, wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text.times import Time

GROUP = "authentication.k8s.io"

DEFAULT_TOKEN_SECONDS = 3600
_MIN_TOKEN_SECONDS = 600
_MAX_TOKEN_SECONDS = 1 << 32


class BoundObjectReference(Struct):
    """The object with whose end a token ends."""

    kind: Annotated[str, wire(1, "Pod, Node or Secret.")] = ""
    api_version: Annotated[str, wire(2, "Group and version of its kind.")] = ""
    name: Annotated[str, wire(3, "Its name.")] = ""
    uid: Annotated[str, wire(4, "Its UID.", proto_name="uID")] = ""


class TokenRequestSpec(Struct):
    """What token is wanted."""

    audiences: Annotated[
        list[str] | None, wire(1, "Who is meant to accept the token.", required=True, list_type="atomic")
    ] = null()
    expiration_seconds: Annotated[Int64 | None, wire(4, "How long it should hold; an hour if not given.")] = null()
    bound_object_ref: Annotated[BoundObjectReference | None, wire(3, "The token ends with this object.")] = null()


class TokenRequestStatus(Struct):
    """The token."""

    token: Annotated[str, wire(1, "The bearer token.", required=True)] = always(str)
    expiration_timestamp: Annotated[Time | None, wire(2, "When it ends.", required=True)] = null()


class TokenRequest(Object):
    """Asks for a token of a service account."""

    spec: Annotated[TokenRequestSpec, wire(2, "What token is wanted.", required=True)] = always(TokenRequestSpec)
    status: Annotated[TokenRequestStatus, wire(3, "The token.")] = always(TokenRequestStatus)


class UserInfo(Struct):
    """Who somebody is."""

    username: Annotated[str, wire(1, "The name.")] = ""
    uid: Annotated[str, wire(2, "Tells apart users that had the same name at other times.")] = ""
    groups: Annotated[list[str], wire(3, "The groups.", list_type="atomic")] = []
    extra: Annotated[dict[str, ExtraValue], wire(4, "What the authenticator knows besides.")] = {}


class TokenReviewSpec(Struct):
    """The token that is asked about."""

    token: Annotated[str, wire(1, "The bearer token.")] = ""
    audiences: Annotated[
        list[str], wire(2, "The audiences as which the asker takes the token.", list_type="atomic")
    ] = []


class TokenReviewStatus(Struct):
    """Whose the token is."""

    authenticated: Annotated[bool, wire(1, "True if the token is somebody's.")] = False
    user: Annotated[UserInfo, wire(2, "Whose it is.")] = always(UserInfo)
    audiences: Annotated[list[str], wire(4, "For which of the audiences it is.", list_type="atomic")] = []
    error: Annotated[str, wire(3, "Why it could not be checked.")] = ""


class TokenReview(Object):
    """Asks whose a bearer token is."""

    spec: Annotated[TokenReviewSpec, wire(2, "The token.", required=True)] = always(TokenReviewSpec)
    status: Annotated[TokenReviewStatus, wire(3, "Whose it is.")] = always(TokenReviewStatus)


class SelfSubjectReviewStatus(Struct):
    """Who asks."""

    user_info: Annotated[UserInfo, wire(1, "The asker.")] = always(UserInfo)


class SelfSubjectReview(Object):
    """Asks who one is oneself."""

    status: Annotated[SelfSubjectReviewStatus, wire(2, "Who asks.")] = always(SelfSubjectReviewStatus)


def default_token_request(request: TokenRequest) -> TokenRequest:
    """A token holds for an hour unless another time is asked for."""
    if request.spec.expiration_seconds is not None:
        return request
    spec = msgspec.structs.replace(request.spec, expiration_seconds=DEFAULT_TOKEN_SECONDS)
    return msgspec.structs.replace(request, spec=spec)


def validate_token_request(request: TokenRequest) -> list[FieldError]:
    """What is wrong with a TokenRequest after its defaults are set."""
    seconds = request.spec.expiration_seconds or 0
    if seconds < _MIN_TOKEN_SECONDS:
        why = "may not specify a duration less than 10 minutes"
    elif seconds > _MAX_TOKEN_SECONDS:
        why = "may not specify a duration larger than 2^32 seconds"
    else:
        return []
    return [field.invalid("spec.expirationSeconds", seconds, why)]
