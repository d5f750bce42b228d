"""The flags that say who is let in and who may what."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec


class OIDCOptions(msgspec.Struct, frozen=True):
    """One issuer by flags (--oidc-*), the old way of saying what an AuthenticationConfiguration says.

    Args:
        username_prefix: empty puts the issuer and ``#`` before every name but an e-mail address; ``-`` puts nothing.
        required_claims: claims and the values that they must have.
        signing_algorithms: of the signatures that count.
    """

    issuer_url: str
    client_id: str
    ca_file: Path | None = None
    username_claim: str = "sub"
    username_prefix: str = ""
    groups_claim: str = ""
    groups_prefix: str = ""
    required_claims: tuple[tuple[str, str], ...] = ()
    signing_algorithms: tuple[str, ...] = ("RS256",)


class AccessOptions(msgspec.Struct, frozen=True):
    """kube-apiserver's flags of the same names.

    Args:
        anonymous_auth: None means that it was not given: on, unless the configuration file says otherwise.
        bootstrap_token_auth: whether bootstrap tokens are credentials; off, only signatures of cluster-info need them.
        authorization_modes: in their order; empty means that they were not given: Node, RBAC.
    """

    authentication_config: Path | None = None
    anonymous_auth: bool | None = None
    bootstrap_token_auth: bool = True
    oidc: OIDCOptions | None = None
    token_auth_file: Path | None = None
    token_webhook_config: Path | None = None
    token_webhook_version: str = "v1"
    token_webhook_ttl: dt.timedelta = dt.timedelta(minutes=2)
    authorization_config: Path | None = None
    authorization_modes: tuple[str, ...] = ()
    authorization_policy_file: Path | None = None
    authorization_webhook_config: Path | None = None
    authorization_webhook_version: str = "v1"
    authorization_webhook_authorized_ttl: dt.timedelta = dt.timedelta(minutes=5)
    authorization_webhook_unauthorized_ttl: dt.timedelta = dt.timedelta(seconds=30)
