"""How often anybody is told what anybody may read: cluster-info, and whatever else is in ``kube-public``.

Machines of a fleet share an address, and so does whoever reads for no good. They are told apart by what follows: who
joins comes again with a token, and each such request gives its source back more than a join reads.
"""

from __future__ import annotations

from kubevouch import wellknown
from kubevouch.authentication.interface import UserInfo
from kubevouch.server.flow_control.sources import SourceBudget
from kubevouch.server.request_info import RequestInfo

# A join reads twice: 500 machines behind one address start at once, and 2,000 in all.
SOURCE_BURST, SOURCE_PER_SECOND = 1_000, 20.0
ALL_BURST, ALL_PER_SECOND = 4_000, 200.0
CREDIT = 8.0
"""Reads that a certificate request of a bootstrap token is worth: those of its own join, and of three that wait."""

_ALL = ""


class PublicReads:
    """A budget for each source, and one for all of them."""

    def __init__(self, of_source: SourceBudget | None = None, of_all: SourceBudget | None = None) -> None:
        # An empty budget is false.
        self._of_source = SourceBudget(SOURCE_PER_SECOND, SOURCE_BURST) if of_source is None else of_source
        self._of_all = SourceBudget(ALL_PER_SECOND, ALL_BURST) if of_all is None else of_all
        self.refused = 0

    def wait(self, info: RequestInfo, user: UserInfo, source: str, now: float) -> int:
        """0 if the request may go on, else the whole seconds after which it is worth while to ask again.

        Args:
            source: a prefix: ``util.addresses``.
            now: monotonic, in seconds.
        """
        if user.name == wellknown.ANONYMOUS_USER:
            if info.namespace != wellknown.KUBE_PUBLIC_NAMESPACE:
                return 0
            # A source over its own budget takes nothing from that of the others.
            seconds = self._of_source.spend(source, now)
            if not seconds:
                seconds = self._of_all.spend(_ALL, now)
                if seconds:  # what others have spent costs this source nothing
                    self._of_source.give(source, 1.0, now)
            self.refused += bool(seconds)
            return seconds
        if (
            info.verb == "create"
            and info.resource == "certificatesigningrequests"
            and user.name.startswith(wellknown.BOOTSTRAP_USER_PREFIX)
        ):
            self._of_source.give(source, CREDIT, now)
            self._of_all.give(_ALL, CREDIT, now)
        return 0
