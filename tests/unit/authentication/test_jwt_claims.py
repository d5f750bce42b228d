from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevouch.authentication.interface import AuthenticationError, UserInfo
from kubevouch.authentication.jwt_claims import user_of
from kubevouch.config.authentication_config import AuthenticationConfiguration
from kubevouch.config.authentication_config_rules import CompiledAuthenticator, validate
from kubevouch.machinery.codec import json_codec

CLAIM = {"claim": "sub", "prefix": ""}


def compiled(mappings: dict[str, Any] | None = None, **jwt: Any) -> CompiledAuthenticator:
    issuer = {"url": "https://issuer", "audiences": ["a"]}
    tree = {"jwt": [{"issuer": issuer, "claimMappings": {"username": CLAIM, **(mappings or {})}, **jwt}]}
    found, errors = validate(json_codec.from_tree(tree, AuthenticationConfiguration).value)
    assert not errors
    return found.authenticators[0]


@pytest.mark.parametrize(
    ("mappings", "claims", "user"),
    [
        ({}, {"sub": "jane"}, UserInfo("jane")),
        ({"username": {"claim": "email", "prefix": "x:"}}, {"email": "a@b"}, UserInfo("x:a@b")),
        ({"username": {"claim": "email", "prefix": ""}}, {"email": "a@b", "email_verified": True}, UserInfo("a@b")),
        ({"groups": {"claim": "g", "prefix": "p:"}}, {"sub": "j", "g": "one"}, UserInfo("j", groups=("p:one",))),
        ({"groups": {"claim": "g", "prefix": ""}}, {"sub": "j", "g": ["a", "b"]}, UserInfo("j", groups=("a", "b"))),
        ({"groups": {"claim": "g", "prefix": ""}}, {"sub": "j"}, UserInfo("j")),
        ({"groups": {"expression": "claims.g"}}, {"sub": "j", "g": ["a", ""]}, UserInfo("j", groups=("a",))),
        ({"groups": {"expression": "claims.g"}}, {"sub": "j", "g": None}, UserInfo("j")),
        ({"uid": {"expression": "string(claims.n)"}}, {"sub": "j", "n": 7}, UserInfo("j", "7")),
    ],
)
def test_users(mappings: dict[str, Any], claims: dict[str, Any], user: UserInfo) -> None:
    assert user_of(compiled(mappings), claims) == user


@pytest.mark.parametrize(
    ("mappings", "claims", "message"),
    [
        ({}, {}, 'oidc: parse username claims "sub": claim not present'),
        ({}, {"sub": 5}, 'oidc: parse username claims "sub": expected a string'),
        ({}, {"sub": ""}, "oidc: the username is empty"),
        ({"username": {"claim": "sub", "prefix": "p:"}}, {"sub": ""}, "oidc: the username is empty"),
        (
            {"username": {"claim": "email", "prefix": ""}},
            {"email": "a", "email_verified": False},
            "oidc: email not verified",
        ),
        (
            {"username": {"claim": "email", "prefix": ""}},
            {"email": "a", "email_verified": "true"},
            "oidc: email not verified",
        ),
        (
            {"username": {"expression": "claims.n"}},
            {"n": 5},
            "oidc: error evaluating username claim expression: username claim expression must return a string",
        ),
        (
            {"username": {"expression": "claims.n"}},
            {},
            "oidc: error evaluating username claim expression: no such key: n",
        ),
        (
            {"groups": {"claim": "g", "prefix": ""}},
            {"sub": "j", "g": [1]},
            'oidc: parse groups claim "g": expected a string or a list of strings',
        ),
        (
            {"groups": {"expression": "claims.g"}},
            {"sub": "j", "g": {"a": "b"}},
            "oidc: error evaluating group claim expression: expression must return a string or a list of strings",
        ),
        ({"uid": {"claim": "u"}}, {"sub": "j"}, 'oidc: parse uid claims "u": claim not present'),
    ],
)
def test_claims_that_make_no_user(mappings: dict[str, Any], claims: dict[str, Any], message: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        user_of(compiled(mappings), claims)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("jwt", "claims", "message"),
    [
        ({"claimValidationRules": [{"claim": "hd"}]}, {}, "oidc: required claim hd not present in ID token"),
        (
            {"claimValidationRules": [{"claim": "hd", "requiredValue": "a"}]},
            {"hd": ["a"]},
            "oidc: required claim hd value does not match. Got = ['a'], want = a",
        ),
        (
            {"claimValidationRules": [{"expression": "claims.n > 3 == true", "message": "too few"}]},
            {"n": 2},
            "oidc: error evaluating claim validation expression: too few",
        ),
        (
            {"claimValidationRules": [{"expression": "claims.n == 3"}]},
            {},
            "oidc: error evaluating claim validation expression: no such key: n",
        ),
        (
            {"userValidationRules": [{"expression": "'x' in user.groups"}]},
            {},
            "oidc: error evaluating user info validation rule: no such key: groups",
        ),
        (
            {"userValidationRules": [{"expression": "user.username != 'jane'"}]},
            {},
            "oidc: error evaluating user info validation rule: validation expression 'user.username != 'jane'' failed",
        ),
    ],
)
def test_rules_that_do_not_hold(jwt: dict[str, Any], claims: dict[str, Any], message: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        user_of(compiled(**jwt), {"sub": "jane", **claims})
    assert str(caught.value) == message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
EVERYTHING = compiled(
    {
        "username": {"expression": "claims.sub"},
        "groups": {"expression": "claims.?groups.orValue([])"},
        "uid": {"claim": "uid"},
        "extra": [{"key": "example.com/x", "valueExpression": "claims.?x.orValue('')"}],
    },
    claimValidationRules=[{"expression": "!has(claims.admin) || claims.admin == false"}],
    userValidationRules=[{"expression": "!user.username.startsWith('system:')"}],
)


@given(st.dictionaries(st.sampled_from(["sub", "groups", "uid", "x", "admin", "jti"]), JSON))
def test_whatever_a_token_says_it_makes_a_good_user_or_an_error(claims: dict[str, Any]) -> None:
    try:
        user = user_of(EVERYTHING, claims)
    except AuthenticationError:
        return
    assert user.name and not user.name.startswith("system:")
    assert all(isinstance(group, str) for group in user.groups)
    assert claims.get("admin", False) is False
