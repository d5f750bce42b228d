"""Who has to hang up, by pure counting."""

from __future__ import annotations

from dataclasses import dataclass

from kubevouch.server.flow_control.head_memory import HeadBudget, HeadMemory


@dataclass(eq=False)
class Client:
    is_busy: bool = False
    is_cut_off: bool = False

    def cut_off(self) -> None:
        self.is_cut_off = True


def cut(clients: list[Client]) -> list[int]:
    return [number for number, each in enumerate(clients) if each.is_cut_off]


def test_who_has_held_the_most_for_longest_gives_way() -> None:
    budget, clients = HeadBudget(free=10, total=100), [Client() for _ in range(6)]
    for each in clients[:3]:
        budget.charge(each, 42)
    assert budget.held == 96
    budget.charge(clients[3], 10)
    assert (budget.held, cut(clients)) == (96, [])
    budget.charge(clients[3], 20)
    assert (budget.held, cut(clients)) == (74, [0])
    budget.charge(clients[1], 0)
    assert budget.held == 42


def test_what_is_given_back_counts_no_more() -> None:
    memory, client = HeadMemory(HeadBudget(0, 100), HeadBudget(0, 1000)), Client()
    first = memory._first
    memory.add(client)
    memory.charge(client, 100)
    memory.authenticated(client)
    assert first.held == 0
    memory.charge(client, 1000)
    assert not client.is_cut_off
    memory.forget(client)
    assert memory._later.held == 0


def test_the_idle_one_that_came_first_gives_way_to_one_more() -> None:
    memory = HeadMemory(unauthenticated=3)
    clients = [Client(is_busy=True), *(Client() for _ in range(4))]
    for each in clients[:4]:
        memory.add(each)
    assert cut(clients) == [1]
    memory.authenticated(clients[2])
    memory.add(clients[4])
    assert cut(clients) == [1]


def test_where_all_are_busy_the_next_one_goes() -> None:
    memory = HeadMemory(unauthenticated=1)
    memory.add(Client(is_busy=True))
    late = Client()
    memory.add(late)
    assert late.is_cut_off
