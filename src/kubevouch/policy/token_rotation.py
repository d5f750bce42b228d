"""When a bootstrap token that machines are started with is renewed, and when another one takes its place.

Source: the bootstrap provider of Cluster API, bootstrap/kubeadm/internal/controllers/token.go (1.12), for machines that
prove nothing, and the proposal "kubelet authentication" for those that do.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum

import msgspec

from kubevouch.records.token_pools import Keeping


def keeping_of(*, is_pool: bool, attests: bool) -> Keeping:
    """Of the token of a Machine or of a MachinePool. ``attests``: the Cluster has its machines prove what they are."""
    if not is_pool:
        return Keeping.UNTIL_NODES
    return Keeping.RENEW if attests else Keeping.ROTATE


class Action(StrEnum):
    KEEP = "keep"
    """There is nothing to do, yet."""
    RENEW = "renew"
    """The same token lasts longer."""
    REPLACE = "replace"
    """A new token, and new data for machines to start with."""
    LOST = "lost"
    """The token is gone, and the one machine that was started with it knows no other."""


class Stored(msgspec.Struct, frozen=True):
    """A token that there is. ``expires``: None where the Secret says nothing that can be read."""

    expires: dt.datetime | None


class Decision(msgspec.Struct, frozen=True):
    """What to do with a token.

    Args:
        expires: until when it is good from now on, or the new one.
        again: when to look next; None when something changes.
    """

    action: Action
    expires: dt.datetime | None = None
    again: dt.timedelta | None = None


def decide(
    keeping: Keeping, stored: Stored | None, *, has_nodes: bool, ttl: dt.timedelta, now: dt.datetime
) -> Decision:
    """What to do with a token.

    Args:
        stored: None if its Secret is gone.
        has_nodes: what it was made for has become a node, or some of it.
        ttl: how long tokens last.
    """
    again = ttl / 3
    if keeping is Keeping.UNTIL_NODES and has_nodes:
        return Decision(Action.KEEP)
    if stored is None:
        if keeping is Keeping.UNTIL_NODES:
            return Decision(Action.LOST)
        return Decision(Action.REPLACE, now + ttl, again)
    if keeping is Keeping.ROTATE and has_nodes:
        if stored.expires is None or stored.expires < now + ttl / 2:
            return Decision(Action.REPLACE, now + ttl, again)
        return Decision(Action.KEEP, again=again)
    if stored.expires is None or stored.expires <= now + ttl * 5 / 6:
        return Decision(Action.RENEW, now + ttl, again)
    return Decision(Action.KEEP, again=again)
