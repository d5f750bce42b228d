from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubevouch.config.authentication_config_rules import load
from kubevouch.config.config_file import ConfigFileError
from throwaway_ca import ThrowawayCA

URL = "https://issuer.example.com"
JWT: dict[str, Any] = {
    "issuer": {"url": URL, "audiences": ["a"]},
    "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
}


def document(*jwt: dict[str, Any], **more: Any) -> bytes:
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}
    return msgspec.json.encode({**head, "jwt": list(jwt), **more})


def mapped(**mappings: Any) -> dict[str, Any]:
    return {**JWT, "claimMappings": {**JWT["claimMappings"], **mappings}}


def issued(**issuer: Any) -> dict[str, Any]:
    return {**JWT, "issuer": {**JWT["issuer"], **issuer}}


def named(expression: str, **jwt: Any) -> dict[str, Any]:
    return {**JWT, "claimMappings": {"username": {"expression": expression}}, **jwt}


UNVERIFIED = (
    "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression "
    "or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"
)


@pytest.mark.parametrize(
    ("jwt", "message"),
    [
        ({}, "jwt[0].issuer.url: Required value"),
        (issued(url="http://x"), 'jwt[0].issuer.url: Invalid value: "http://x": URL scheme must be https'),
        (
            issued(url="https://u:p@x"),
            'jwt[0].issuer.url: Invalid value: "https://u:p@x": URL must not contain a username or password',
        ),
        (issued(url="https://x?a"), 'jwt[0].issuer.url: Invalid value: "https://x?a": URL must not contain a query'),
        (issued(url="https://x#a"), 'jwt[0].issuer.url: Invalid value: "https://x#a": URL must not contain a fragment'),
        (
            issued(url="https://ours"),
            (
                'jwt[0].issuer.url: Invalid value: "https://ours": URL must not overlap with disallowed issuers: '
                "[https://ours]"
            ),
        ),
        (
            issued(discoveryURL=f"{URL}/"),
            f'jwt[0].issuer.discoveryURL: Invalid value: "{URL}/": discoveryURL must be different from URL',
        ),
        (
            issued(audiences=[]),
            "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
        ),
        (issued(audiences=[""]), "jwt[0].issuer.audiences[0]: Required value"),
        (
            issued(audiences=["a", "b"]),
            (
                'jwt[0].issuer.audienceMatchPolicy: Invalid value: "": audienceMatchPolicy must be MatchAny for '
                "multiple audiences"
            ),
        ),
        (
            issued(certificateAuthority="x"),
            (
                'jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>": data does not contain any valid '
                "RSA or ECDSA certificates"
            ),
        ),
        (
            mapped(username={"claim": "sub"}),
            (
                "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can "
                "be set to an empty string to disable prefixing"
            ),
        ),
        (mapped(username={}), "jwt[0].claimMappings.username: Required value: claim or expression is required"),
        (
            mapped(uid={"claim": "a", "expression": "claims.b"}),
            'jwt[0].claimMappings.uid: Invalid value: "": claim and expression can\'t both be set',
        ),
        (
            mapped(extra=[{"key": "team", "valueExpression": "claims.t"}]),
            (
                'jwt[0].claimMappings.extra[0].key: Invalid value: "team": must be a domain-prefixed path (such as '
                '"acme.io/foo")'
            ),
        ),
        (
            mapped(extra=[{"key": "a.k8s.io/t", "valueExpression": "claims.t"}]),
            (
                'jwt[0].claimMappings.extra[0].key: Invalid value: "a.k8s.io/t": k8s.io, kubernetes.io and their '
                "subdomains are reserved for Kubernetes use"
            ),
        ),
        (
            named("claims.email"),
            f'jwt[0].claimMappings.username.expression: Invalid value: "claims.email": {UNVERIFIED}',
        ),
        (
            named("claims.email + 'claims.email_verified'"),
            (
                "jwt[0].claimMappings.username.expression: Invalid value: \"claims.email + 'claims.email_verified'\": "
                f"{UNVERIFIED}"
            ),
        ),
        (
            named("'a'", claimValidationRules=[{"expression": "claims.x"}]),
            'jwt[0].claimValidationRules[0].expression: Invalid value: "claims.x": must evaluate to bool',
        ),
        (
            named("'a'", claimValidationRules=[{}]),
            "jwt[0].claimValidationRules[0]: Required value: claim or expression is required",
        ),
        (
            named("'a'", userValidationRules=[{"expression": "user.name == ''"}]),
            (
                "jwt[0].userValidationRules[0].expression: Invalid value: \"user.name == ''\": compilation failed: "
                "ERROR: <input>:1:5: undefined field 'name'"
                "\\n | user.name == ''\\n | ....^"
            ),
        ),
        (named("'a'", userValidationRules=[{}]), "jwt[0].userValidationRules[0].expression: Required value"),
    ],
)
def test_what_is_wrong(jwt: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigFileError) as caught:
        load(document(jwt), ["https://ours"])
    assert message in str(caught.value).replace("\n", "\\n")
    if jwt:
        assert str(caught.value).replace("\n", "\\n") == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "no configuration: expected apiVersion and kind"),
        (b"{}", "Object 'Kind' is missing"),
        (b"kind: X\napiVersion: v1", 'no kind "X" is registered for version "v1"'),
        (b"a: [", "couldn't get version/kind; yaml: line 1: did not find expected node content"),
        (document(colour="red"), 'strict decoding error: unknown field "colour"'),
        (document({**JWT, "name": "x"}), 'strict decoding error: unknown field "jwt[0].name"'),
        (document(JWT, JWT), f'jwt[1].issuer.url: Duplicate value: "{URL}"'),
        (document(*[JWT] * 65), "jwt: Too many: 65: must have at most 64 items"),
        (
            document(anonymous={"enabled": False, "conditions": [{"path": "/livez"}]}),
            (
                'anonymous.conditions: Invalid value: [{"Path":"/livez"}]: enabled should be set to true when '
                "conditions are defined"
            ),
        ),
        (b"x" * (1 << 21), "got 2097152 bytes, expected at most 1048576"),
    ],
)
def test_files_that_cannot_be_used(text: bytes, message: str) -> None:
    with pytest.raises(ConfigFileError) as caught:
        load(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "jwt",
    [
        JWT,
        issued(certificateAuthority=ThrowawayCA().bundle.decode(), discoveryURL="https://other/x"),
        issued(audiences=["a", "b"], audienceMatchPolicy="MatchAny"),
        named("claims.email", claimValidationRules=[{"expression": "claims.?email_verified.orValue(true)"}])
        | {"claimValidationRules": [{"expression": "claims.?email_verified.orValue(true) == true"}]},
        mapped(groups={"claim": "g", "prefix": "x:"}, uid={"claim": "u"}),
    ],
)
def test_files_that_can(jwt: dict[str, Any]) -> None:
    assert len(load(document(jwt)).authenticators) == 1
    as_beta = document(jwt).replace(b"k8s.io/v1", b"k8s.io/v1beta1")
    assert load(as_beta).config == load(document(jwt)).config
