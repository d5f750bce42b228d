"""Which machine a node's name belongs to: claims, as they are looked up and written."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.core_v1.events import NORMAL, WARNING
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.api.kubevouch_v1alpha1.catalog import NODE_IDENTITIES
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity
from kubevouch.client.cache.informer import SharedInformer
from kubevouch.client.interface import Client, ListOptions, TransportError
from kubevouch.client.pager import list_all
from kubevouch.client.stored import find
from kubevouch.controllers.event_recorder import Allowance, EventRecorder
from kubevouch.controllers.interface import IgnorableError, ReconcileError
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.scheme import Resource
from kubevouch.policy import node_identities
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.node_identities import Asked
from kubevouch.policy.standing_decisions import StandingDecisions
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.node_claims")

_IDENTITY_INDEX, _KEY_INDEX, _PROVIDER_ID_INDEX = "identity", "key", "provider-id"
_INDEXES: Mapping[str, Callable[[NodeIdentity], Iterable[str]]] = {
    _IDENTITY_INDEX: lambda each: [_identity_key(*known) for known in node_identities.recorded(each.status)],
    _KEY_INDEX: lambda each: node_identities.keys_of(each.status),
    _PROVIDER_ID_INDEX: lambda each: {each.status.provider_id} - {""},
}


class NodeClaims:
    """Args:
    informer: of NodeIdentities.
    decisions: which bans stand although the server has lost them.
    """

    def __init__(
        self,
        client: Client,
        informer: SharedInformer[NodeIdentity],
        clock: Clock,
        decisions: StandingDecisions | None = None,
    ) -> None:
        self._decisions = decisions or StandingDecisions()
        for index, function in _INDEXES.items():
            informer.indexer.add_index(index, function)
        self._client = client
        self._identities = informer.lister
        self._clock = clock
        self._events = EventRecorder(client, clock, wellknown.NODE_ATTESTATION_CONTROLLER)
        self._allowance = Allowance(clock)

    def named(self, name: str) -> NodeIdentity | None:
        """Also one that is banned and that the server has lost."""
        return next((each for each in self._lost() if each.metadata.name == name), self._identities.get(name))

    def banned(self, key: str) -> NodeIdentity | None:
        """Who is banned and has had this key."""
        lost = (each for each in self._lost() if key in node_identities.keys_of(each.status))
        there = (each for each in self._identities.by_index(_KEY_INDEX, key) if each.spec.banned)
        return next(itertools.chain(there, lost), None)

    def others(self, asked: Asked) -> list[NodeIdentity]:
        """Other names that the same machine, or the same key, has; by another method, too, as far as that is known.

        Raises:
            IdentityRefusedError: a ban is about the machine which the server has lost.
        """
        node_identities.verify_not_banned_by(self._lost(), asked)
        found = [
            each
            for provider, identity in node_identities.identities_of(asked.proofs)
            for each in self._identities.by_index(_IDENTITY_INDEX, _identity_key(provider, identity))
        ]
        for each in asked.proofs:
            found += self._identities.by_index(_PROVIDER_ID_INDEX, each.provider_id) if each.provider_id else ()
        found += self._identities.by_index(_KEY_INDEX, asked.key)
        return list({each.metadata.name: each for each in found}.values())

    def _lost(self) -> Iterator[NodeIdentity]:
        return self._decisions.lost(NODE_IDENTITIES.plural)

    async def take(self, asked: Asked) -> str:
        """Write down to whom the name belongs, and what may be signed for it.

        Of two controllers, or two machines, only one writes: the other finds another version, and looks again.

        Returns:
            What happened to the name, as ``node_identities.Decided.event``.

        Raises:
            IdentityRefusedError, ReconcileError
        """
        name = asked.node_name
        try:
            named = await find(self._client, NODE_IDENTITIES, name)
            others = [*self.others(asked), *await self._same_machine(asked)]
            decided = node_identities.decide(asked, named, others, self._clock.now())
            if named is None:
                named = await self._client.create(NODE_IDENTITIES, NodeIdentity(metadata=ObjectMeta(name=name)))
            written = await self._client.update(
                NODE_IDENTITIES, msgspec.structs.replace(named, status=decided.status), subresource="status"
            )
            if decided.event in (node_identities.CLAIM, node_identities.REPLACE):
                await self._verify_alone(written, named, asked)
        except (APIStatusError, TransportError) as err:
            raise unwritten(f"the claim of node {name}", err) from err
        if decided.event in (node_identities.CLAIM, node_identities.REPLACE):
            first = asked.proofs[0]
            log.info(
                "a machine has a name", node=name, what=decided.event, provider=first.provider, identity=first.identity,
                requester=asked.requester,
            )  # fmt: skip
            await self.tell(written, f"Node{decided.event}", f"node {name} is {first.provider} {first.identity}")
        return decided.event

    async def grant(self, name: str, uid: str, key: str, seconds: int) -> None:
        """Write down that one more certificate may be signed for the machine that has the name.

        Raises:
            ReconcileError: also where nobody has the name.
        """
        try:
            named = await find(self._client, NODE_IDENTITIES, name)
            if named is None or not named.status.identity or named.spec.banned:
                raise IgnorableError(f"node {name} is no machine that has proven what it is")
            granted = node_identities.with_grant(named.status, uid, key, seconds, self._clock.now())
            status = msgspec.structs.replace(named.status, granted=list(granted))
            await self._client.update(
                NODE_IDENTITIES, msgspec.structs.replace(named, status=status), subresource="status"
            )
        except (APIStatusError, TransportError) as err:
            raise unwritten(f"the grant of node {name}", err) from err

    async def renewal_failed(self, name: str, step: str, message: str, requester: str) -> None:
        """Write down that the machine which has the name did not prove again what it is; once, until it does.

        Raises:
            ReconcileError
        """
        try:
            named = await find(self._client, NODE_IDENTITIES, name)
            if named is None:
                return
            status = node_identities.with_failed_renewal(named.status, step, message, requester, self._clock.now())
            if status == named.status:
                return
            await self._client.update(
                NODE_IDENTITIES, msgspec.structs.replace(named, status=status), subresource="status"
            )
        except (APIStatusError, TransportError) as err:
            raise unwritten(f"the refused renewal of node {name}", err) from err

    async def tell(self, identity: NodeIdentity, reason: str, message: str, *, warning: bool = False) -> None:
        """An Event about whose a name is. Best effort: no decision waits for it."""
        meta = identity.metadata
        await self._tell(NODE_IDENTITIES, meta.name, meta.uid, reason, message, warning=warning)

    async def tell_request(self, facts: RequestFacts, reason: str, message: str) -> None:
        """Likewise, a warning about a request."""
        await self._tell(CERTIFICATE_SIGNING_REQUESTS, facts.name, facts.uid, reason, message, warning=True)

    async def _tell(
        self, resource: Resource[Any], name: str, uid: str, reason: str, message: str, *, warning: bool
    ) -> None:
        about = ObjectReference(kind=resource.kind, api_version=resource.api_version, name=name, uid=uid)
        if self._allowance.take():
            return
        with suppress(APIStatusError, TransportError):
            await self._events.record(about, WARNING if warning else NORMAL, reason, message)

    async def _same_machine(self, asked: Asked) -> list[NodeIdentity]:
        """As the server has them now, and not a cache."""
        first = asked.proofs[0]
        options = ListOptions(field_selector=f"status.identity={_escaped(first.identity)}", limit=500)
        found = (await list_all(self._client, NODE_IDENTITIES, options=options)).items
        return [each for each in found if each.status.provider == first.provider]

    async def _verify_alone(self, written: NodeIdentity, former: NodeIdentity, asked: Asked) -> None:
        """A machine that claims two names at once gets neither, and comes again: each sees the other after it wrote.

        Raises:
            IgnorableError, APIStatusError, TransportError
        """
        own = written.metadata.name
        others = [each.metadata.name for each in await self._same_machine(asked) if each.metadata.name != own]
        if others:
            await self._client.update(
                NODE_IDENTITIES, msgspec.structs.replace(written, status=former.status), subresource="status"
            )
            raise IgnorableError(f"node {own} and node {others[0]} are claimed by one machine at once")


def unwritten(what: str, err: APIStatusError | TransportError) -> ReconcileError:
    """That ``what`` is not written; nothing to worry about if somebody else was first, as he may be at any time."""
    is_race = isinstance(err, APIStatusError) and err.reason in (Reason.CONFLICT, Reason.ALREADY_EXISTS)
    return (IgnorableError if is_race else ReconcileError)(f"{what} cannot be written: {err}")


def _identity_key(provider: str, identity: str) -> str:
    return f"{provider} {identity}"


def _escaped(value: str) -> str:
    """As k8s.io/apimachinery/pkg/fields EscapeValue (Kubernetes 1.36)."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
