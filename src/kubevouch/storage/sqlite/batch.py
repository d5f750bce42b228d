"""What a batch of writes does to the state it finds: one after the other, each failing or succeeding alone. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kubevouch.storage.interface import EventBatch, KeyValue, Revision, StoreDamaged, StoreError, StoreEvent
from kubevouch.storage.sqlite.rows import Row
from kubevouch.storage.write import Write, refusal


class Held(msgspec.Struct, frozen=True):
    """A key that the store remembers: the revision of its last write, and what that left.

    ``content`` is None after a deletion, and the damage if the value cannot be read.
    """

    revision: Revision
    content: KeyValue | StoreDamaged | None


class Decision(msgspec.Struct, frozen=True):
    """For each write its revision or why it failed; the rows to append; the events to publish; the last revision."""

    outcomes: list[Revision | StoreError]
    rows: list[Row]
    events: EventBatch
    revision: Revision


def decide(writes: Sequence[Write], state: Mapping[str, Held], revision: Revision) -> Decision:
    """Applies ``writes`` in order to ``state``, which holds every key among them that exists or once did.

    ``revision`` is the store's before the batch. A write sees what those before it did.
    """
    outcomes: list[Revision | StoreError] = []
    rows: list[Row] = []
    events: EventBatch = []
    changed: dict[str, Held] = {}
    for write in writes:
        held = changed.get(write.key) or state.get(write.key)
        content = held.content if held is not None else None
        if isinstance(content, StoreDamaged):
            outcomes.append(content)
            continue
        refused = refusal(write, content)
        if refused is not None:
            outcomes.append(refused)
            continue
        revision = Revision(revision + 1)
        left = None if write.value is None else KeyValue(write.key, write.value, revision)
        changed[write.key] = Held(revision, left)
        rows.append(Row(revision, held.revision if held is not None else 0, write.expires, write.key, write.value))
        events.append(StoreEvent(write.key, revision, write.value, content))
        outcomes.append(revision)
    return Decision(outcomes, rows, events, revision)
