"""How often anybody is told what anybody may read: cluster-info, and whatever else is in ``kube-public``.

Machines of a fleet share an address, and so does whoever reads for no good. They are told apart by what follows: who
joins comes again with a token, and each certificate request that is taken gives its source back more than a join reads.

All sources have one budget, which a few that read all the time use up. So a part of it is set apart, of which each
source has a small share, and each network a share for all sources in it: who has many addresses in a network has no
more of it than the network. It takes a hundred sources to leave nothing to one that has read little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubevouch import wellknown
from kubevouch.authentication.interface import UserInfo
from kubevouch.server.flow_control.sources import SourceBudget
from kubevouch.server.request_info import RequestInfo
from kubevouch.util.addresses import WIDER, wider_prefixes

# A join reads twice: 500 machines behind one address start at once, and 2,000 in all.
SOURCE_BURST, SOURCE_PER_SECOND = 1_000, 20.0
NETWORK_BURST, NETWORK_PER_SECOND = 1_500, 75.0
ALL_BURST, ALL_PER_SECOND = 2_000, 150.0
RESERVE_BURST, RESERVE_PER_SECOND = 2_000, 50.0
# Of the reserve: of a source, and of each wider network around it. A network has more than one in it, so that nobody
# uses up his provider's by himself. 100 sources use the reserve up at once, 25 sites with a /48 each, or six providers;
# to keep it so takes 500, 31 and 15.
SHARES = ((20, 0.1), (40, 0.4), (80, 1.6), (320, 3.2))
CREDIT = 8.0
"""Reads that a certificate request of a bootstrap token is worth: those of its own join, and of three that wait."""

# Networks that are remembered; who has more than so many is not kept out by shares.
_MAX_NETWORKS = 2_000
_ALL = ""

_Bill = Sequence[tuple[SourceBudget, str]]
"""The budgets that a read takes one from each of."""


def is_in_kube_public(info: RequestInfo) -> bool:
    return info.namespace == wellknown.KUBE_PUBLIC_NAMESPACE


class PublicReads:
    """Budgets of each source, of the networks around it, and of all; and the reserve.

    Args:
        is_public: which requests take from them.
    """

    def __init__(
        self,
        of_source: SourceBudget | None = None,
        of_all: SourceBudget | None = None,
        reserve: SourceBudget | None = None,
        is_public: Callable[[RequestInfo], bool] = is_in_kube_public,
    ) -> None:
        self._is_public = is_public
        # An empty budget is false.
        self._of_source = SourceBudget(SOURCE_PER_SECOND, SOURCE_BURST) if of_source is None else of_source
        self._of_all = SourceBudget(ALL_PER_SECOND, ALL_BURST) if of_all is None else of_all
        self._reserve = SourceBudget(RESERVE_PER_SECOND, RESERVE_BURST) if reserve is None else reserve
        self._of_networks = [
            SourceBudget(NETWORK_PER_SECOND, NETWORK_BURST, max_sources=_MAX_NETWORKS) for _ in range(WIDER)
        ]
        self._shares = [SourceBudget(rate, burst, max_sources=_MAX_NETWORKS) for burst, rate in SHARES]
        self.refused = 0

    def clear(self) -> None:
        """Nobody has read anything yet."""
        for budget in (self._of_source, self._of_all, self._reserve, *self._of_networks, *self._shares):
            budget.clear()

    def wait(self, info: RequestInfo, user: UserInfo, source: str, now: float) -> int:
        """0 if the request may go on, else the whole seconds after which it is worth while to ask again.

        Args:
            source: a prefix: ``util.addresses``.
            now: monotonic, in seconds.
        """
        if user.name != wellknown.ANONYMOUS_USER or not self._is_public(info):
            return 0
        waits = []
        for bill in self._bills(source):
            seconds = max(budget.wait(key, now) for budget, key in bill)
            if not seconds:
                for budget, key in bill:
                    budget.spend(key, now)
                return 0
            waits.append(seconds)
        # Who is refused has taken nothing: what others have spent costs this source nothing, nor the other way round.
        self.refused += 1
        return min(waits)

    def requested(self, info: RequestInfo, user: UserInfo, source: str, now: float) -> None:
        """A request was granted: a certificate request that is stored earns its source what it has read.

        Called once the outcome is known, or a token that may do nothing would earn reads.
        """
        if (
            info.verb == "create"
            and info.resource == "certificatesigningrequests"
            and user.name.startswith(wellknown.BOOTSTRAP_USER_PREFIX)
        ):
            common, reserved = self._bills(source)
            for budget, key in (*common, *reserved[1:]):
                budget.give(key, CREDIT, now)

    def _bills(self, source: str) -> tuple[_Bill, _Bill]:
        """Of the common budget, and of the reserve; both begin with the source's own."""
        own, networks = (self._of_source, source), wider_prefixes(source)
        common = [own, *zip(self._of_networks, networks, strict=False), (self._of_all, _ALL)]
        return common, [own, *zip(self._shares, (source, *networks), strict=False), (self._reserve, _ALL)]
