from __future__ import annotations

import datetime as dt
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kubevouch.cli.flags.access import access_flags, take_access
from kubevouch.standalone.access_options import AccessOptions, OIDCOptions


def options(*arguments: str) -> AccessOptions:
    """What the flags come to."""
    taken = []

    @click.command()
    @access_flags
    def command(**flags: object) -> None:
        taken.append(take_access(flags))
        assert not flags

    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return taken[0]


def test_without_flags_everything_is_as_usual() -> None:
    assert options() == AccessOptions()


def test_every_flag_arrives() -> None:
    assert options(
        "--anonymous-auth=false",
        "--authentication-config=a",
        "--oidc-issuer-url=https://i",
        "--oidc-client-id=c",
        "--oidc-ca-file=ca",
        "--oidc-username-claim=email",
        "--oidc-username-prefix=-",
        "--oidc-groups-claim=g",
        "--oidc-groups-prefix=p",
        "--oidc-required-claim=k=v=w",
        "--oidc-required-claim=l=",
        "--oidc-signing-algs=RS256, ES256",
        "--token-auth-file=c.csv",
        "--authentication-token-webhook-config-file=t",
        "--authentication-token-webhook-version=v1beta1",
        "--authentication-token-webhook-cache-ttl=1s",
        "--authorization-config=z",
        "--authorization-mode=Node, RBAC",
        "--authorization-policy-file=p",
        "--authorization-webhook-config-file=w",
        "--authorization-webhook-version=v1beta1",
        "--authorization-webhook-cache-authorized-ttl=2s",
        "--authorization-webhook-cache-unauthorized-ttl=3s",
    ) == AccessOptions(
        authentication_config=Path("a"),
        anonymous_auth=False,
        oidc=OIDCOptions(
            "https://i", "c", Path("ca"), "email", "-", "g", "p", (("k", "v=w"), ("l", "")), ("RS256", "ES256")
        ),
        token_auth_file=Path("c.csv"),
        token_webhook_config=Path("t"),
        token_webhook_version="v1beta1",
        token_webhook_ttl=dt.timedelta(seconds=1),
        authorization_config=Path("z"),
        authorization_modes=("Node", "RBAC"),
        authorization_policy_file=Path("p"),
        authorization_webhook_config=Path("w"),
        authorization_webhook_version="v1beta1",
        authorization_webhook_authorized_ttl=dt.timedelta(seconds=2),
        authorization_webhook_unauthorized_ttl=dt.timedelta(seconds=3),
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--oidc-issuer-url=https://i"],
        ["--oidc-client-id=c"],
        ["--oidc-required-claim=x"],
        ["--anonymous-auth=maybe"],
        ["--authorization-webhook-cache-authorized-ttl=5"],
    ],
)
def test_flags_that_cannot_be_meant(arguments: list[str]) -> None:
    with pytest.raises(click.UsageError):
        options(*arguments)
