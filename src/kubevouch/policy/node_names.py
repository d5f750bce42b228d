"""To whom a node's name belongs: whether a request for it is from its machine, or takes it over (S1, S23).

Kubernetes gives any name to whoever has a bootstrap token; a token that leaks, or a pod that reads one, becomes a node
that runs already and reads the Secrets of its pods. Here a name belongs to the machine whose key was certified for it,
for as long as that certificate is valid, and to whoever keeps its Node alive.

A contradiction is denied, for it cannot become right: the key of a request never changes. What may still turn out
either way waits.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum

import msgspec

from kubevouch.api.coordination_v1 import Lease
from kubevouch.api.core_v1.nodes import Node
from kubevouch.machinery.text.times import Time
from kubevouch.revocation import node_records
from kubevouch.revocation.node_records import NodeRecord

TAKEN_REASON = "NodeNameTaken"
LOCKED_REASON = "NodeLockedOut"
REPLAYED_REASON = "KeyOfAnotherRequester"
REASONS = frozenset({TAKEN_REASON, LOCKED_REASON, REPLAYED_REASON})
"""Of denials after which a machine asks with another key, once somebody has decided for it."""

LEASE_FRESH = dt.timedelta(minutes=5)
"""A kubelet renews its Lease every ten seconds; its clock may be wrong by some minutes."""
HEARTBEAT_FRESH = dt.timedelta(minutes=15)
"""A kubelet reports at least every five minutes (nodeStatusReportFrequency). A Node stays Ready for ever where no
node-lifecycle-controller runs."""


class Decision(StrEnum):
    ADMIT = "admit"
    WAIT = "wait"
    DENY = "deny"


class Verdict(msgspec.Struct, frozen=True):
    """``reason`` and ``message`` are those of the condition; for WAIT the message is for the log."""

    decision: Decision
    reason: str = ""
    message: str = ""


ADMITTED = Verdict(Decision.ADMIT)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a node's client certificate.

    Args:
        key: hexadecimal SHA-256 of its SubjectPublicKeyInfo.
        own: it comes from the node itself, with the node's own identity.
        bound: it comes with a bootstrap token that is bound to this very name.
    """

    node_name: str
    key: str
    own: bool = False
    bound: bool = False


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate that was issued for the name; ``key`` is empty where it is not known."""

    key: str
    issued: dt.datetime
    not_after: dt.datetime


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster knows of a name.

    Args:
        certificates: those that were issued for it.
        approved: the keys of requests that are approved and have no certificate yet.
        registered: it has a Node, which somebody can delete.
        alive: why its Node counts as alive, as :func:`alive` says it.
    """

    certificates: tuple[Held, ...] = ()
    approved: tuple[str, ...] = ()
    registered: bool = False
    alive: str = ""
    record: NodeRecord = node_records.NONE


def decide(asked: Asked, inventory: Inventory, *, takeover: bool, now: dt.datetime) -> Verdict:
    """Whether the request gets the name.

    Args:
        takeover: names may be taken over, as in Kubernetes; those of locked out nodes may not.
    """
    record = node_records.current(inventory.record, now)
    # 1. A name that somebody has locked out comes back by somebody's decision only.
    if record.locked is not None:
        anew = any(not record.locks(each.issued) for each in inventory.certificates)
        if not (anew if asked.own else asked.bound):
            return Verdict(Decision.DENY, LOCKED_REASON, _locked(asked, record))
    # 2. The node itself, whoever has a token for the name, and where anybody may.
    if asked.own or asked.bound or takeover:
        return ADMITTED
    # 3. The machine that has the name comes again: a join that was interrupted.
    held = [each for each in inventory.certificates if now < each.not_after and not record.frees(each.issued)]
    if any(each.key == asked.key for each in held) or asked.key in inventory.approved:
        return ADMITTED
    # 4. Another one.
    if held:
        end = Time.of(max(each.not_after for each in held))
        return _taken(asked, inventory, f"it has a certificate with another key, valid until {end}")
    if inventory.alive:
        return _taken(asked, inventory, inventory.alive)
    # 5. Another one that may still fail.
    if inventory.approved:
        return Verdict(Decision.WAIT, message=f"another machine is about to become {asked.node_name}")
    return ADMITTED


def _taken(asked: Asked, inventory: Inventory, why: str) -> Verdict:
    name = asked.node_name
    token = f"kubevouch token create --node-name {name}"
    if inventory.registered:
        what = (
            f"If that machine is gone, delete its Node (kubectl delete node {name}); if this one takes its place, or "
            f"deleted nodes are locked out, give it a token for the name ({token}); otherwise give it another name"
        )
    else:
        what = (
            f"If that machine is gone, or this one takes its place, give this one a token for the name ({token}), as "
            "there is no Node to delete; otherwise give it another name"
        )
    return Verdict(Decision.DENY, TAKEN_REASON, f"the name {name} belongs to another machine: {why}. {what}")


def _locked(asked: Asked, record: NodeRecord) -> str:
    name, since = asked.node_name, "" if record.locked is None else f" since {Time.of(record.locked)}"
    return (
        f"node {name} is locked out{since} ({record.why}): it comes back with a token for the name (kubevouch token "
        f"create --node-name {name}) or after kubevouch node lift {name}"
    )


def alive(node: Node | None, lease: Lease | None, now: dt.datetime) -> str:
    """Why a node counts as alive, as a clause after a colon; empty if it does not."""
    if lease is not None and lease.spec.renew_time is not None:
        renewed = lease.spec.renew_time.datetime()
        if now - renewed < LEASE_FRESH:
            return f"its Lease was renewed at {Time.of(renewed)}"
    ready = None if node is None else next((each for each in node.status.conditions if each.type == "Ready"), None)
    if ready is None or ready.status != "True":
        return ""
    heard = ready.last_heartbeat_time
    return "its Node is Ready" if heard is None or now - heard.datetime() < HEARTBEAT_FRESH else ""
