"""What ``up`` and ``controllers`` can be told of Cluster API."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    # What a connection needs is loaded where there is one: a help text needs none.
    from kubevouch.client.rest_config import RESTConfig

DEFAULT_TOKEN_TTL = dt.timedelta(minutes=15)
"""Cluster API's."""


class ClusterAPIOptions(msgspec.Struct, frozen=True):
    """Where Cluster API's objects are, and which of them stand for this cluster.

    Args:
        namespace, name: of the Cluster.
        management: the cluster in which it is; None is this one.
        token_ttl: how long bootstrap tokens last.
        replaces_tokens: tokens are replaced, too, where Cluster API's bootstrap provider does not.
    """

    namespace: str
    name: str
    management: RESTConfig | None = None
    token_ttl: dt.timedelta = DEFAULT_TOKEN_TTL
    replaces_tokens: bool = False
