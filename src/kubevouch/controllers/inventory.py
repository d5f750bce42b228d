"""What the sources of an inventory say, kept in memory by the name of the Node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kubevouch.client.cache.indexer import object_key
from kubevouch.client.cache.informer import ChangeHandler, SharedInformer
from kubevouch.machinery.meta import Object
from kubevouch.policy.inventory import Machine

T = TypeVar("T", bound=Object)


class _Known:
    """What one source says, by the key of what says it and by the name of the Node."""

    def __init__(self) -> None:
        self.has_loaded: Callable[[], bool] = lambda: False
        self._by_key: dict[str, Machine] = {}
        self._by_node: dict[str, dict[str, Machine]] = {}

    def of(self, node_name: str) -> Iterable[Machine]:
        return self._by_node.get(node_name, {}).values()

    def put(self, key: str, machine: Machine | None) -> set[str]:
        """Have ``key`` say ``machine``, or nothing. Returns the names of the Nodes that this changes."""
        former = self._by_key.get(key)
        if former == machine:
            return set()
        if former is not None:
            del self._by_key[key]
            entries = self._by_node[former.node_name]
            del entries[key]
            if not entries:
                del self._by_node[former.node_name]
        if machine is not None:
            self._by_key[key] = machine
            self._by_node.setdefault(machine.node_name, {})[key] = machine
        return {each.node_name for each in (former, machine) if each is not None}

    def replace(self, machines: Iterable[Machine]) -> set[str]:
        # By name, so that a line that is added in front changes nobody else.
        count: dict[str, int] = {}
        wanted: dict[str, Machine] = {}
        for each in machines:
            number = count[each.node_name] = count.get(each.node_name, 0) + 1
            wanted[f"{each.node_name}/{number}"] = each
        changed: set[str] = set()
        for key in self._by_key.keys() - wanted.keys():
            changed |= self.put(key, None)
        for key, machine in wanted.items():
            changed |= self.put(key, machine)
        return changed


class MachineInventory:
    """A ``policy.inventory.Inventory``; without sources nobody is expected, and nothing waits."""

    def __init__(self) -> None:
        self._sources: list[_Known] = []
        self._listeners: list[Callable[[str], None]] = []

    def machines(self, node_name: str) -> Sequence[Machine]:
        """See ``policy.inventory.Inventory``, as with the next two."""
        return tuple(machine for source in self._sources for machine in source.of(node_name))

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

    def _tell(self, node_names: Iterable[str]) -> None:
        for name in node_names:
            for listener in self._listeners:
                listener(name)
