"""TokenReview and SelfSubjectReview (pkg/registry/authentication; Kubernetes 1.36)."""

from __future__ import annotations

import msgspec

from kubevouch.api import authentication_v1 as v1
from kubevouch.authentication.interface import Authentication, AuthenticationError, TokenAuthenticator, UserInfo
from kubevouch.machinery import errors
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.text.times import Time
from kubevouch.registry.interface import Context, Validate
from kubevouch.wellknown import AUTHENTICATED_GROUP

INVALID_TOKEN = "invalid bearer token"


def wire_user(user: UserInfo) -> v1.UserInfo:
    return v1.UserInfo(
        username=user.name,
        uid=user.uid,
        groups=list(user.groups),
        extra={key: list(values) for key, values in user.extra.items()},
    )


class Reviews:
    """Both reviews over one token authenticator: the full one, bootstrap tokens included."""

    def __init__(self, tokens: TokenAuthenticator) -> None:
        self._tokens = tokens

    async def token(
        self, _ctx: Context, namespace: str, _name: str, review: v1.TokenReview, validate: Validate
    ) -> v1.TokenReview:
        if namespace:
            raise errors.bad_request(f"namespace is not allowed on this type: {namespace}")
        if not review.spec.token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        await validate(review)
        status = v1.TokenReviewStatus(error=INVALID_TOKEN)
        try:
            found = await self._tokens.authenticate_token(review.spec.token, tuple(review.spec.audiences))
        except AuthenticationError:
            found = None
        if found is not None:
            status = _status(found, review.spec.audiences)
        return msgspec.structs.replace(review, status=status)

    async def self_subject(
        self, ctx: Context, _namespace: str, _name: str, review: v1.SelfSubjectReview, validate: Validate
    ) -> v1.SelfSubjectReview:
        """Who the requester is; the metadata that comes in is not kept."""
        await validate(review)
        named: v1.SelfSubjectReview = replace_metadata(review, creation_timestamp=Time.of(ctx.now))
        status = v1.SelfSubjectReviewStatus(user_info=wire_user(ctx.user))
        return msgspec.structs.replace(named, status=status)


def _status(found: Authentication, _audiences: list[str]) -> v1.TokenReviewStatus:
    user = found.user
    groups = user.groups if AUTHENTICATED_GROUP in user.groups else (*user.groups, AUTHENTICATED_GROUP)
    shown = UserInfo(user.name, user.uid, groups, user.extra)
    return v1.TokenReviewStatus(authenticated=True, user=wire_user(shown), audiences=list(found.audiences))
