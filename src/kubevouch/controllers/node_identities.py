"""What follows of whose a node's name is: labels, a claim that goes with its Node, and a renewal that was refused.

A claim is let go of when the Node goes that its machine has registered. Before it has registered one there is none to
wait for, so that what was seen is written down first. A node cannot delete its own Node here: an admission policy of
ours refuses it (:mod:`kubevouch.api.kubevouch_v1alpha1.guards`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubevouch import wellknown
from kubevouch.admission.node_restriction import forbidden_labels
from kubevouch.api.catalog import NODES
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.events import WARNING
from kubevouch.api.core_v1.nodes import Taint
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS, NODE_IDENTITIES
from kubevouch.api.kubevouch_v1alpha1.node_identities import RENEWAL_FAILED, NodeIdentity, NodeIdentityStatus
from kubevouch.api.meta_v1 import Condition
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.client.stored import find
from kubevouch.config.attestation_config import AttestationConfiguration, FailedTaint
from kubevouch.controllers.event_recorder import EventRecorder
from kubevouch.controllers.interface import DONE, Request, Result
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import DeleteOptions, Preconditions
from kubevouch.policy import node_attestation, node_identities
from kubevouch.revocation.node_revocation import of_node
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.node_identities")

FAILED_EVENT, RELEASED_EVENT, LABEL_EVENT = "AttestationFailed", "NodeReleased", "LabelRefused"
_REMEMBERED = 4096


class IdentityKeeper:
    """One request for each name."""

    def __init__(
        self,
        client: Client,
        identities: Lister[NodeIdentity],
        nodes: Lister[Node],
        config: AttestationConfiguration,
        clock: Clock,
    ) -> None:
        self._client = client
        self._identities = identities
        self._nodes = nodes
        self._config = config
        self._events = EventRecorder(client, clock, wellknown.NODE_ATTESTATION_CONTROLLER)
        # By Node, the labels that were told to be left out.
        self._told: dict[str, frozenset[str]] = {}

    async def reconcile(self, request: Request) -> Result:
        """Raises APIStatusError, TransportError."""
        identity = self._identities.get(request.name)
        if identity is None or not identity.status.identity:
            return DONE
        node = self._nodes.get(request.name)
        if node is not None and node.metadata.deletion_timestamp is not None:
            node = None
        known = identity.status.node_uid
        if known and (node is None or node.metadata.uid != known):
            await self._release(identity, known)
            return DONE
        if node is None:
            return DONE
        if not known:
            status = msgspec.structs.replace(identity.status, node_uid=node.metadata.uid)
            await self._client.update(
                NODE_IDENTITIES, msgspec.structs.replace(identity, status=status), subresource="status"
            )
        failed = failed_renewal(identity)
        if failed is not None:
            await self._punish(identity, node, failed)
        await self._mark(identity, node, failed)
        return DONE

    async def _release(self, identity: NodeIdentity, uid: str) -> None:
        """Let go of the name; a ban stays, with whom it is about, and so does for whom the operator has kept the name.

        A cache may be older than what it is held against.
        """
        name = identity.metadata.name
        node = await find(self._client, NODES, name)
        if node is not None and node.metadata.uid == uid and node.metadata.deletion_timestamp is None:
            return
        if identity.spec.banned:
            return
        expected = identity.spec.expect_new_hardware
        had = {each for _, each in node_identities.recorded(identity.status)}
        if expected is not None and expected.identity and expected.identity not in had:
            # Whoever replaces a machine deletes its Node, too: the name is that of the one machine all the same.
            nobody = NodeIdentityStatus(history=identity.status.history, replaced_until=identity.status.replaced_until)
            await self._client.update(
                NODE_IDENTITIES, msgspec.structs.replace(identity, status=nobody), subresource="status"
            )
            return
        meta = identity.metadata
        exactly = DeleteOptions(preconditions=Preconditions(uid=meta.uid, resource_version=meta.resource_version))
        try:
            await self._client.delete(NODE_IDENTITIES, name, options=exactly)
        except APIStatusError as err:
            if err.reason != Reason.NOT_FOUND:
                raise
            return
        log.info(
            "a name is free again", node=name, provider=identity.status.provider, identity=identity.status.identity
        )

    async def _punish(self, identity: NodeIdentity, node: Node, failed: Condition) -> None:
        """Once for each refusal, by the name of what it makes."""
        since = failed.last_transition_time
        if not self._config.on_failed_renewal.revoke or since is None:
            return
        name = identity.metadata.name
        why = f"its renewal was refused: {failed.reason}"
        try:
            await self._client.create(
                CERTIFICATE_REVOCATIONS, of_node(name, since.datetime(), why, wellknown.NODE_ATTESTATION_CONTROLLER)
            )
        except APIStatusError as err:
            if err.reason != Reason.ALREADY_EXISTS:
                raise
            return
        about = ObjectReference(kind=NODES.kind, api_version="v1", name=name, uid=node.metadata.uid)
        await self._events.record(about, WARNING, FAILED_EVENT, f"its certificates are revoked: {failed.message}")

    async def _mark(self, identity: NodeIdentity, node: Node, failed: Condition | None) -> None:
        """Labels and the taint, as they should be; whatever else the Node has stays."""
        closed = forbidden_labels(self._config.node_labels)
        labels = node_attestation.labels_for(self._config.node_labels, identity.status.claims, closed)
        await self._tell_of_tenants(identity, node, closed)
        wanted = {**node.metadata.labels, **labels}
        taints = tainted(node.spec.taints, self._config.on_failed_renewal.taint, failed)
        if wanted == node.metadata.labels and taints == node.spec.taints:
            return
        changed = msgspec.structs.replace(
            node,
            metadata=msgspec.structs.replace(node.metadata, labels=wanted),
            spec=msgspec.structs.replace(node.spec, taints=taints),
        )
        await self._client.update(NODES, changed)

    async def _tell_of_tenants(self, identity: NodeIdentity, node: Node, closed: Iterable[str]) -> None:
        """An Event for labels that are not set, for who has configured them."""
        theirs = {each.name for each in identity.status.claims if each.tenant_controlled}
        refused = [label for label in closed if self._config.node_labels[label] in theirs]
        if refused and not set(refused) <= self._told.get(node.metadata.uid, frozenset()):
            if len(self._told) >= _REMEMBERED:
                del self._told[next(iter(self._told))]
            self._told[node.metadata.uid] = frozenset(refused)
            about = ObjectReference(kind=NODES.kind, api_version="v1", name=node.metadata.name, uid=node.metadata.uid)
            why = "whoever rents the machine writes the claim, and no node sets such a label on itself"
            message = f"attestation sets no label {', '.join(refused)}: {why}"
            log.warning("a label is not set", node=node.metadata.name, labels=refused, why=why)
            await self._events.record(about, WARNING, LABEL_EVENT, message)


def failed_renewal(identity: NodeIdentity) -> Condition | None:
    """Why the machine did not prove again what it is, until it does."""
    found = (each for each in identity.status.conditions if each.type == RENEWAL_FAILED)
    return next((each for each in found if each.status == wellknown.CONDITION_TRUE), None)


def tainted(taints: list[Taint], wanted: FailedTaint | None, failed: Condition | None) -> list[Taint]:
    """``taints`` with the one that a refused renewal asks for, or without it."""
    if wanted is None:
        return taints
    is_there = any((each.key, each.effect) == (wanted.key, wanted.effect) for each in taints)
    if failed is None:
        return [each for each in taints if (each.key, each.effect) != (wanted.key, wanted.effect)]
    return taints if is_there else [*taints, Taint(key=wanted.key, value=wanted.value, effect=wanted.effect)]
