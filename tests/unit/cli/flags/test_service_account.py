"""kube-apiserver's flags for service account tokens."""

import datetime as dt
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from kubevouch.cli.flags.service_account import service_account_flags, take_service_accounts
from kubevouch.standalone.service_account_options import ServiceAccountOptions


def parsed(*arguments: str) -> ServiceAccountOptions:
    found: list[ServiceAccountOptions] = []

    @click.command()
    @service_account_flags
    def command(**flags: Any) -> None:
        found.append(take_service_accounts(flags))
        assert flags == {}

    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


def test_the_defaults() -> None:
    assert parsed() == ServiceAccountOptions()


def test_all_flags() -> None:
    assert parsed(
        "--service-account-issuer=https://new",
        "--service-account-issuer=https://old",
        "--service-account-key-file=a.pub",
        "--service-account-key-file=b.pub",
        "--service-account-jwks-uri=https://keys",
        "--service-account-max-token-expiration=2h",
        "--api-audiences=api, vault",
    ) == ServiceAccountOptions(
        ("https://new", "https://old"),
        (Path("a.pub"), Path("b.pub")),
        ("api", "vault"),
        "https://keys",
        dt.timedelta(hours=2),
    )
