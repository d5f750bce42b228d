"""server/flow_control/public_reads.py: floods of what is public end, and fleets that join do not feel it."""

from __future__ import annotations

import heapq
import ipaddress
from collections.abc import Callable

import pytest

from kubevouch.authentication.interface import UserInfo
from kubevouch.server.flow_control.public_reads import (
    ALL_BURST,
    ALL_PER_SECOND,
    CREDIT,
    RESERVE_BURST,
    RESERVE_PER_SECOND,
    SOURCE_BURST,
    SOURCE_PER_SECOND,
    PublicReads,
)
from kubevouch.server.query import Query
from kubevouch.server.request_info import RequestInfo, parse
from kubevouch.util.addresses import source_prefix

CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
ANYBODY, MACHINE = UserInfo("system:anonymous"), UserInfo("system:bootstrap:abcdef")


def read(path: str = CLUSTER_INFO) -> RequestInfo:
    return parse("GET", path, Query())


POST = parse("POST", REQUESTS, Query())


def answered(reads: PublicReads, source: str, count: int, now: float) -> int:
    return sum(not reads.wait(read(), ANYBODY, source, now) for _ in range(count))


def test_one_source_is_answered_up_to_its_budget_and_others_do_not_pay_for_it() -> None:
    reads = PublicReads()
    assert answered(reads, "192.0.2.1", 15_000, 0.0) == SOURCE_BURST
    assert answered(reads, "192.0.2.1", 15_000, 12.0) == SOURCE_PER_SECOND * 12
    assert answered(reads, "192.0.2.2", 500, 12.0) == 500
    assert reads.refused == 30_000 - SOURCE_BURST - SOURCE_PER_SECOND * 12


def test_all_sources_together_have_a_budget_too() -> None:
    reads = PublicReads()
    sources = [f"192.{number}.2.1" for number in range(250)]
    assert sum(answered(reads, each, 100, 0.0) for each in sources) == ALL_BURST + RESERVE_BURST
    assert sum(answered(reads, each, 100, 10.0) for each in sources) <= (ALL_PER_SECOND + RESERVE_PER_SECOND) * 10


def of_a_network(network: str, prefix: int, count: int) -> list[str]:
    """So many sources in it, in as many of its own networks as there can be."""
    bits, length = (32, 32) if "." in network else (128, 64)
    first = int(ipaddress.ip_network(f"{network}/{prefix}")[0])
    room = length - prefix
    spread = (int(f"{number:0{room}b}"[::-1], 2) for number in range(min(count, 1 << room)))
    return [source_prefix(str(ipaddress.ip_address(first + (each << bits - length)))) for each in spread]


FLOODS = {
    "eleven addresses": [f"198.51.{number}.1" for number in range(11)],
    "eleven /64s": [source_prefix(f"2001:{number + 9:x}:1:2::1") for number in range(11)],
    "eleven /64s of one provider": [source_prefix(f"2001:db8:{number}:2::1") for number in range(11)],
    "a /56": of_a_network("2001:db8:1:100::", 56, 100),
    "a /48": of_a_network("2001:db8:1::", 48, 200),
    "twelve /48s": [each for number in range(12) for each in of_a_network(f"2001:{number + 9:x}:1::", 48, 20)],
    "a /32": of_a_network("2001:dead::", 32, 200),
    "a /24 and a /16": [*of_a_network("198.51.100.0", 24, 100), *of_a_network("198.18.0.0", 16, 100)],
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_few_sources_or_networks_never_keep_a_new_source_out(flood: list[str]) -> None:
    reads, told_to_wait = PublicReads(), []
    for second in range(45):
        for each in flood:
            answered(reads, each, -(-(9_000 if second == 0 else 400) // len(flood)), float(second))
        if second >= 1 and second % 20 < 2:  # two reads, as a join does; and a machine that comes again later
            newcomers = ("192.0.2.1", "2001:db8:ffff:1::/64")
            told_to_wait += [reads.wait(read(), ANYBODY, each, float(second)) for each in newcomers]
    assert told_to_wait and not any(told_to_wait)
    # It is a flood: who takes part in it is told to wait.
    assert reads.refused > 1_000


def test_whoever_reads_all_the_time_has_used_up_his_share_of_the_reserve() -> None:
    reads = PublicReads()
    for second in range(40):
        for number in range(11):
            answered(reads, f"198.51.{number}.1", 40 if second else 500, float(second))
    before = reads.refused
    answered(reads, "198.51.1.1", 100, 40.0)
    assert reads.refused >= before + 80


def test_memory_is_bounded() -> None:
    reads = PublicReads()
    for number in range(12_000):
        reads.wait(read(), ANYBODY, f"2001:{number:x}:1:2::/64", number / 100)
    budgets = [reads._of_source, *reads._of_networks, *reads._shares]
    assert [len(each) for each in budgets[1:4]] == [2_000] * 3
    assert sum(map(len, budgets)) <= 10_000 + 7 * 2_000


@pytest.mark.parametrize(
    ("info", "user"),
    [
        (read(), UserInfo("system:node:a", groups=("system:nodes",))),
        (read(), MACHINE),
        (read("/livez"), ANYBODY),
        (read("/version"), ANYBODY),
        (read("/api/v1/namespaces/default/configmaps/cluster-info"), ANYBODY),
    ],
)
def test_who_has_a_credential_and_what_is_not_in_kube_public_is_not_counted(info: RequestInfo, user: UserInfo) -> None:
    reads = PublicReads()
    assert answered(reads, "192.0.2.1", SOURCE_BURST + 1, 0.0) == SOURCE_BURST
    assert not any(reads.wait(info, user, "192.0.2.1", 0.0) for _ in range(100))
    assert reads.wait(read(), ANYBODY, "192.0.2.1", 0.0)


def test_only_certificate_requests_with_a_bootstrap_token_earn_reads() -> None:
    reads = PublicReads()
    answered(reads, "192.0.2.1", SOURCE_BURST, 0.0)
    for info, user in ((POST, ANYBODY), (POST, UserInfo("system:node:a")), (read(REQUESTS), MACHINE)):
        reads.requested(info, user, "192.0.2.1", 0.0)
        assert not answered(reads, "192.0.2.1", 1, 0.0)
    reads.requested(POST, MACHINE, "192.0.2.1", 0.0)
    assert answered(reads, "192.0.2.1", 100, 0.0) == CREDIT
    # What is earned never exceeds the burst, and another source earns nothing by it.
    for _ in range(SOURCE_BURST):
        reads.requested(POST, MACHINE, "192.0.2.1", 0.0)
    assert answered(reads, "192.0.2.1", 2 * SOURCE_BURST, 0.0) == SOURCE_BURST


def _of_64_in_a_48(number: int) -> str:
    return f"2001:db8:7:{number:x}::/64"


def _of_a_16(number: int) -> str:
    return f"10.1.{number % 250}.{number // 250}"


@pytest.mark.parametrize(
    ("source_of", "flood"),
    [
        (lambda _: "192.0.2.1", "eleven addresses"),
        (lambda _: "192.0.2.1", "a /48"),
        (_of_a_16, "eleven addresses"),
        (_of_64_in_a_48, "eleven /64s"),
    ],
    ids=["behind one address", "behind one address, a /48", "of a /16", "of a /48"],
)
def test_a_fleet_joins_while_others_flood(source_of: Callable[[int], str], flood: str) -> None:
    """5,000 machines start in one second; each reads, waits as it is told, reads again, and asks to be one."""
    reads, joined, asked = PublicReads(), 0, 0
    times = [(number / 5_000, number, 0) for number in range(5_000)]
    heapq.heapify(times)
    for each in FLOODS[flood]:  # nothing of the common budget is left when the fleet starts
        answered(reads, each, -(-12_000 // len(FLOODS[flood])), -0.1)
    flooded = 0.0
    while times:
        now, number, done = heapq.heappop(times)
        while flooded < now:
            for each in FLOODS[flood]:
                answered(reads, each, -(-40 // len(FLOODS[flood])), flooded)
            flooded += 0.1
        asked += 1
        wait = reads.wait(read(), ANYBODY, source_of(number), now)
        if wait:
            heapq.heappush(times, (now + wait + number / 5_000, number, done))
        elif done:
            joined += 1
            reads.requested(POST, MACHINE, source_of(number), now)
        else:
            heapq.heappush(times, (now + 0.05, number, 1))
    assert joined == 5_000
    # By the rate of one source alone it would be four minutes.
    assert now < 30
    assert asked < 5 * joined
