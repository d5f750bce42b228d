"""What Machines and MachinePools say of the machines of a Cluster, as a source of the inventory."""

from __future__ import annotations

from collections.abc import Callable

from kubevouch.client.cache.indexer import object_key
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.policy.cluster_api import ClusterFacts, machine_of, members_of, pool_of
from kubevouch.policy.inventory import Machine

Said = dict[str, Machine | None]
Put = Callable[[Said], None]


class ClusterMachines:
    """Keeps a source of the inventory as the objects have it.

    A machine of a MachinePool may have a Machine, too, where its infrastructure makes such: that one knows more of it,
    and counts alone.
    """

    def __init__(self, put: Put) -> None:
        self._put = put
        self._cluster: ClusterFacts | None = None
        self._machines: dict[str, CustomObject] = {}
        self._pools: dict[str, CustomObject] = {}
        # By MachinePool: what was put for it; and by MachinePool and Machine the provider ids that have a Machine.
        self._members: dict[str, frozenset[str]] = {}
        self._known: dict[str, dict[str, str]] = {}

    def saw_cluster(self, cluster: ClusterFacts | None) -> None:
        """None: there is no such Cluster, and so none of its machines is expected."""
        if cluster == self._cluster:
            return
        self._cluster = cluster
        said: Said = {}
        for key, obj in self._machines.items():
            said |= self._of_machine(key, obj)
        for key, obj in self._pools.items():
            said |= self._of_pool(key, obj)
        self._put(said)

    def saw_machine(self, obj: CustomObject, gone: bool) -> None:
        key = object_key(obj)
        former = self._machines.pop(key, None)
        if not gone:
            self._machines[key] = obj
        said = self._of_machine(key, None if gone else obj)
        for pool in {pool_of(each) for each in (former, obj) if each is not None} - {""}:
            pool_key = f"{obj.metadata.namespace}/{pool}"
            ids = self._known.setdefault(pool_key, {})
            before = set(ids.values())
            ids.pop(key, None)
            machine = None if gone or self._cluster is None else machine_of(obj, self._cluster)
            if machine is not None and pool_of(obj) == pool and machine.provider_id:
                ids[key] = machine.provider_id
            changed = before != set(ids.values())
            if not ids:
                del self._known[pool_key]
            if changed and pool_key in self._pools:
                said |= self._of_pool(pool_key, self._pools[pool_key])
        self._put(said)

    def saw_pool(self, obj: CustomObject, gone: bool) -> None:
        key = object_key(obj)
        self._pools.pop(key, None)
        if not gone:
            self._pools[key] = obj
        self._put(self._of_pool(key, None if gone else obj))

    def _of_machine(self, key: str, obj: CustomObject | None) -> Said:
        cluster = self._cluster
        return {f"machine/{key}": None if obj is None or cluster is None else machine_of(obj, cluster)}

    def _of_pool(self, key: str, obj: CustomObject | None) -> Said:
        cluster = self._cluster
        have_machines = set(self._known.get(key, {}).values())
        members = () if obj is None or cluster is None else members_of(obj, cluster)
        wanted = {each.provider_id: each for each in members if each.provider_id not in have_machines}
        said: Said = {f"machinepool/{key}/{each}": None for each in self._members.pop(key, frozenset()) - wanted.keys()}
        if wanted:
            self._members[key] = frozenset(wanted)
        return said | {f"machinepool/{key}/{provider_id}": machine for provider_id, machine in wanted.items()}
