"""What the two sides say: msgpack arrays, each in a frame (:mod:`kubevouch.util.framed_messages`).

The one that uses the store asks, with a number of its own; each answer bears the number of its question. Both are the
same program, started together: there are no versions.
"""

from __future__ import annotations

import msgspec

from kubevouch.storage.interface import (
    Compacted,
    FutureRevision,
    KeyExists,
    KeyValue,
    Revision,
    RevisionConflict,
    StoreDamaged,
    StoreError,
    StoreEvent,
    StoreInUse,
    StoreRefused,
    StoreTimeout,
    StoreUnavailable,
    ValueTooLarge,
)

Held = tuple[str, bytes, int]
"""A key, its value, its revision."""
Event = tuple[str, int, bytes | None, Held | None]
"""A key, a revision, its value then, and what it held before."""


class Get(msgspec.Struct, array_like=True, tag=1):
    id: int
    key: str


class List(msgspec.Struct, array_like=True, tag=2):
    """Answered by a page that may be shorter than ``limit`` (0 is none)."""

    id: int
    prefix: str
    start: str
    limit: int
    revision: int | None


class Put(msgspec.Struct, array_like=True, tag=3):
    """A create if ``expected`` is None, else an update."""

    id: int
    key: str
    value: bytes
    expected: int | None
    ttl: float | None


class Delete(msgspec.Struct, array_like=True, tag=4):
    id: int
    key: str
    expected: int


class Compact(msgspec.Struct, array_like=True, tag=5):
    id: int
    revision: int


class Newest(msgspec.Struct, array_like=True, tag=6):
    """The newest revision."""

    id: int


class Probe(msgspec.Struct, array_like=True, tag=7):
    """Whether a write works."""

    id: int


class Watch(msgspec.Struct, array_like=True, tag=8):
    """Answered by any number of batches, then perhaps by a refusal or the end."""

    id: int
    prefix: str
    after: int


class Taken(msgspec.Struct, array_like=True, tag=9):
    """A batch of the watch was taken; there is room for another."""

    id: int


class Unwatch(msgspec.Struct, array_like=True, tag=10):
    id: int


Question = Get | List | Put | Delete | Compact | Newest | Probe | Watch | Taken | Unwatch


class Found(msgspec.Struct, array_like=True, tag=1):
    id: int
    held: Held | None


class Listed(msgspec.Struct, array_like=True, tag=2):
    id: int
    items: list[Held]
    revision: int
    more: bool
    total: int


class Done(msgspec.Struct, array_like=True, tag=3):
    """Of a write and for the newest revision, that revision."""

    id: int
    revision: int


class Batch(msgspec.Struct, array_like=True, tag=4):
    id: int
    events: list[Event]


class Ended(msgspec.Struct, array_like=True, tag=5):
    """The watch is over without an error."""

    id: int


class Refused(msgspec.Struct, array_like=True, tag=6):
    """A :class:`StoreError` by its class, with what its constructor takes."""

    id: int
    error: str
    text: str
    other: str = ""
    revisions: tuple[int, int] = (0, 0)
    held: Held | None = None


Answer = Found | Listed | Done | Batch | Ended | Refused


def held(kept: KeyValue | None) -> Held | None:
    return None if kept is None else (kept.key, kept.value, kept.revision)


def key_value(found: Held | None) -> KeyValue | None:
    return None if found is None else KeyValue(found[0], found[1], Revision(found[2]))


def event(change: StoreEvent) -> Event:
    return change.key, change.revision, change.value, held(change.previous)


def store_event(found: Event) -> StoreEvent:
    return StoreEvent(found[0], Revision(found[1]), found[2], key_value(found[3]))


# By name, the nearest first: a store may have errors of its own, and says by their base what can be done about them.
_UNAVAILABLE = {
    each.__name__: each for each in (StoreDamaged, StoreInUse, StoreRefused, StoreTimeout, StoreUnavailable)
}


def refused(id_: int, error: StoreError) -> Refused:
    match error:
        case KeyExists(key=key):
            return Refused(id_, KeyExists.__name__, key)
        case RevisionConflict(key=key, current=current):
            return Refused(id_, RevisionConflict.__name__, key, held=held(current))
        case Compacted(asked=asked, oldest=oldest):
            return Refused(id_, Compacted.__name__, "", revisions=(asked, oldest))
        case FutureRevision(asked=asked, current=newest):
            return Refused(id_, FutureRevision.__name__, "", revisions=(asked, newest))
        case ValueTooLarge():
            return Refused(id_, ValueTooLarge.__name__, str(error))
        case StoreUnavailable(got=got):
            name = next(name for name, kind in _UNAVAILABLE.items() if isinstance(error, kind))
            return Refused(id_, name, str(error), got)
    return Refused(id_, StoreError.__name__, str(error))


def store_error(found: Refused) -> StoreError:
    first, second = (Revision(each) for each in found.revisions)
    match found.error:
        case "KeyExists":
            return KeyExists(found.text)
        case "RevisionConflict":
            return RevisionConflict(found.text, key_value(found.held))
        case "Compacted":
            return Compacted(first, second)
        case "FutureRevision":
            return FutureRevision(first, second)
        case "ValueTooLarge":
            return ValueTooLarge(found.text)
    unavailable = _UNAVAILABLE.get(found.error)
    return StoreError(found.text) if unavailable is None else unavailable(found.text, found.other)
