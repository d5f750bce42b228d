"""From the verified claims of a token to a user, by an issuer's mappings and rules.

Source: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc/oidc.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubevouch.authentication.interface import AuthenticationError, UserInfo
from kubevouch.cel.environment import EvaluationError, Program, Turn
from kubevouch.config.authentication_config import PrefixedClaimOrExpression
from kubevouch.config.authentication_config_rules import CLAIMS, USER, CompiledAuthenticator
from kubevouch.wellknown import CREDENTIAL_ID_EXTRA

Claims = Mapping[str, Any]


def user_of(authenticator: CompiledAuthenticator, claims: Claims, turn: Turn | None = None) -> UserInfo:
    """The user for claims whose signature, times and audience have been verified.

    1. user name  2. groups  3. UID  4. extra  5. required claims  6. claim rules  7. user rules

    Args:
        turn: bounds the expressions where others wait for this thread.

    Raises:
        AuthenticationError: a claim is missing or of a wrong type, or a rule does not hold.
        TurnOver: only with ``turn``.
    """
    mappings, compiled = authenticator.config.claim_mappings, authenticator.mappings
    user = UserInfo(
        name=_username(mappings.username, compiled.username, claims, turn),
        groups=_groups(mappings.groups, compiled.groups, claims, turn),
        uid=_uid(mappings.uid.claim, compiled.uid, claims, turn),
        extra=_extra(compiled.extra, claims, turn),
    )
    _check_required(authenticator, claims)
    for rule, program in compiled.claim_rules:
        _check("claim validation expression", program, rule.message, {CLAIMS: claims}, turn)
    for user_rule, program in compiled.user_rules:
        _check("user info validation rule", program, user_rule.message, {USER: _user_tree(user)}, turn)
    return user


def _username(mapping: PrefixedClaimOrExpression, program: Program | None, claims: Claims, turn: Turn | None) -> str:
    if program is not None:
        name = _evaluated("username claim", program, claims, turn)
        if not isinstance(name, str):
            raise AuthenticationError(
                "oidc: error evaluating username claim expression: username claim expression must return a string"
            )
    else:
        name = _text(claims, mapping.claim, "username")
        # OpenID Connect Core 1.0 section 5.1: an address is anybody's until it is verified.
        if mapping.claim == "email" and claims.get("email_verified", True) is not True:
            raise AuthenticationError("oidc: email not verified")
        name = f"{mapping.prefix or ''}{name}" if name else ""
    if not name:
        raise AuthenticationError("oidc: the username is empty")
    return name


def _groups(
    mapping: PrefixedClaimOrExpression, program: Program | None, claims: Claims, turn: Turn | None
) -> tuple[str, ...]:
    if program is not None:
        return _texts("group claim", program, claims, turn)
    value = claims.get(mapping.claim) if mapping.claim else None
    if value is None:
        return ()
    groups = [value] if isinstance(value, str) else value
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise AuthenticationError(f'oidc: parse groups claim "{mapping.claim}": expected a string or a list of strings')
    return tuple(f"{mapping.prefix or ''}{group}" for group in groups)


def _uid(claim: str, program: Program | None, claims: Claims, turn: Turn | None) -> str:
    if claim:
        return _text(claims, claim, "uid")
    if program is None:
        return ""
    uid = _evaluated("uid claim", program, claims, turn)
    if not isinstance(uid, str):
        raise AuthenticationError(
            "oidc: error evaluating uid claim expression: uid claim expression must return a string"
        )
    return uid


def _extra(programs: tuple[tuple[str, Program], ...], claims: Claims, turn: Turn | None) -> dict[str, tuple[str, ...]]:
    extra = {key: values for key, program in programs if (values := _texts("extra claim", program, claims, turn))}
    token_id = claims.get("jti")
    if isinstance(token_id, str) and token_id:
        extra[CREDENTIAL_ID_EXTRA] = (f"JTI={token_id}",)
    return extra


def _check_required(authenticator: CompiledAuthenticator, claims: Claims) -> None:
    for rule in authenticator.config.claim_validation_rules:
        if not rule.claim:
            continue
        if rule.claim not in claims:
            raise AuthenticationError(f"oidc: required claim {rule.claim} not present in ID token")
        value = claims[rule.claim]
        if value != rule.required_value:
            raise AuthenticationError(
                f"oidc: required claim {rule.claim} value does not match. Got = {value}, want = {rule.required_value}"
            )


def _check(what: str, program: Program, message: str, variables: Mapping[str, Any], turn: Turn | None) -> None:
    try:
        holds = program.holds(variables, turn=turn)
    except EvaluationError as err:
        raise AuthenticationError(f"oidc: error evaluating {what}: {err}") from err
    if not holds:
        why = message or f"validation expression '{program.source}' failed"
        raise AuthenticationError(f"oidc: error evaluating {what}: {why}")


def _evaluated(what: str, program: Program, claims: Claims, turn: Turn | None) -> Any:
    try:
        return program.evaluate({CLAIMS: claims}, turn=turn)
    except EvaluationError as err:
        raise AuthenticationError(f"oidc: error evaluating {what} expression: {err}") from err


def _texts(what: str, program: Program, claims: Claims, turn: Turn | None) -> tuple[str, ...]:
    """A text or a list of texts; null and empty texts are left out."""
    value = _evaluated(what, program, claims, turn)
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(item, str) for item in values):
        raise AuthenticationError(
            f"oidc: error evaluating {what} expression: expression must return a string or a list of strings"
        )
    return tuple(item for item in values if item)


def _text(claims: Claims, claim: str, what: str) -> str:
    if claim not in claims:
        raise AuthenticationError(f'oidc: parse {what} claims "{claim}": claim not present')
    value = claims[claim]
    if not isinstance(value, str):
        raise AuthenticationError(f'oidc: parse {what} claims "{claim}": expected a string')
    return value


def _user_tree(user: UserInfo) -> dict[str, Any]:
    """As JSON has it: what is empty is absent."""
    tree: dict[str, Any] = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in tree.items() if value}
