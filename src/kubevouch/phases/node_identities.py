"""The operator's word on whose a node's name is: bans, renewals, other hardware, and letting a name go.

NodeIdentityError    there is nothing to change; ``hint`` says what to do
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

import msgspec

from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS, NODE_IDENTITIES
from kubevouch.api.kubevouch_v1alpha1.node_identities import ExpectedHardware, NodeIdentity, NodeIdentitySpec
from kubevouch.client import stored
from kubevouch.client.interface import Client
from kubevouch.client.pager import PAGES, list_all
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import DeleteOptions, ObjectMeta, Preconditions
from kubevouch.machinery.text.times import Time
from kubevouch.revocation.node_revocation import is_of_node, of_node

_BY = "kubevouch node ban"
_LIST = "kubevouch node identities shows which names belong to whom"


class NodeIdentityError(Exception):
    """There is nothing to change."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


async def identities(client: Client) -> Sequence[NodeIdentity]:
    """By name. Raises APIStatusError, TransportError."""
    found: list[NodeIdentity] = list((await list_all(client, NODE_IDENTITIES, options=PAGES)).items)
    return sorted(found, key=lambda each: each.metadata.name)


async def identity(client: Client, node_name: str) -> NodeIdentity:
    """Raises NodeIdentityError, APIStatusError, TransportError."""
    found = await stored.find(client, NODE_IDENTITIES, node_name)
    if found is None:
        raise NodeIdentityError(f"no machine has proven to be node {node_name}", _LIST)
    return found


async def ban(client: Client, node_name: str, why: str) -> None:
    """No certificate for the machine from now on, and those that it has count no more. It can be done again.

    The ban first: what is issued between the two is revoked as well.

    Raises:
        APIStatusError, TransportError
    """

    def banned(spec: NodeIdentitySpec) -> NodeIdentitySpec:
        return msgspec.structs.replace(spec, banned=True, banned_reason=why or spec.banned_reason)

    await _change(client, node_name, banned, create=True)
    message = why or "the machine is banned"
    tried = of_node(node_name, dt.datetime.fromtimestamp(0, dt.UTC), message, _BY, banned=True)
    tried = msgspec.structs.replace(tried, metadata=ObjectMeta(generate_name="banned-"))
    now = await stored.server_time(client, CERTIFICATE_REVOCATIONS, tried)
    try:
        await client.create(CERTIFICATE_REVOCATIONS, of_node(node_name, now, message, _BY, banned=True))
    except APIStatusError as err:
        if err.reason != Reason.ALREADY_EXISTS:
            raise


async def unban(client: Client, node_name: str) -> None:
    """Take the ban back, and let the certificates count again that have not ended.

    Raises:
        NodeIdentityError: it is not banned.
        APIStatusError, TransportError
    """

    def free(spec: NodeIdentitySpec) -> NodeIdentitySpec:
        if not spec.banned:
            raise NodeIdentityError(f"node {node_name} is not banned", _LIST)
        return msgspec.structs.replace(spec, banned=False, banned_reason="")

    await _change(client, node_name, free)
    for each in (await list_all(client, CERTIFICATE_REVOCATIONS, options=PAGES)).items:
        if is_of_node(each, node_name, banned=True):
            await client.delete(CERTIFICATE_REVOCATIONS, each.metadata.name)


async def renew_now(client: Client, node_name: str, now: dt.datetime) -> None:
    """Have the machine prove again what it is, and get another certificate, as soon as it looks.

    Raises:
        NodeIdentityError, APIStatusError, TransportError
    """
    moment = Time.of(now.replace(microsecond=0))
    await _change(client, node_name, lambda spec: msgspec.structs.replace(spec, renew_after=moment))


async def replace(client: Client, node_name: str, until: dt.datetime, identity: str = "") -> None:
    """Let another machine take the name, once, until then; only that of ``identity`` if one is given.

    Raises:
        NodeIdentityError, APIStatusError, TransportError
    """
    expected = ExpectedHardware(until=Time.of(until.replace(microsecond=0)), identity=identity)

    def expecting(spec: NodeIdentitySpec) -> NodeIdentitySpec:
        if spec.banned:
            raise NodeIdentityError(
                f"node {node_name} is banned, and so is every machine under its name",
                f"kubevouch node unban {node_name}, or give the new machine another name",
            )
        return msgspec.structs.replace(spec, expect_new_hardware=expected)

    await _change(client, node_name, expecting)


async def forget(client: Client, node_name: str) -> None:
    """Let the name go: the next machine that proves anything may have it, the former one among them.

    Raises:
        NodeIdentityError: nobody has it, or it is banned and would no longer be.
        APIStatusError, TransportError
    """
    found = await identity(client, node_name)
    if found.spec.banned:
        raise NodeIdentityError(
            f"node {node_name} is banned, which would be forgotten, too", f"kubevouch node unban {node_name} first"
        )
    meta = found.metadata
    exactly = DeleteOptions(preconditions=Preconditions(uid=meta.uid, resource_version=meta.resource_version))
    await client.delete(NODE_IDENTITIES, node_name, options=exactly)


async def _change(
    client: Client,
    node_name: str,
    change: Callable[[NodeIdentitySpec], NodeIdentitySpec],
    *,
    create: bool = False,
) -> None:
    def decide(found: NodeIdentity | None) -> NodeIdentity:
        if found is not None:
            return msgspec.structs.replace(found, spec=change(found.spec))
        if create:
            return NodeIdentity(metadata=ObjectMeta(name=node_name), spec=change(NodeIdentitySpec()))
        raise NodeIdentityError(f"no machine has proven to be node {node_name}", _LIST)

    await stored.change(client, NODE_IDENTITIES, node_name, "", decide)
