"""kube-apiserver's flags about service account tokens, as values; what they lead to is in :mod:`.service_accounts`."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec

# kubeadm's default for its cluster domain.
DEFAULT_ISSUER = "https://kubernetes.default.svc.cluster.local"


class ServiceAccountOptions(msgspec.Struct, frozen=True):
    """``--service-account-*`` and ``--api-audiences``.

    Args:
        issuers: the first one signs; tokens of all are accepted.
        key_files: public keys whose tokens are accepted besides those of the cluster's own key.
        api_audiences: what this server calls itself; empty means its issuers.
        jwks_uri: where relying parties find the keys, if not at this server.
        max_expiration: the longest life of a token; zero is no limit.
    """

    issuers: tuple[str, ...] = (DEFAULT_ISSUER,)
    key_files: tuple[Path, ...] = ()
    api_audiences: tuple[str, ...] = ()
    jwks_uri: str = ""
    max_expiration: dt.timedelta = dt.timedelta()

    @property
    def audiences(self) -> tuple[str, ...]:
        return self.api_audiences or self.issuers
