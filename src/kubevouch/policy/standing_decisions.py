"""Decisions that stand until somebody takes them back: revocations, bans and Require policies.

An object that stands has a finalizer of ours and an entry in the ledger. A deletion that was admitted leaves the object
there until its release is in the ledger, too. What is gone, older or weaker without that entry went another way: with
its definition, by a store that went back, by who writes to the store. It stands all the same, and is put back.

Source: kubevouch's own; docs/adr/0046-decisions-outlive-their-definitions.md.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from kubevouch.api.kubevouch_v1alpha1.catalog import (
    CERTIFICATE_REQUEST_POLICIES,
    CERTIFICATE_REVOCATIONS,
    NODE_IDENTITIES,
)
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import ENFORCE, REQUIRE, CertificateRequestPolicy
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import ENDED, CertificateRevocation
from kubevouch.api.kubevouch_v1alpha1.guards import AUTHORS_ANNOTATION
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity
from kubevouch.ledger.entries import IN_FORCE, RELEASED, Entry, Query
from kubevouch.ledger.interface import ReadableLedger
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import Object, ObjectMeta, replace_metadata
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.times import Time
from kubevouch.policy import node_identities
from kubevouch.revocation.revocations import revoked_by
from kubevouch.util.logger import get_logger
from kubevouch.wellknown import CONDITION_TRUE, DECISION_PROTECTION_FINALIZER

log = get_logger("policy.standing_decisions")

RESOURCES: Final[Mapping[str, Resource[Any]]] = {
    each.plural: each for each in (CERTIFICATE_REVOCATIONS, NODE_IDENTITIES, CERTIFICATE_REQUEST_POLICIES)
}
"""The kinds of which objects can stand, by plural."""

PART_BYTES = 128 << 10
"""Of a document in one entry, which is half as long again in the ledger."""
_PAGE = 1000

Key = tuple[str, str]
"""Plural and name."""


class Action(StrEnum):
    """What is to be done about an object, one step at a time."""

    NOTHING = "nothing"
    PROTECT = "protect"
    """Give it the finalizer, before the ledger promises that it stands."""
    RECORD = "record"
    RELEASE = "release"
    """An admitted request has taken it back: write that down, then take the finalizer away."""
    LET_GO = "let go"
    """Its definition is going, and waits for it: take the finalizer away. It stands all the same."""
    PUT_BACK = "put back"
    RESTORE = "restore"
    """It is there, and says something older or weaker than what stands."""


def stands(obj: Object) -> bool:
    """Whether losing the object would let somebody in."""
    if isinstance(obj, CertificateRevocation):
        return not any(each.type == ENDED and each.status == CONDITION_TRUE for each in obj.status.conditions)
    if isinstance(obj, NodeIdentity):
        return obj.spec.banned
    assert isinstance(obj, CertificateRequestPolicy)
    # Those that approve, too, would approve in the name of who puts them back.
    return obj.spec.effect == REQUIRE and obj.spec.mode == ENFORCE


def is_protected(obj: Object) -> bool:
    return DECISION_PROTECTION_FINALIZER in obj.metadata.finalizers


def kept_form(obj: Any) -> Any:
    """What the ledger keeps of the object. A revocation says its moments itself: another object is made later."""
    meta = obj.metadata
    authors = meta.annotations.get(AUTHORS_ANNOTATION)
    kept = ObjectMeta(
        name=meta.name, uid=meta.uid, generation=meta.generation, creation_timestamp=meta.creation_timestamp,
        annotations={} if authors is None else {AUTHORS_ANNOTATION: authors},
    )  # fmt: skip
    obj = msgspec.structs.replace(obj, metadata=kept)
    if isinstance(obj, CertificateRevocation) and meta.creation_timestamp is not None:
        revoked = revoked_by(obj)
        targets = msgspec.structs.replace(obj.spec.revoked, issued_until=Time.of(revoked.until))
        spec = msgspec.structs.replace(obj.spec, revoked=targets, revoked_at=Time.of(revoked.at))
        return msgspec.structs.replace(obj, spec=spec)
    return obj


def said(obj: Any) -> Any:
    """What of the object decides, to compare two of them."""
    if isinstance(obj, CertificateRevocation):
        return kept_form(obj).spec.revoked, obj.spec.reason
    return obj.spec


def _proven(obj: Any) -> Any:
    """Whom a ban is about besides the name."""
    if not isinstance(obj, NodeIdentity):
        return None
    status = obj.status
    return node_identities.recorded(status), node_identities.keys_of(status), status.provider_id


def judge(held: Any | None, current: Any | None, *, definition_stands: bool) -> Action:
    """What to do about one object.

    Args:
        held: as the ledger has it; None for what does not stand as far as that knows.
        current: as the server has it.
        definition_stands: its definition is there, and not about to go.
    """
    if current is None:
        return Action.NOTHING if held is None else Action.PUT_BACK
    if current.metadata.deletion_timestamp is not None:
        # 1. Deleted. Whoever deletes a definition has asked nobody about its objects.
        if not is_protected(current):
            return Action.NOTHING
        return Action.RELEASE if definition_stands else Action.LET_GO
    taken_back = held is None or _is_later(current, held)
    if not stands(current):
        # 2. Taken back by an update, or by time; or the store went back to when it had not been said.
        ended = isinstance(current, CertificateRevocation)
        if held is None:
            return Action.RELEASE if is_protected(current) else Action.NOTHING
        return Action.RELEASE if taken_back or ended else Action.RESTORE
    # 3. It stands, and may say less than it did.
    if held is not None and not taken_back and said(current) != said(held):
        return Action.RESTORE
    if held is not None and _proven(held) and not current_has_proof(current, held):
        return Action.RESTORE
    if to_protect(current).metadata != current.metadata:
        return Action.PROTECT
    # Not the generation: whoever changes a comment would have the whole object written into the ledger again. What is
    # held bears that of the last change of what it says, and each later one counts as later.
    same = held is not None and (held.metadata.uid, said(held), _proven(held)) == (
        current.metadata.uid, said(current), _proven(current),
    )  # fmt: skip
    return Action.NOTHING if same else Action.RECORD


def current_has_proof(current: Any, held: Any) -> bool:
    """Whether a ban is still about the machine that it was about: what is proven is not taken back by anybody."""
    return not isinstance(held, NodeIdentity) or not held.status.identity or bool(current.status.identity)


def _is_later(current: Object, held: Object) -> bool:
    """Whether somebody has changed what is wanted since then: the server counts that, and no store that went back."""
    return current.metadata.uid == held.metadata.uid and current.metadata.generation > held.metadata.generation


# ------------------------------------------------------------------ the ledger's


def recorded(plural: str, obj: Any, now: dt.datetime, by: str) -> tuple[Entry, ...]:
    """The entries that say that it stands."""
    document = json_codec.encode(kept_form(obj))
    parts = max(1, -(-len(document) // PART_BYTES))
    return tuple(
        Entry(
            kind=IN_FORCE,
            at=now,
            request=obj.metadata.name,
            uid=obj.metadata.uid,
            requester=by,
            resource=plural,
            document=document[part * PART_BYTES : (part + 1) * PART_BYTES],
            part=part,
            parts=parts,
        )
        for part in range(parts)
    )


async def in_force(ledger: ReadableLedger) -> dict[Key, Any]:
    """All that stands. Raises LedgerError."""
    found: dict[Key, Any] = {}
    query = Query(kinds=frozenset({IN_FORCE, RELEASED}), limit=_PAGE)
    parts: list[Entry] = []
    while page := await ledger.find(query):
        for each in page:
            entry = each.entry
            key = entry.resource, entry.request
            if entry.kind == RELEASED:
                found.pop(key, None)
                continue
            parts = [*parts, entry] if entry.part else [entry]
            if entry.part + 1 == entry.parts and (obj := _decoded(parts)) is not None:
                found[key] = obj
        query = msgspec.structs.replace(query, after=page[-1].sequence)
    return found


def _decoded(parts: list[Entry]) -> Any | None:
    entry = parts[-1]
    resource = RESOURCES.get(entry.resource)
    if resource is None:
        return None
    try:
        return json_codec.decode(b"".join(each.document for each in parts), resource.type)
    except json_codec.UnmarshalError as err:
        log.error("the ledger's copy of an object cannot be read", name=entry.request, err=str(err))
        return None


# ------------------------------------------------------------------ what is known now


class StandingDecisions:
    """What stands, and what of it the server has lost; for whoever decides by these objects."""

    def __init__(self) -> None:
        self.held: dict[Key, Any] = {}
        """As the ledger has it."""
        self.has_loaded = True
        """False from when somebody begins to look after this until it is known what is lost."""
        self._lost: dict[Key, Any] = {}
        self._listeners: list[Callable[[str, Any, bool], None]] = []
        self._waiting: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[str, Any, bool], None]) -> None:
        """``listener`` is told the plural, the object, and whether it is lost or no more."""
        self._listeners.append(listener)

    def on_load(self, listener: Callable[[], None]) -> None:
        """``listener`` is called once it is known what is lost."""
        self._waiting.append(listener)

    def lost(self, plural: str) -> Iterator[Any]:
        """Objects that stand and that the server does not have, or not as they were."""
        return (obj for (of, _), obj in list(self._lost.items()) if of == plural)

    def counts(self) -> Mapping[str, int]:
        """How many are lost, by plural."""
        return {plural: sum(of == plural for of, _ in self._lost) for plural in RESOURCES}

    def lose(self, key: Key) -> None:
        """The server has it no more. What does not stand may go."""
        held = self.held.get(key)
        if held is not None and self._lost.get(key) is not held:
            self._lost[key] = held
            self._tell(key, held, is_lost=True)

    def find_again(self, key: Key) -> None:
        """The server has it again, or nobody is held to it any more."""
        former = self._lost.pop(key, None)
        if former is not None:
            self._tell(key, former, is_lost=False)

    def hold(self, key: Key, obj: Any) -> None:
        self.held[key] = kept_form(obj)
        self.find_again(key)

    def release(self, key: Key) -> None:
        self.held.pop(key, None)
        self.find_again(key)

    def load(self, held: Mapping[Key, Any], there: Iterable[Key]) -> None:
        """Begin with what the ledger has and with what the server has."""
        self.held = dict(held)
        for key in self.held.keys() - set(there):
            self.lose(key)
        self.has_loaded = True
        for listener in self._waiting:
            listener()

    def forget(self) -> None:
        """Nothing stands: for a test that puts a store back on purpose."""
        for key in list(self.held):
            self.release(key)

    def _tell(self, key: Key, obj: Any, *, is_lost: bool) -> None:
        for listener in self._listeners:
            listener(key[0], obj, is_lost)


def to_create(held: Any) -> Any:
    """The object as it is made anew."""
    annotations = held.metadata.annotations
    meta = ObjectMeta(
        name=held.metadata.name, annotations=annotations, finalizers=[DECISION_PROTECTION_FINALIZER]
    )  # fmt: skip
    return msgspec.structs.replace(held, metadata=meta)


def to_protect(current: Any) -> Any:
    """With the finalizer, and nobody whose end would be its own."""
    finalizers = current.metadata.finalizers
    kept = finalizers if is_protected(current) else [*finalizers, DECISION_PROTECTION_FINALIZER]
    # The garbage collector would delete it with its owner, and asks admission as itself.
    owners = [] if isinstance(current, CertificateRevocation) else current.metadata.owner_references
    return replace_metadata(current, finalizers=kept, owner_references=owners)


def to_let_go(current: Any) -> Any:
    kept = [each for each in current.metadata.finalizers if each != DECISION_PROTECTION_FINALIZER]
    return replace_metadata(current, finalizers=kept)
