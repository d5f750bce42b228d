"""How many bytes a writer may have stored in a time.

Every write costs what its object has, however little of it changes: a revision on disk, a superseded value in the watch
history, an event for each watch. Requests are shared out fairly elsewhere, by their number. Kubernetes has no such
limit: one kubelet's credential fills etcd.
"""

from __future__ import annotations

import math
from collections import OrderedDict

import msgspec

from kubevouch import wellknown
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery import errors
from kubevouch.records.node_recovery import RECOVERERS_GROUP
from kubevouch.util.addresses import source_prefix
from kubevouch.util.clock import Clock

# More writers than any cluster has nodes; who was not seen for longest begins anew.
MAX_WRITERS = 10_000

_CONTROL_PLANE = frozenset({wellknown.KUBE_CONTROLLER_MANAGER_USER, wellknown.KUBE_SCHEDULER_USER})
_SYSTEM_ACCOUNTS = f"{wellknown.SERVICE_ACCOUNTS_GROUP_PREFIX}{wellknown.KUBE_SYSTEM_NAMESPACE}"


class Allowance(msgspec.Struct, frozen=True):
    """``rate`` bytes a second, ``burst`` at once. What an object has up to ``free`` bytes costs nothing."""

    rate: int
    burst: int
    free: int = 0


# A kubelet's status has 20 to 50 KB every 10 s at most, its Lease 1 KB, its Events some KB in bad minutes. What stays
# of it for an hour, its Events, is below 64 MiB.
NODE = Allowance(16 << 10, 4 << 20)
# A fleet joins with one token, hundreds a second, with requests of 1 to 4 KB: those are bounded by their number.
BOOTSTRAP = Allowance(16 << 10, 4 << 20, free=8 << 10)
# All who have one token together: whoever has stolen it writes from one address, and leaves others theirs.
BOOTSTRAP_IN_ALL = Allowance(256 << 10, 64 << 20, free=8 << 10)
WORKLOAD = Allowance(256 << 10, 64 << 20)
CONTROL_PLANE = Allowance(1 << 20, 256 << 20)


def allowance_of(user: UserInfo) -> Allowance | None:
    """None is without limit: for who may do anything else as well."""
    if wellknown.MASTERS_GROUP in user.groups or wellknown.CLUSTER_ADMINS_GROUP in user.groups:
        return None
    if wellknown.NODES_GROUP in user.groups:
        return NODE
    if user.name.startswith(wellknown.BOOTSTRAP_USER_PREFIX) or RECOVERERS_GROUP in user.groups:
        return BOOTSTRAP
    if user.name in _CONTROL_PLANE or _SYSTEM_ACCOUNTS in user.groups:
        return CONTROL_PLANE
    return WORKLOAD


class WriteBudget:
    """What each writer has left."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self.refused = 0

    def clear(self) -> None:
        """Everybody has everything again."""
        self._left.clear()

    def spend(self, user: UserInfo, size: int, source: str = "") -> None:
        """``user`` writes an object of ``size`` bytes from the address ``source``. Who has anything left may, and then
        has less than nothing.

        Raises:
            APIStatusError: 429, with the time until there is something left.
        """
        allowance = allowance_of(user)
        if allowance is None or size <= allowance.free:
            return
        accounts = [(user.name, allowance)]
        if allowance is BOOTSTRAP and source:
            accounts = [(f"{user.name} {source_prefix(source)}", BOOTSTRAP), (user.name, BOOTSTRAP_IN_ALL)]
        now = self._clock.monotonic()
        left = {name: self._left_of(name, each, now) for name, each in accounts}
        for name, each in accounts:
            if left[name] <= 0:
                self.refused += 1
                raise errors.too_many_requests(
                    f"{user.name} has written too much: objects of {each.rate >> 10} KiB a second in all may be "
                    f"written, {each.burst >> 20} MiB at once",
                    math.floor(-left[name] / each.rate) + 1,
                )
        for name, each in accounts:
            self._left[name] = (left[name] - (size - each.free), now)
            self._left.move_to_end(name)
            if len(self._left) > MAX_WRITERS:
                self._left.popitem(last=False)

    def _left_of(self, name: str, allowance: Allowance, now: float) -> float:
        left, at = self._left.get(name, (float(allowance.burst), now))
        return min(allowance.burst, left + max(now - at, 0.0) * allowance.rate)
