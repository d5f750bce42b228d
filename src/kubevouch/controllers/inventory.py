"""What the sources of an inventory say, kept in memory by the name of the Node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import TypeVar

from kubevouch.client.cache.indexer import object_key
from kubevouch.client.cache.informer import ChangeHandler, SharedInformer
from kubevouch.machinery.meta import Object
from kubevouch.policy.inventory import Identity, Machine

T = TypeVar("T", bound=Object)


class _By(Enum):
    """What a machine is looked up by."""

    NODE = "node name"
    CANDIDATE = "node name that it may have"
    PROVIDER_ID = "provider id"
    IDENTITY = "identity"


_Place = tuple[_By, str | Identity]


class _Known:
    """What one source says, by the key of what says it and by what it is looked up by."""

    def __init__(self) -> None:
        self.has_loaded: Callable[[], bool] = lambda: False
        self._by_key: dict[str, Machine] = {}
        self._places: dict[_Place, dict[str, Machine]] = {}

    def of(self, by: _By, value: str | Identity) -> Iterable[Machine]:
        return self._places.get((by, value), {}).values()

    def put(self, key: str, machine: Machine | None) -> set[str]:
        """Have ``key`` say ``machine``, or nothing. Returns the names of the Nodes that this changes."""
        former = self._by_key.get(key)
        if former == machine:
            return set()
        if former is not None:
            del self._by_key[key]
            for place in _places_of(former):
                entries = self._places[place]
                del entries[key]
                if not entries:
                    del self._places[place]
        if machine is not None:
            self._by_key[key] = machine
            for place in _places_of(machine):
                self._places.setdefault(place, {})[key] = machine
        return {name for each in (former, machine) if each is not None for name in _names_of(each)}

    def replace(self, machines: Iterable[Machine]) -> set[str]:
        # By name, so that a line that is added in front changes nobody else.
        count: dict[str, int] = {}
        wanted: dict[str, Machine] = {}
        for each in machines:
            name = each.node_name or each.provider_id
            number = count[name] = count.get(name, 0) + 1
            wanted[f"{name}/{number}"] = each
        changed: set[str] = set()
        for key in self._by_key.keys() - wanted.keys():
            changed |= self.put(key, None)
        for key, machine in wanted.items():
            changed |= self.put(key, machine)
        return changed


def _places_of(machine: Machine) -> list[_Place]:
    places: list[_Place] = [
        (_By.NODE, machine.node_name), (_By.PROVIDER_ID, machine.provider_id),
        *((_By.IDENTITY, identity) for identity in machine.identities),
        *(() if machine.node_name else ((_By.CANDIDATE, name) for name in machine.names)),
    ]  # fmt: skip
    # Each place once: what is put there twice could not be taken away twice.
    return [place for place in dict.fromkeys(places) if place[1]]


def _names_of(machine: Machine) -> Sequence[str]:
    return (machine.node_name,) if machine.node_name else machine.names or ("",)


class MachineInventory:
    """A ``policy.inventory.Inventory``; without sources nobody is expected, and nothing waits."""

    def __init__(self) -> None:
        self._sources: list[_Known] = []
        self._listeners: list[Callable[[str], None]] = []

    def machines(self, node_name: str) -> Sequence[Machine]:
        """See ``policy.inventory.Inventory``, as with all up to ``on_change``."""
        return self._of(_By.NODE, node_name)

    def candidates(self, node_name: str) -> Sequence[Machine]:
        return self._of(_By.NODE, node_name, _By.CANDIDATE)

    def provided(self, provider_id: str) -> Sequence[Machine]:
        return self._of(_By.PROVIDER_ID, provider_id)

    def identified(self, identity: Identity) -> Sequence[Machine]:
        return self._of(_By.IDENTITY, identity)

    def _of(self, by: _By, value: str | Identity, *further: _By) -> tuple[Machine, ...]:
        return tuple(machine for source in self._sources for way in (by, *further) for machine in source.of(way, value))

    def has_loaded(self) -> bool:
        return all(source.has_loaded() for source in self._sources)

    def on_change(self, changed: Callable[[str], None]) -> None:
        self._listeners.append(changed)

    def add_documents(self) -> Callable[[Iterable[Machine]], None]:
        """One more source. Returns what takes all that it says, each time that it is read."""
        known = _Known()
        self._sources.append(known)

        def replace(machines: Iterable[Machine]) -> None:
            changed = known.replace(machines)
            known.has_loaded = lambda: True
            self._tell(changed)

        return replace

    def add_objects(self, informer: SharedInformer[T], convert: Callable[[T], Machine | None]) -> None:
        """Have the objects of ``informer`` be one more source; None says nothing of a machine."""
        known = _Known()
        known.has_loaded = lambda: informer.synced
        self._sources.append(known)

        def changed(obj: T, gone: bool) -> None:
            self._tell(known.put(object_key(obj), None if gone else convert(obj)))

        informer.add_handler(ChangeHandler(changed))

    def add_source(self, has_loaded: Callable[[], bool]) -> Callable[[Mapping[str, Machine | None]], None]:
        """One more source. Returns what has keys of its own say of a machine, or nothing any more.

        Listeners are told once of each name, however many machines may have it.
        """
        known = _Known()
        known.has_loaded = has_loaded
        self._sources.append(known)

        def put(said: Mapping[str, Machine | None]) -> None:
            self._tell({name for key, machine in said.items() for name in known.put(key, machine)})

        return put

    def _tell(self, node_names: Iterable[str]) -> None:
        for name in node_names:
            for listener in self._listeners:
                listener(name)
