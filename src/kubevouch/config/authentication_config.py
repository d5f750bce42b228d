"""apiserver.config.k8s.io AuthenticationConfiguration: whose tokens count, and who may come without a credential.

Source: k8s.io/apiserver/pkg/apis/apiserver/types.go (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.machinery.declaration import Struct, always, named, wire

KIND = "AuthenticationConfiguration"
MATCH_ANY = "MatchAny"


class Issuer(Struct):
    """Who signs the tokens, and for whom."""

    url: Annotated[str, wire(1, "The iss claim; OpenID Connect Discovery begins here.")] = ""
    discovery_url: Annotated[str, wire(2, "The discovery document, if not at the issuer.")] = named("discoveryURL")
    certificate_authority: Annotated[str, wire(3, "PEM of whom to trust for discovery; empty is the machine's.")] = ""
    audiences: Annotated[list[str], wire(4, "Whom a token has to be meant for.")] = []
    audience_match_policy: Annotated[str, wire(5, "MatchAny, the only one there is.")] = ""
    egress_selector_type: Annotated[str, wire(6, "Not supported.")] = ""


class ClaimValidationRule(Struct):
    """What the claims have to say."""

    claim: Annotated[str, wire(1, "A claim that is required.")] = ""
    required_value: Annotated[str, wire(2, "Its value.")] = ""
    expression: Annotated[str, wire(3, "CEL over claims; has to be true.")] = ""
    message: Annotated[str, wire(4, "What to log when it is not.")] = ""


class PrefixedClaimOrExpression(Struct):
    """From where a user name or groups come."""

    claim: Annotated[str, wire(1, "The claim.")] = ""
    prefix: Annotated[str | None, wire(2, "What is put before its value.")] = None
    expression: Annotated[str, wire(3, "CEL over claims.")] = ""


class ClaimOrExpression(Struct):
    """From where a UID comes."""

    claim: Annotated[str, wire(1, "The claim.")] = ""
    expression: Annotated[str, wire(2, "CEL over claims.")] = ""


class ExtraMapping(Struct):
    """One key of a user's extra."""

    key: Annotated[str, wire(1, "A lower-case path behind a domain.")] = ""
    value_expression: Annotated[str, wire(2, "CEL over claims: a text or a list of texts.")] = ""


class ClaimMappings(Struct):
    """How claims become a user."""

    username: Annotated[PrefixedClaimOrExpression, wire(1, "The name.")] = always(PrefixedClaimOrExpression)
    groups: Annotated[PrefixedClaimOrExpression, wire(2, "The groups.")] = always(PrefixedClaimOrExpression)
    uid: Annotated[ClaimOrExpression, wire(3, "The UID.")] = always(ClaimOrExpression)
    extra: Annotated[list[ExtraMapping], wire(4, "What else is known.")] = []


class UserValidationRule(Struct):
    """What has to hold of the user that the claims came to."""

    expression: Annotated[str, wire(1, "CEL over user; has to be true.")] = ""
    message: Annotated[str, wire(2, "What to log when it is not.")] = ""


class JWTAuthenticator(Struct):
    """One issuer."""

    issuer: Annotated[Issuer, wire(1, "The issuer.")] = always(Issuer)
    claim_validation_rules: Annotated[list[ClaimValidationRule], wire(2, "What the claims have to say.")] = []
    claim_mappings: Annotated[ClaimMappings, wire(3, "How they become a user.")] = always(ClaimMappings)
    user_validation_rules: Annotated[list[UserValidationRule], wire(4, "What has to hold of the user.")] = []


class AnonymousAuthCondition(Struct):
    """Where anonymous requests may go."""

    path: Annotated[str, wire(1, "A URL path, exactly.")] = ""


class AnonymousAuthConfig(Struct):
    """Requests without a credential."""

    enabled: Annotated[bool, wire(1, "Whether they are taken for anonymous.")] = always(bool)
    conditions: Annotated[list[AnonymousAuthCondition], wire(2, "If given, for these paths only.")] = []


class AuthenticationConfiguration(Struct):
    """The file."""

    jwt: Annotated[list[JWTAuthenticator], wire(1, "The issuers.")] = []
    anonymous: Annotated[AnonymousAuthConfig | None, wire(2, "Requests without a credential.")] = None
