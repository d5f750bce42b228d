"""kube-apiserver's flags for service account tokens, for ``kubevouch up``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kubevouch.cli.flags import together
from kubevouch.cli.flags.durations import DURATION
from kubevouch.standalone.service_account_options import DEFAULT_ISSUER, ServiceAccountOptions

_FLAGS = (
    click.option(
        "--service-account-issuer",
        multiple=True,
        default=(DEFAULT_ISSUER,),
        show_default=True,
        help="Who signs tokens; may be given again for former issuers, whose tokens are accepted still.",
    ),
    click.option(
        "--service-account-key-file",
        type=click.Path(path_type=Path, dir_okay=False),
        multiple=True,
        help="PEM of more keys whose tokens are accepted; may be given again.",
    ),
    click.option(
        "--service-account-jwks-uri",
        default="",
        help="Where relying parties find the keys, if not here.",
    ),
    click.option(
        "--service-account-max-token-expiration",
        type=DURATION,
        default="0",
        help="The longest life of a token.  [default: without limit]",
    ),
    click.option(
        "--api-audiences",
        default="",
        help="What this server calls itself, separated by commas.  [default: the issuers]",
    ),
)


service_account_flags = together(*_FLAGS)


def take_service_accounts(flags: dict[str, Any]) -> ServiceAccountOptions:
    """The options that the flags say; takes them out of ``flags``."""
    audiences = flags.pop("api_audiences")
    return ServiceAccountOptions(
        issuers=flags.pop("service_account_issuer"),
        key_files=flags.pop("service_account_key_file"),
        api_audiences=tuple(each.strip() for each in audiences.split(",") if each.strip()),
        jwks_uri=flags.pop("service_account_jwks_uri"),
        max_expiration=flags.pop("service_account_max_token_expiration"),
    )
