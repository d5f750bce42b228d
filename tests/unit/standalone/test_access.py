"""Flags and files of authentication and authorization: what cannot be meant, and what a flag stands for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import aio
from kubevouch.authentication.interface import Credentials
from kubevouch.authorization.always import AlwaysDenyAuthorizer, InsecureAlwaysAllowAuthorizer
from kubevouch.standalone.access import RELOAD_SECONDS, Access, AccessError
from kubevouch.standalone.access_options import AccessOptions, OIDCOptions
from kubevouch.testing.clock import FakeClock

ISSUER = "https://api"
MISSING = Path("/nowhere/file")
HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: "


def access(**options: Any) -> Access:
    return Access(AccessOptions(**options), (ISSUER,), FakeClock())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"authorization_modes": ("RBAC", "Nope")}, 'authorization-mode "Nope" is not a valid mode'),
        (
            {"authorization_modes": ("RBAC", "Node", "RBAC")},
            'authorization-mode "RBAC" has mode specified more than once',
        ),
        ({"authorization_modes": ("ABAC",)}, "authorization-mode ABAC's authorization policy file not passed"),
        ({"authorization_policy_file": MISSING}, "cannot specify --authorization-policy-file without mode ABAC"),
        (
            {"authorization_modes": ("Webhook",)},
            "authorization-mode Webhook's authorization config file not passed",
        ),
        (
            {"authorization_webhook_config": MISSING},
            "cannot specify --authorization-webhook-config-file without mode Webhook",
        ),
        (
            {"authorization_config": MISSING, "authorization_modes": ("RBAC",)},
            "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags",
        ),
        ({"authorization_config": MISSING}, f"{MISSING} cannot be read: no such file or directory"),
        (
            {"authorization_modes": ("ABAC",), "authorization_policy_file": MISSING},
            f"{MISSING} cannot be read: no such file or directory",
        ),
        ({"token_auth_file": MISSING}, f"{MISSING} cannot be read: no such file or directory"),
        (
            {"authentication_config": MISSING, "oidc": OIDCOptions("https://i", "c")},
            "authentication-config file and oidc-* flags are mutually exclusive",
        ),
        (
            {"token_webhook_config": MISSING, "token_webhook_version": "v2"},
            "got --authentication-token-webhook-version 'v2', expected v1 or v1beta1",
        ),
        ({"oidc": OIDCOptions("http://i", "c")}, 'jwt[0].issuer.url: Invalid value: "http://i": URL scheme must be'),
        ({"oidc": OIDCOptions(ISSUER, "c")}, "URL must not overlap with disallowed issuers: [https://api]"),
        (
            {"oidc": OIDCOptions("https://i", "c", signing_algorithms=("none",))},
            'oidc: unsupported signing alg: "none"',
        ),
    ],
)
def test_what_cannot_be_meant(options: dict[str, Any], text: str) -> None:
    with pytest.raises(AccessError) as caught:
        access(**options)
    assert text in str(caught.value)


def test_the_issuers_a_file_may_not_claim_are_not_the_audiences() -> None:
    options = AccessOptions(oidc=OIDCOptions("https://audience", "c"))
    Access(options, ("https://audience",), FakeClock(), own_issuers=(ISSUER,))
    with pytest.raises(AccessError, match="disallowed issuers"):
        Access(options, (ISSUER,), FakeClock(), own_issuers=("https://audience",))


def test_the_order_of_modes_is_the_order_of_authorizers() -> None:
    node, rbac = AlwaysDenyAuthorizer(), AlwaysDenyAuthorizer()
    built_in = {"Node": node, "RBAC": rbac}
    assert access().authorizers(dict(built_in)) == [node, rbac]
    assert access(authorization_modes=("RBAC", "Node")).authorizers(dict(built_in)) == [rbac, node]
    chosen = access(authorization_modes=("AlwaysAllow", "AlwaysDeny")).authorizers(dict(built_in))
    assert [type(each) for each in chosen] == [InsecureAlwaysAllowAuthorizer, AlwaysDenyAuthorizer]


@pytest.mark.parametrize(
    ("flag", "rules", "path", "let_in"),
    [
        (None, "", "/x", True),
        (True, "", "/x", True),
        (False, "", "/x", False),
        (None, "{enabled: true}", "/x", True),
        (None, "{enabled: false}", "/x", False),
        (None, "{enabled: true, conditions: [{path: /livez}]}", "/livez", True),
        (None, "{enabled: true, conditions: [{path: /livez}]}", "/livez/", False),
    ],
)
def test_anonymous_requests(flag: bool | None, rules: str, path: str, let_in: bool, tmp_path: Path) -> None:
    file = tmp_path / "authentication.yaml"
    file.write_text(f"{HEAD}AuthenticationConfiguration\n{f'anonymous: {rules}' if rules else ''}\n")
    anonymous = access(anonymous_auth=flag, authentication_config=file).anonymous
    found = anonymous is not None and aio.run(anonymous.authenticate(Credentials(), path)) is not None
    assert found is let_in


def test_a_file_written_anew_with_the_same_content_is_not_loaded_again(tmp_path: Path) -> None:
    file = tmp_path / "authorization.yaml"
    one = f"{HEAD}AuthorizationConfiguration\nauthorizers: [{{type: RBAC, name: rbac}}]\n"
    two = one.replace("RBAC", "Node").replace("rbac", "node")
    file.write_text(one)
    clock = FakeClock()
    under_test = Access(AccessOptions(authorization_config=file), (), clock)
    node, rbac = AlwaysDenyAuthorizer(), AlwaysDenyAuthorizer()
    applied: list[object] = []

    async def scenario() -> None:
        keeping = asyncio.create_task(
            under_test.keep(lambda: applied.extend(under_test.authorizers({"Node": node, "RBAC": rbac})))
        )
        for content, so_far in ((one, []), (two, [node]), ("{", [node]), (two, [node]), (one, [node, rbac])):
            await clock.until_asleep()
            other = tmp_path / "other"
            other.write_text(content)
            other.replace(file)
            clock.advance(RELOAD_SECONDS)
            await clock.until_asleep()
            assert applied == so_far
        keeping.cancel()

    aio.run(scenario())
