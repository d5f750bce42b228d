"""What the cache holds: objects with their revision and their encodings, and events over them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kubevouch.machinery.codec.encrypted_values import EncryptedValueError
from kubevouch.machinery.codec.object_codec import OtherKindError
from kubevouch.machinery.meta import Object, replace_metadata
from kubevouch.storage.interface import Revision
from kubevouch.storage.watchcache.budgets import Budgets

T = TypeVar("T", bound=Object)
Decode = Callable[[bytes, Revision], Any]


_NONE_KEPT: dict[Hashable, bytes] = {}
# An object and its JSON, in bytes of the stored value.
_VERSION_FACTOR = 6


class Stored(Generic[T]):
    """An object as it is stored, with its encodings made at most once each.

    ``obj`` has its resourceVersion set; ``raw`` is the stored value, and ``decode`` makes the one from the other.
    Encodings count against ``budgets``; without them, who has the object lets go of it soon.
    """

    __slots__ = ("_budgets", "_decode", "_encodings", "_versions", "key", "obj", "raw", "revision")

    def __init__(
        self,
        key: str,
        obj: T,
        revision: Revision,
        raw: bytes,
        decode: Decode | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        self.key = key
        self.obj = obj
        self.revision = revision
        self.raw = raw
        self._decode = decode
        self._budgets = budgets
        self._encodings: dict[Hashable, bytes] | None = None
        # The same in other versions of its kind, by apiVersion.
        self._versions: dict[str, Stored[T]] | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name):  # noqa: ANN001, ANN204 - hidden from the type checker, which knows ``obj``
            """Called for what is missing: the object was given back, and is made anew for this one use."""
            if name != "obj" or self._decode is None:
                raise AttributeError(name)
            return self._decode(self.raw, self.revision)

    def encoded(self, form: Hashable, make: Callable[[Stored[T]], bytes]) -> bytes:
        """The encoding named ``form``; ``make`` is called once as long as the budget lasts, whoever asks."""
        known = self._encodings
        value = known.get(form) if known is not None else None
        if value is None:
            value = make(self)
            known = self._encodings
            if known is _NONE_KEPT:
                return value
            if known is None:
                known = self._encodings = {}
            known[form] = value  # another thread may have let go of them just now
            if self._budgets is not None:
                self._budgets.encoded(self, len(value))
        return value

    def in_version(self, api_version: str) -> Stored[T] | None:
        """What :meth:`add_version` was told, as long as the budget lasts."""
        return None if self._versions is None else self._versions.get(api_version)

    def add_version(self, api_version: str, stored: Stored[T]) -> None:
        """Keep the same object in another version, with its encodings, unless it was superseded."""
        if self._encodings is _NONE_KEPT:
            return
        if self._versions is None:
            self._versions = {}
        self._versions[api_version] = stored
        if self._budgets is not None:
            self._budgets.encoded(self, len(self.raw) * _VERSION_FACTOR)

    def drop_encodings(self) -> None:
        """Give back what lists and watches shared; the next one makes it again."""
        if self._encodings or self._versions:
            self._versions = None
            self._encodings = None
            if self._budgets is not None:
                self._budgets.released(self)

    def shrink(self) -> None:
        """Give back what can be made again from the stored value. For objects that were superseded; to be called once.

        A decoded object takes five times as much memory as its stored value.
        """
        self.drop_encodings()
        # A watch that lags behind may still want one: kept here, it would count until all that is newer had gone.
        self._encodings = _NONE_KEPT
        if self._decode is not None:
            del self.obj


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A stored value of which no object can be made; ``why`` says nothing of what is in it."""

    key: str
    revision: Revision
    why: str


def why_unreadable(err: ValueError) -> str:
    """A decoder's own words may quote a Secret's value."""
    if isinstance(err, (EncryptedValueError, OtherKindError)):
        return str(err)
    return f"the value cannot be decoded ({type(err).__name__})"


class CacheEvent(Generic[T]):
    """One write: ``current`` is None for a deletion, ``previous`` None for a creation."""

    __slots__ = ("_frames", "current", "previous", "revision")

    def __init__(self, revision: Revision, current: Stored[T] | None, previous: Stored[T] | None) -> None:
        self.revision = revision
        self.current = current
        self.previous = previous
        self._frames: dict[Hashable, Any] = {}

    @property
    def key(self) -> str:
        stored = self.current or self.previous
        assert stored is not None  # an event has at least one side
        return stored.key

    @property
    def deleted(self) -> Stored[T]:
        """The state before, under this write's revision: what a DELETED event carries.

        A watcher gets one for a deletion, and for an update after which its selector no longer matches.
        """
        stored: Stored[T] = self.once("deleted", self._deleted)
        return stored

    def _deleted(self) -> Stored[T]:
        assert self.previous is not None  # nothing can go that was not there
        obj = replace_metadata(self.previous.obj, resource_version=str(self.revision))
        return Stored(self.previous.key, obj, self.revision, self.previous.raw)

    def once(self, form: Hashable, make: Callable[[], Any]) -> Any:
        """A value computed once per event, such as the frame of a media type or a selector's verdict."""
        try:
            return self._frames[form]
        except KeyError:
            value = self._frames[form] = make()
            return value

    def shrink(self) -> None:
        """Give back the memory of what only watchers that keep up have in common. To be called once."""
        self._frames = {}
        if self.previous is not None:
            self.previous.shrink()
