"""Seats, queues and turns. Pure: it is told what happens and when, and answers who may run.

Within a lane flows take turns, whatever their number of requests, as in Kubernetes' priority and fairness; a flow whose
requests weigh much has fewer of them in its turns.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kubevouch.server.flow_control.lanes import Lane, LaneLimits

T = TypeVar("T")


class Outcome(Enum):
    """What becomes of a request that arrives."""

    RUN = "run"
    WAIT = "wait"
    REFUSE = "refuse"


# What one turn of a flow is good for.
TURN_WEIGHT = 4


class _Waiting(NamedTuple, Generic[T]):
    deadline: float
    ticket: T
    weight: int


class LaneState(msgspec.Struct, Generic[T]):
    """A lane as it is now. The counters only grow."""

    limits: LaneLimits
    seats: int
    flow_seats: int
    running: int = 0
    started_this_turn: int = 0
    waiting: int = 0
    queues: OrderedDict[str, deque[_Waiting[T]]] = msgspec.field(default_factory=OrderedDict)
    # What a flow that waits has saved up for a request that weighs more than one of its turns.
    credits: dict[str, int] = msgspec.field(default_factory=dict)
    flows: dict[str, int] = msgspec.field(default_factory=dict)
    dispatched: int = 0
    refused: int = 0
    timed_out: int = 0


class FairScheduler(Generic[T]):
    """Seats of all lanes. ``T`` is whatever stands for a waiting request; it has to be hashable.

    Args:
        limits: in the order of priority.
        seats: how many requests may run at once, all lanes together.
    """

    def __init__(self, limits: Mapping[Lane, LaneLimits], seats: int) -> None:
        self._seats = seats
        self._running = 0
        self.lanes: dict[Lane, LaneState[T]] = {}
        for lane, each in limits.items():
            own = max(seats * each.share // 100, 1)
            self.lanes[lane] = LaneState(each, own, max((seats if each.borrows else own) * each.flow_seats // 100, 1))

    @property
    def waiting(self) -> int:
        return sum(state.waiting for state in self.lanes.values())

    def arrive(self, lane: Lane, flow: str, ticket: T, now: float, weight: int = 1) -> Outcome:
        """A request has come. After RUN, :meth:`leave` has to follow; after WAIT :meth:`due` names ``ticket``.

        Args:
            weight: how long it keeps the event loop, in units of the cheapest request.
        """
        state = self.lanes[lane]
        if not state.waiting and self._may_start(state, flow):
            self._start(state, flow, weight)
            return Outcome.RUN
        queue = state.queues.get(flow)
        if state.waiting >= state.limits.queue or (queue is not None and len(queue) >= state.limits.flow_queue):
            state.refused += 1
            return Outcome.REFUSE
        if queue is None:
            queue = state.queues[flow] = deque()
        queue.append(_Waiting(now + state.limits.wait, ticket, weight))
        state.waiting += 1
        return Outcome.WAIT

    def leave(self, lane: Lane, flow: str) -> None:
        """A request that ran is done."""
        state = self.lanes[lane]
        self._running -= 1
        state.running -= 1
        left = state.flows[flow] - 1
        if left:
            state.flows[flow] = left
        else:
            del state.flows[flow]

    def abandon(self, lane: Lane, flow: str, ticket: T) -> None:
        """A request that waited is gone: its client hung up."""
        state = self.lanes[lane]
        queue = state.queues.get(flow, deque())
        kept = deque(each for each in queue if each.ticket != ticket)
        state.waiting -= len(queue) - len(kept)
        self._replace(state, flow, kept)

    def new_turn(self) -> None:
        """The event loop has come round: whatever is limited by turn may go on."""
        for state in self.lanes.values():
            state.started_this_turn = 0

    def due(self) -> list[T]:
        """Those that may run now, highest lane first, each flow in its turn."""
        started: list[T] = []
        for state in self.lanes.values():
            if state.waiting:
                started += self._due_of(state)
        return started

    def expired(self, now: float) -> list[T]:
        """Those that have waited too long; they are taken out."""
        found: list[T] = []
        for state in self.lanes.values():
            for flow in list(state.queues) if state.waiting else ():
                queue = state.queues[flow]
                while queue and queue[0].deadline <= now:
                    found.append(queue.popleft().ticket)
                    state.waiting -= 1
                    state.timed_out += 1
                self._replace(state, flow, queue)
        return found

    def next_deadline(self) -> float | None:
        """When :meth:`expired` has something at the earliest."""
        heads: Iterable[float] = (
            queue[0].deadline for state in self.lanes.values() if state.waiting for queue in state.queues.values()
        )
        return min(heads, default=None)

    @property
    def is_held_by_turn(self) -> bool:
        """Whether a new turn alone lets somebody start."""
        return any(
            state.waiting and state.limits.per_turn is not None and state.started_this_turn >= state.limits.per_turn
            for state in self.lanes.values()
        )

    # -------------------------------------------------------------- rules

    def _may_start(self, state: LaneState[T], flow: str) -> bool:
        limits = state.limits
        if limits.per_turn is not None and state.started_this_turn >= limits.per_turn:
            return False
        if state.flows.get(flow, 0) >= state.flow_seats:
            return False
        # A lane's own seats are always there for it, even if others have borrowed all the rest.
        return state.running < state.seats or (limits.borrows and self._running < self._seats)

    def _start(self, state: LaneState[T], flow: str, weight: int) -> None:
        self._running += 1
        state.running += 1
        state.started_this_turn += weight
        state.dispatched += 1
        state.flows[flow] = state.flows.get(flow, 0) + 1

    def _due_of(self, state: LaneState[T]) -> list[T]:
        started: list[T] = []
        passed_over = 0
        while state.queues and passed_over < len(state.queues):
            flow, queue = next(iter(state.queues.items()))
            if self._may_start(state, flow):
                passed_over = 0
                credit = state.credits.get(flow, 0) + TURN_WEIGHT
                if credit < queue[0].weight:
                    state.credits[flow] = credit
                    state.queues.move_to_end(flow)
                    continue
                state.credits.pop(flow, None)
                following = queue.popleft()
                self._start(state, flow, following.weight)
                started.append(following.ticket)
                state.waiting -= 1
                if not queue:
                    del state.queues[flow]
                    continue
            elif state.flows.get(flow, 0) >= state.flow_seats:
                passed_over += 1
            else:
                break
            state.queues.move_to_end(flow)
        return started

    @staticmethod
    def _replace(state: LaneState[T], flow: str, queue: deque[_Waiting[T]]) -> None:
        if queue:
            state.queues[flow] = queue
        else:
            state.queues.pop(flow, None)
            state.credits.pop(flow, None)
