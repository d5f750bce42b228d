"""Who runs, who waits, who is refused."""

from kubevouch.server.flow_control.lanes import Lane, LaneLimits
from kubevouch.server.flow_control.scheduler import FairScheduler, Outcome

RUN, WAIT, REFUSE = Outcome.RUN, Outcome.WAIT, Outcome.REFUSE


def scheduler(seats: int = 4, flow_seats: int = 100, per_turn: int | None = None) -> FairScheduler[str]:
    limits = {
        Lane.JOIN: LaneLimits(share=50, flow_seats=flow_seats, per_turn=per_turn),
        Lane.ANONYMOUS: LaneLimits(share=25, borrows=False, flow_seats=100, flow_queue=2, queue=3),
    }
    return FairScheduler(limits, seats)


def test_a_lane_borrows_what_others_leave_free() -> None:
    s = scheduler(seats=4)
    assert [s.arrive(Lane.JOIN, "a", str(n), 0) for n in range(5)] == [RUN, RUN, RUN, RUN, WAIT]


def test_a_lane_that_may_not_borrow_keeps_to_its_own_seats() -> None:
    s = scheduler(seats=4)
    assert [s.arrive(Lane.ANONYMOUS, str(n), str(n), 0) for n in range(3)] == [RUN, WAIT, WAIT]


def test_own_seats_are_there_even_if_others_have_borrowed_all_the_rest() -> None:
    s = scheduler(seats=4)
    for n in range(4):
        s.arrive(Lane.JOIN, "a", str(n), 0)
    assert s.arrive(Lane.ANONYMOUS, "b", "b", 0) is RUN


def test_flows_take_turns_whatever_their_number_of_requests() -> None:
    s = scheduler(seats=1)
    s.arrive(Lane.JOIN, "noisy", "running", 0)
    for ticket in ("n1", "n2", "n3", "n4"):
        assert s.arrive(Lane.JOIN, "noisy", ticket, 0) is WAIT
    s.arrive(Lane.JOIN, "quiet", "q1", 0)
    order = []
    flow = "noisy"
    while True:
        s.leave(Lane.JOIN, flow)
        started = s.due()
        if not started:
            break
        order += started
        flow = "quiet" if started[0].startswith("q") else "noisy"
    assert order == ["n1", "q1", "n2", "n3", "n4"]


def test_one_flow_cannot_hold_all_seats() -> None:
    s = scheduler(seats=4, flow_seats=50)
    assert [s.arrive(Lane.JOIN, "a", str(n), 0) for n in range(3)] == [RUN, RUN, WAIT]
    # Who comes later is behind those that wait, and passes them only because they may not start.
    assert s.arrive(Lane.JOIN, "b", "b", 0) is WAIT
    assert s.due() == ["b"]
    s.leave(Lane.JOIN, "a")
    assert s.due() == ["2"]


def test_full_queues_refuse() -> None:
    s = scheduler(seats=4)
    s.arrive(Lane.ANONYMOUS, "a", "0", 0)
    assert [s.arrive(Lane.ANONYMOUS, "a", str(n), 0) for n in range(1, 4)] == [WAIT, WAIT, REFUSE]
    assert s.arrive(Lane.ANONYMOUS, "b", "b", 0) is WAIT
    assert s.arrive(Lane.ANONYMOUS, "c", "c", 0) is REFUSE
    assert s.lanes[Lane.ANONYMOUS].refused == 2
    assert s.arrive(Lane.JOIN, "a", "join", 0) is RUN


def test_only_so_many_start_in_one_turn() -> None:
    s = scheduler(seats=100, per_turn=2)
    assert [s.arrive(Lane.JOIN, "a", str(n), 0) for n in range(5)] == [RUN, RUN, WAIT, WAIT, WAIT]
    assert s.due() == [] and s.is_held_by_turn
    s.new_turn()
    assert s.due() == ["2", "3"] and s.is_held_by_turn
    s.new_turn()
    assert s.due() == ["4"] and not s.is_held_by_turn


def test_higher_lanes_start_first() -> None:
    s = scheduler(seats=1)
    s.arrive(Lane.ANONYMOUS, "a", "running", 0)
    s.arrive(Lane.ANONYMOUS, "a", "anonymous", 0)
    s.arrive(Lane.JOIN, "j", "first", 0)
    s.arrive(Lane.JOIN, "j", "join", 0)
    s.leave(Lane.ANONYMOUS, "a")
    s.leave(Lane.JOIN, "j")
    assert s.due() == ["join", "anonymous"]


def test_waiting_ends() -> None:
    s = scheduler(seats=1)
    s.arrive(Lane.ANONYMOUS, "a", "running", 0)
    s.arrive(Lane.ANONYMOUS, "a", "early", 10)
    s.arrive(Lane.ANONYMOUS, "b", "late", 12)
    assert s.next_deadline() == 25
    assert s.expired(24.9) == []
    assert s.expired(25) == ["early"]
    assert s.next_deadline() == 27
    s.leave(Lane.ANONYMOUS, "a")
    assert s.due() == ["late"]
    assert s.waiting == 0 and s.next_deadline() is None


def test_who_hangs_up_does_not_get_a_turn() -> None:
    s = scheduler(seats=1)
    s.arrive(Lane.ANONYMOUS, "a", "running", 0)
    s.arrive(Lane.ANONYMOUS, "a", "gone", 0)
    s.arrive(Lane.ANONYMOUS, "b", "stays", 0)
    s.abandon(Lane.ANONYMOUS, "a", "gone")
    s.leave(Lane.ANONYMOUS, "a")
    assert s.due() == ["stays"]
    assert s.waiting == 0


def test_a_turn_is_counted_in_weight() -> None:
    s = scheduler(seats=100, per_turn=20)
    assert [s.arrive(Lane.JOIN, "a", str(n), 0, weight=17) for n in range(4)] == [RUN, RUN, WAIT, WAIT]
    s.new_turn()
    assert s.due() == ["2", "3"]


def test_flows_take_turns_by_weight() -> None:
    s = scheduler(seats=1)
    s.arrive(Lane.JOIN, "heavy", "running", 0)
    for number in range(20):
        s.arrive(Lane.JOIN, "heavy", f"heavy {number}", 0, weight=16)
        s.arrive(Lane.JOIN, "light", f"light {number}", 0)
    order, flow = [], "heavy"
    for _ in range(25):
        s.leave(Lane.JOIN, flow)
        [started] = s.due()
        flow = started.partition(" ")[0]
        order.append(flow)
    # Four light ones for each heavy one, until there are no more.
    assert order[:20].count("light") == 16
    assert order[20:].count("heavy") >= 1


def test_what_weighs_most_starts_at_last_and_nothing_is_kept_of_it() -> None:
    s = scheduler(seats=1)
    s.arrive(Lane.JOIN, "a", "running", 0)
    s.arrive(Lane.JOIN, "a", "heavy", 0, weight=17)
    assert s.due() == []
    s.leave(Lane.JOIN, "a")
    assert s.due() == ["heavy"]
    assert not s.lanes[Lane.JOIN].credits and not s.lanes[Lane.JOIN].queues
