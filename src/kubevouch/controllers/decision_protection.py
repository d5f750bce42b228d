"""decision-protection-controller: what is revoked, banned or required stands until an admitted request takes it back.

Objects can go by other ways than a request: with their definition, with a store that goes back, by the hands of who
writes to the store. Each that stands is in the ledger, and its release, too; what is gone without that is put back, and
its definition before it. Until then those who decide are told of it. Where other processes act on the cluster, each
with a ledger of its own, releases are in the cluster, too. Source: kubevouch's own;
docs/adr/0046-decisions-outlive-their-definitions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api.apiextensions_v1.conditions import ESTABLISHED, is_true
from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition, default_definition
from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.api.core_v1.events import WARNING
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS, NODE_IDENTITIES, OWN_KINDS
from kubevouch.api.kubevouch_v1alpha1.own_kind import OwnKind, definition_of, serves_as_well
from kubevouch.client.cache.informer import ChangeHandler
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client, TransportError
from kubevouch.client.stored import find
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.decision_releases import DecisionReleases, Read
from kubevouch.controllers.event_recorder import EventRecorder
from kubevouch.controllers.interface import DONE, Context, IgnorableError, ReconcileError, Request, Result
from kubevouch.ledger.entries import PUT_BACK, RELEASED, Entry
from kubevouch.ledger.interface import Ledger, LedgerError
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.times import Time
from kubevouch.policy import standing_decisions as standing
from kubevouch.policy.standing_decisions import RESOURCES, Action, Key, StandingDecisions
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.decision_protection")

NAME = wellknown.DECISION_PROTECTION_CONTROLLER
PUT_BACK_EVENT, LOST_EVENT, DEFINITION_EVENT = "DecisionPutBack", "DecisionLost", "DefinitionPutBack"

# Reads the ledger, and what the server has of it; before any other.
_BEGIN = Request("")
_DEFINITION_SECONDS = 30.0
_KINDS = {kind.resource.plural: kind for kind in OWN_KINDS}
_RACES = (Reason.CONFLICT, Reason.NOT_FOUND, Reason.ALREADY_EXISTS)


class DecisionProtection:
    """One request for each object that stands, one for each definition, and one to begin with."""

    def __init__(
        self,
        client: Client,
        listers: Mapping[str, Lister[Any]],
        decisions: StandingDecisions,
        ledger: Ledger,
        clock: Clock,
        releases: DecisionReleases | None = None,
    ) -> None:
        self._client = client
        self._listers = listers
        self._decisions = decisions
        self._ledger = ledger
        self._clock = clock
        # None where no other process acts: then nobody is believed but the ledger.
        self._releases = releases
        self._events = EventRecorder(client, clock, NAME)
        # Plurals whose definitions were whole at some time: who has never installed them does not want them.
        self._installed: set[str] = set()

    async def reconcile(self, request: Request) -> Result:
        """Raises ReconcileError, APIStatusError, TransportError."""
        try:
            if request == _BEGIN:
                await self._begin()
                return DONE
            if request.resource == CUSTOM_RESOURCE_DEFINITIONS.plural:
                return await self._keep_definition(_KINDS[request.name])
            if not self._decisions.has_loaded:
                raise IgnorableError("the ledger has not been read")
            return await self._keep(request.resource, request.name)
        except LedgerError as err:
            raise ReconcileError(f"the ledger cannot be used: {err}") from err
        except APIStatusError as err:
            if err.reason in _RACES:
                raise IgnorableError(str(err)) from err
            raise

    async def _begin(self) -> None:
        held = await standing.in_force(self._ledger)
        asked, read = list(held), Read()
        for key in asked:
            if await self._was_released(key, held[key], read):
                del held[key]
        self._decisions.load(held, (key for key in held if self._listers[key[0]].get(key[1]) is not None))
        self.look(asked)

    async def _was_released(self, key: Key, held: Any, read: Read | None = None) -> bool:
        """By another process, while it led: our ledger learns of it."""
        found = None if self._releases is None else await self._releases.find(key[0], held, read)
        if found is None:
            return False
        message = f"another process has seen it taken back at {Time.of(found.at)}, by the releases in the cluster"
        await self._ledger.append(self._released(key, held, message))
        log.info("a decision was taken back while another process led", resource=key[0], name=key[1])
        return True

    def _released(self, key: Key, obj: Any, message: str = "") -> Entry:
        return Entry(
            kind=RELEASED, at=self._clock.now(), request=key[1], uid=obj.metadata.uid, requester=NAME, resource=key[0],
            message=message,
        )  # fmt: skip

    def look(self, keys: Any) -> None:
        """Set by :func:`build`: have these looked at."""

    # -------------------------------------------------------------- objects

    async def _keep(self, plural: str, name: str) -> Result:
        key, resource = (plural, name), RESOURCES[plural]
        definition = await self._definition(plural)
        held, current = self._decisions.held.get(key), await find(self._client, resource, name)
        stands = definition is not None and definition.metadata.deletion_timestamp is None
        if stands and not (_is_whole(plural, definition) and _same(definition, await self._definition(plural))):
            # What it shows of the object may be less than there is.
            self._decisions.lose(key)
            self.look([(CUSTOM_RESOURCE_DEFINITIONS.plural, plural)])
            raise IgnorableError(f"{name} is looked at after the definition of {plural}")
        action = standing.judge(held, current, definition_stands=stands)
        if action is Action.NOTHING:
            if held is not None:
                self._decisions.find_again(key)
        elif action is Action.PROTECT:
            await self._client.update(resource, standing.to_protect(current))
        elif action is Action.RECORD:
            await self._replaced(key, held, current)
            await self._ledger.append(*standing.recorded(plural, current, self._clock.now(), NAME))
            self._decisions.hold(key, current)
        elif action is Action.RELEASE:
            await self._release(key, current)
        elif action is Action.LET_GO:
            await self._let_go(key, current)
        elif await self._was_released(key, held):
            # Another process led until now.
            self._decisions.release(key)
            self.look([key])
        else:
            await self._put_back(key, held, current)
        return DONE

    async def _release(self, key: Key, current: Any) -> None:
        """The records first: who is cut short here comes again, as the finalizer is still there."""
        if self._releases is not None:
            await self._replaced(key, self._decisions.held.get(key), current)
            await self._releases.release(key[0], current)
        if key in self._decisions.held:
            await self._ledger.append(self._released(key, current))
            self._decisions.release(key)
            log.info("a decision was taken back", resource=key[0], name=key[1])
        if standing.is_protected(current):
            await self._client.update(RESOURCES[key[0]], standing.to_let_go(current))

    async def _let_go(self, key: Key, current: Any) -> None:
        """Its definition goes and waits for it. It stands all the same, also if it was too new for the ledger."""
        if key not in self._decisions.held and standing.stands(current):
            await self._ledger.append(*standing.recorded(key[0], current, self._clock.now(), NAME))
            self._decisions.hold(key, current)
        self._decisions.lose(key)
        await self._client.update(RESOURCES[key[0]], standing.to_let_go(current))
        raise IgnorableError(f"the definition of {key[0]} goes, and {key[1]} is put back after it")

    async def _put_back(self, key: Key, held: Any, current: Any | None) -> None:
        """Raises IgnorableError while it cannot be, having said so once."""
        is_news = not any(each is held for each in self._decisions.lost(key[0]))
        self._decisions.lose(key)
        if is_news:
            log.warning("a decision went without an admitted request, and is put back", resource=key[0], name=key[1])
        if not _is_whole(key[0], await self._definition(key[0])):
            raise IgnorableError(f"{key[1]} is put back after the definition of {key[0]}")
        try:
            await self._write(key, held, current)
        except (APIStatusError, TransportError) as err:
            if isinstance(err, APIStatusError) and err.reason in _RACES:
                raise
            if is_news:
                await self._tell(key[0], key[1], LOST_EVENT, f"it stands, and cannot be put back: {err}")
            raise ReconcileError(f"{key[0]} {key[1]} stands and cannot be put back: {err}") from err
        entry = Entry(
            kind=PUT_BACK, at=self._clock.now(), request=key[1], uid=held.metadata.uid, requester=NAME, resource=key[0],
            message="it was gone" if current is None else "it said less than it did",
        )  # fmt: skip
        await self._ledger.append(entry)
        text = "it was deleted or made weaker without an admitted request; it is put back as the ledger has it"
        await self._tell(key[0], key[1], PUT_BACK_EVENT, text)

    async def _write(self, key: Key, held: Any, current: Any | None) -> None:
        resource = RESOURCES[key[0]]
        if current is None:
            made = await self._client.create(resource, standing.to_create(held))
        elif resource is CERTIFICATE_REVOCATIONS and standing.said(current)[0] != standing.said(held)[0]:
            # What a revocation is about never changes: the name is somebody else's now.
            await self._beside(key, held)
            return
        else:
            made = await self._client.update(resource, msgspec.structs.replace(current, spec=held.spec))
        if resource is NODE_IDENTITIES and not standing.current_has_proof(made, held):
            await self._client.update(resource, msgspec.structs.replace(made, status=held.status), subresource="status")

    async def _replaced(self, key: Key, held: Any | None, current: Any) -> None:
        """Other ledgers may know the former object alone."""
        if self._releases is not None and held is not None:
            await self._releases.replace(key[0], held, current)

    async def _beside(self, key: Key, held: Any) -> None:
        name = f"{key[1][:200]}-{held.metadata.uid[:8]}"
        try:
            await self._client.create(CERTIFICATE_REVOCATIONS, replace_metadata(standing.to_create(held), name=name))
        except APIStatusError as err:
            if err.reason != Reason.ALREADY_EXISTS:
                raise
        made = await self._client.get(CERTIFICATE_REVOCATIONS, name)
        await self._replaced(key, held, made)
        await self._ledger.append(*standing.recorded(key[0], made, self._clock.now(), NAME))
        self._decisions.hold((key[0], name), made)
        await self._ledger.append(
            Entry(kind=RELEASED, at=self._clock.now(), request=key[1], resource=key[0], message=f"is {name} now")
        )
        self._decisions.release(key)

    # -------------------------------------------------------------- definitions

    async def _definition(self, plural: str) -> CustomResourceDefinition | None:
        return await find(self._client, CUSTOM_RESOURCE_DEFINITIONS, _KINDS[plural].definition_name)

    async def _keep_definition(self, kind: OwnKind) -> Result:
        """Make it again if it is gone, and let it serve what it should if somebody has seen to the contrary."""
        plural, wanted = kind.resource.plural, _wanted(kind)
        found = await self._definition(plural)
        if found is not None and found.metadata.deletion_timestamp is not None:
            # The objects wait for us, and it waits for them.
            self.look([key for key in self._decisions.held if key[0] == plural])
            return Result(1.0)
        if found is not None and serves_as_well(found, wanted):
            self._installed.add(plural)
            self.look([(plural, each.metadata.name) for each in self._decisions.lost(plural)])
            return Result(_DEFINITION_SECONDS if is_true(found, ESTABLISHED) else 1.0)
        held = [key for key in self._decisions.held if key[0] == plural]
        if not held and plural not in self._installed:
            return Result(_DEFINITION_SECONDS)
        for key in held:
            self._decisions.lose(key)
        message = "the definition was deleted" if found is None else "the definition served less than it has to"
        name = wanted.metadata.name
        log.warning("a definition of ours is put back", name=name, why=message)
        try:
            await self._write_definition(found, wanted)
        except APIStatusError as err:
            if err.reason in _RACES:
                raise
            text = f"{message}, and cannot be put back: {err}: kubectl apply -f deploy/crds"
            await self._tell_about(CUSTOM_RESOURCE_DEFINITIONS, name, LOST_EVENT, text)
            raise ReconcileError(text) from err
        await self._ledger.append(
            Entry(
                kind=PUT_BACK, at=self._clock.now(), request=name, requester=NAME, message=message,
                resource=CUSTOM_RESOURCE_DEFINITIONS.plural,
            )
        )  # fmt: skip
        await self._tell_about(CUSTOM_RESOURCE_DEFINITIONS, name, DEFINITION_EVENT, f"{message}: it is put back")
        return Result(1.0)

    async def _write_definition(self, found: CustomResourceDefinition | None, wanted: CustomResourceDefinition) -> None:
        if found is None:
            await self._client.create(CUSTOM_RESOURCE_DEFINITIONS, wanted)
        else:
            changed = msgspec.structs.replace(found, spec=wanted.spec)
            await self._client.update(CUSTOM_RESOURCE_DEFINITIONS, changed)

    # -------------------------------------------------------------- what is told

    async def _tell(self, plural: str, name: str, reason: str, message: str) -> None:
        await self._tell_about(RESOURCES[plural], name, reason, message)

    async def _tell_about(self, resource: Resource[Any], name: str, reason: str, message: str) -> None:
        about = ObjectReference(kind=resource.kind, name=name, api_version=resource.api_version)
        try:
            await self._events.record(about, WARNING, reason, message)
        except (APIStatusError, TransportError) as err:
            log.info("an event could not be written", name=name, err=str(err))


@lru_cache(maxsize=32)
def _wanted(kind: OwnKind) -> CustomResourceDefinition:
    return default_definition(definition_of(kind))


def _is_whole(plural: str, found: CustomResourceDefinition | None) -> bool:
    """Whether objects are served, and all of them."""
    if found is None or found.metadata.deletion_timestamp is not None or not is_true(found, ESTABLISHED):
        return False
    return serves_as_well(found, _wanted(_KINDS[plural]))


def _same(one: CustomResourceDefinition | None, other: CustomResourceDefinition | None) -> bool:
    """Whether nobody has changed what it serves."""
    versions = [None if each is None else (each.metadata.uid, each.metadata.generation) for each in (one, other)]
    return versions[0] == versions[1]


def build(context: Context) -> QueueController | None:
    """None where another server leads."""
    if context.stands_by:
        return None
    client, decisions, revocations = context.connect(NAME), context.decisions, context.revocations
    informers = {plural: context.informers.informer(each, client=client) for plural, each in RESOURCES.items()}
    listers = {plural: each.lister for plural, each in informers.items()}
    releases = DecisionReleases(client, context.clock) if context.shares_cluster else None
    protection = DecisionProtection(client, listers, decisions, context.ledger, context.clock, releases)
    controller = QueueController(NAME, protection, context.clock)

    def look(keys: Any) -> None:
        for plural, name in keys:
            controller.queue.add(Request(name, resource=plural))

    protection.look = look  # type: ignore[method-assign]  # the queue is made around it
    decisions.has_loaded = False

    def follow(plural: str) -> None:
        def changed(obj: Any, gone: bool) -> None:
            key = plural, obj.metadata.name
            if key not in decisions.held and not standing.stands(obj) and not standing.is_protected(obj):
                return
            if gone:
                # Released before its last finalizer went, or not at all.
                decisions.lose(key)
                controller.queue.add(Request(plural, resource=CUSTOM_RESOURCE_DEFINITIONS.plural))
            controller.queue.add(Request(obj.metadata.name, resource=plural))

        controller.follow(informers[plural], ChangeHandler(changed))

    for plural in RESOURCES:
        follow(plural)

    def told(plural: str, obj: Any, is_lost: bool) -> None:
        if plural == CERTIFICATE_REVOCATIONS.plural:
            if is_lost:
                revocations.keep(obj)
            else:
                revocations.keep_no_more(obj.metadata.name)

    decisions.on_change(told)
    controller.queue.add(_BEGIN)
    for kind in OWN_KINDS:
        controller.queue.add(Request(kind.resource.plural, resource=CUSTOM_RESOURCE_DEFINITIONS.plural))
    return controller
