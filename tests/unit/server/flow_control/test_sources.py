"""Addresses as limits see them."""

import pytest

from kubevouch.server.flow_control.sources import SourceBudget
from kubevouch.util.addresses import WIDER, source_prefix, wider_prefixes


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("a unix socket", "a unix socket"),
    ],
)
def test_ipv6_counts_by_its_network(address: str, prefix: str) -> None:
    assert source_prefix(address) == prefix


@pytest.mark.parametrize(
    ("source", "networks"),
    [
        ("192.0.2.7", ("192.0.2.0/24", "192.0.0.0/20", "192.0.0.0/16")),
        ("2001:db8:1:1ff::/64", ("2001:db8:1:100::/56", "2001:db8:1::/48", "2001:db8::/32")),
        ("", ()),
        ("a unix socket", ()),
    ],
)
def test_the_networks_around_a_source(source: str, networks: tuple[str, ...]) -> None:
    assert wider_prefixes(source) == networks
    assert len(networks) <= WIDER


def test_a_burst_and_then_a_rate() -> None:
    budget = SourceBudget(rate=0.5, burst=2)
    assert [budget.spend("a", 0) for _ in range(3)] == [0, 0, 2]
    assert budget.spend("b", 0) == 0
    assert budget.spend("a", 1.0) == 1
    assert budget.spend("a", 2.0) == 0


def test_a_clock_that_stands_still_or_steps_back_gives_nothing() -> None:
    budget = SourceBudget(rate=1, burst=1)
    assert budget.spend("a", 5) == 0
    assert budget.spend("a", 4) == 1


def test_memory_is_bounded_and_the_newest_are_remembered() -> None:
    budget = SourceBudget(rate=1, burst=1, max_sources=3)
    for source in ("a", "b", "c", "d"):
        budget.spend(source, 0)
    assert len(budget) == 3
    assert budget.left("d", 0) == 0
    assert budget.left("a", 0) == 1
