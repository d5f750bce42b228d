"""kube-apiserver's flags for authentication and authorization, for ``kubevouch up``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kubevouch.cli.flags import together
from kubevouch.cli.flags.durations import DURATION
from kubevouch.standalone.access_options import AccessOptions, OIDCOptions

_FILE = click.Path(path_type=Path, dir_okay=False)

_FLAGS = (
    click.option(
        "--anonymous-auth",
        type=bool,
        default=None,
        help="Take requests without a credential for anonymous.  [default: true]",
    ),
    click.option(
        "--enable-bootstrap-token-auth",
        type=bool,
        default=True,
        show_default=True,
        help="Let machines in with bootstrap tokens.",
    ),
    click.option(
        "--authentication-config",
        type=_FILE,
        help="AuthenticationConfiguration: issuers of tokens, anonymous requests.",
    ),
    click.option("--oidc-issuer-url", default="", help="One issuer without a file: its URL."),
    click.option("--oidc-client-id", default="", help="The audience its tokens must have."),
    click.option("--oidc-ca-file", type=_FILE, help="Whom to trust for its keys.  [default: the machine's CAs]"),
    click.option("--oidc-username-claim", default="sub", show_default=True, help="The claim with the user name."),
    click.option("--oidc-username-prefix", default="", help="Put before it; - for nothing.  [default: ISSUER#]"),
    click.option("--oidc-groups-claim", default="", help="The claim with the groups."),
    click.option("--oidc-groups-prefix", default="", help="Put before each of them."),
    click.option("--oidc-required-claim", multiple=True, metavar="KEY=VALUE", help="A claim its tokens must have."),
    click.option(
        "--oidc-signing-algs", default="RS256", show_default=True, help="Signatures that count, separated by commas."
    ),
    click.option(
        "--token-auth-file", type=_FILE, help='CSV of tokens that never expire: token,user,uid,"group1,group2".'
    ),
    click.option(
        "--authentication-token-webhook-config-file",
        type=_FILE,
        help="Kubeconfig of a service that answers TokenReviews.",
    ),
    click.option(
        "--authentication-token-webhook-version",
        default="v1",
        show_default=True,
        help="TokenReview version: v1 or v1beta1.",
    ),
    click.option(
        "--authentication-token-webhook-cache-ttl",
        type=DURATION,
        default="2m",
        show_default=True,
        help="How long its answers hold.",
    ),
    click.option(
        "--authorization-config", type=_FILE, help="AuthorizationConfiguration: the authorizers in their order."
    ),
    click.option(
        "--authorization-mode",
        default="",
        help="The same as a list: Node, RBAC, ABAC, Webhook, AlwaysAllow, AlwaysDeny.  [default: Node,RBAC]",
    ),
    click.option("--authorization-policy-file", type=_FILE, help="The policy of mode ABAC."),
    click.option(
        "--authorization-webhook-config-file",
        type=_FILE,
        help="Kubeconfig of a service that answers SubjectAccessReviews.",
    ),
    click.option(
        "--authorization-webhook-version",
        default="v1",
        show_default=True,
        help="SubjectAccessReview version: v1 or v1beta1.",
    ),
    click.option(
        "--authorization-webhook-cache-authorized-ttl",
        type=DURATION,
        default="5m",
        show_default=True,
        help="How long what it allows holds.",
    ),
    click.option(
        "--authorization-webhook-cache-unauthorized-ttl",
        type=DURATION,
        default="30s",
        show_default=True,
        help="How long what it refuses holds.",
    ),
)


access_flags = together(*_FLAGS)


def _take_oidc(flags: dict[str, Any]) -> OIDCOptions | None:
    taken = {name: flags.pop(f"oidc_{name}") for name in ("issuer_url", "client_id", "ca_file", "username_claim")}
    taken |= {name: flags.pop(f"oidc_{name}") for name in ("username_prefix", "groups_claim", "groups_prefix")}
    algorithms = tuple(each.strip() for each in flags.pop("oidc_signing_algs").split(","))
    required = [claim.partition("=") for claim in flags.pop("oidc_required_claim")]
    if any(not equals for _, equals, _ in required):
        raise click.UsageError("got a --oidc-required-claim without =, expected KEY=VALUE")
    if bool(taken["issuer_url"]) != bool(taken["client_id"]):
        raise click.UsageError("oidc-issuer-url and oidc-client-id must be specified together")
    if not taken["issuer_url"]:
        return None
    pairs = tuple((key, value) for key, _, value in required)
    return OIDCOptions(**taken, required_claims=pairs, signing_algorithms=algorithms)


def take_access(flags: dict[str, Any]) -> AccessOptions:
    """The options that the flags say; takes them out of ``flags``."""
    modes = flags.pop("authorization_mode")
    return AccessOptions(
        anonymous_auth=flags.pop("anonymous_auth"),
        bootstrap_token_auth=flags.pop("enable_bootstrap_token_auth"),
        oidc=_take_oidc(flags),
        authentication_config=flags.pop("authentication_config"),
        token_auth_file=flags.pop("token_auth_file"),
        token_webhook_config=flags.pop("authentication_token_webhook_config_file"),
        token_webhook_version=flags.pop("authentication_token_webhook_version"),
        token_webhook_ttl=flags.pop("authentication_token_webhook_cache_ttl"),
        authorization_config=flags.pop("authorization_config"),
        authorization_modes=tuple(mode.strip() for mode in modes.split(",") if mode.strip()),
        authorization_policy_file=flags.pop("authorization_policy_file"),
        authorization_webhook_config=flags.pop("authorization_webhook_config_file"),
        authorization_webhook_version=flags.pop("authorization_webhook_version"),
        authorization_webhook_authorized_ttl=flags.pop("authorization_webhook_cache_authorized_ttl"),
        authorization_webhook_unauthorized_ttl=flags.pop("authorization_webhook_cache_unauthorized_ttl"),
    )
