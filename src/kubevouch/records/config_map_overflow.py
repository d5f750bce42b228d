"""Entries of one kind in many ConfigMaps: each has its own by a hash; what does not fit there goes into further ones.

Who chooses names chooses their hashes, and with them the ConfigMap that he fills; so the further ones are shared by
all. An entry is never moved: it stays where it is until it goes, so that a reader who looks at all ConfigMaps of its
path finds it whenever he looks. Two writers may put a new key into two of them, where one has just become full: readers
look at all, and the next change of the key leaves one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_BYTES = 960 << 10
"""Of a ConfigMap's entries, as :func:`cost` counts them. Kubernetes takes 1 MiB of values (MaxSecretSize, 1.36)."""
# The smallest of entries are bounded in number by this, as the elements of an object are.
_EACH = 16


@dataclass(frozen=True, slots=True)
class Layout:
    """Args: ``overflows``: how many further ConfigMaps there may be; with the first ones they bound what is kept.

    ``names`` are those of all ConfigMaps that may be there.
    """

    prefix: str
    shards: tuple[str, ...]
    overflows: int
    # Made once: each machine that joins asks.
    further: tuple[str, ...] = field(init=False, repr=False, compare=False)
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _paths: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        further = tuple(f"{self.prefix}overflow-{number:02}" for number in range(self.overflows))
        paths = {shard: (f"{self.prefix}{shard}", *further) for shard in self.shards}
        object.__setattr__(self, "further", further)
        object.__setattr__(self, "names", (*(path[0] for path in paths.values()), *further))
        object.__setattr__(self, "_paths", paths)

    @property
    def capacity(self) -> int:
        """In bytes, as :func:`cost` counts them."""
        return MAX_BYTES * len(self.names)

    def path(self, shard: str) -> tuple[str, ...]:
        """The ConfigMaps in which an entry of the shard may be, its own first."""
        return self._paths[shard]


class Placed(NamedTuple):
    """What is to be written, in this order, and the keys for which there is no room; they are as they were.

    What gains comes before what only loses: who is stopped between two writes leaves a key twice, and loses none.
    """

    changed: dict[str, dict[str, str]]
    left_over: list[str]


def cost(key: str, text: str) -> int:
    return len(key.encode()) + len(text.encode()) + _EACH


def size(entries: Mapping[str, str]) -> int:
    return sum(cost(key, text) for key, text in entries.items())


def place(stored: Mapping[str, Mapping[str, str]], wanted: Mapping[str, str]) -> Placed:
    """Put entries where they are already, or where there is room first.

    Args:
        stored: the data of the ConfigMaps of a path in its order; empty for those that are not there.
        wanted: what keys are to hold; empty for those that go.
    """
    contents = {name: dict(data) for name, data in stored.items()}
    sizes = {name: size(data) for name, data in stored.items()}
    gained, left_over = set(), []
    # What goes makes room.
    for key, text in sorted(wanted.items(), key=lambda item: bool(item[1])):
        holders = [name for name, data in contents.items() if key in data]
        if text:
            places = [*holders, *(name for name in contents if name not in holders)]
            freed = {name: cost(key, contents[name][key]) for name in holders}
            needed = cost(key, text)
            target = next((name for name in places if sizes[name] - freed.get(name, 0) + needed <= MAX_BYTES), None)
            if target is None:
                left_over.append(key)
                continue
        for name in holders:
            sizes[name] -= cost(key, contents[name].pop(key))
        if text and target is not None:
            contents[target][key] = text
            sizes[target] += needed
            if stored[target].get(key) != text:
                gained.add(target)
    changed = [name for name in contents if contents[name] != stored[name]]
    changed.sort(key=lambda name: name not in gained)
    return Placed({name: contents[name] for name in changed}, left_over)
