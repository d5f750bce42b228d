"""server/flow_control/public_reads.py: floods of what is public end, and fleets that join do not feel it."""

from __future__ import annotations

import heapq

import pytest

from kubevouch.authentication.interface import UserInfo
from kubevouch.server.flow_control.public_reads import (
    ALL_BURST,
    ALL_PER_SECOND,
    CREDIT,
    SOURCE_BURST,
    SOURCE_PER_SECOND,
    PublicReads,
)
from kubevouch.server.query import Query
from kubevouch.server.request_info import RequestInfo, parse

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
    sources = [f"192.0.2.{number}" for number in range(250)]
    assert sum(answered(reads, each, 100, 0.0) for each in sources) == ALL_BURST
    assert sum(answered(reads, each, 100, 10.0) for each in sources) == ALL_PER_SECOND * 10


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
        assert not reads.wait(info, user, "192.0.2.1", 0.0)
        assert not answered(reads, "192.0.2.1", 1, 0.0)
    assert not reads.wait(POST, MACHINE, "192.0.2.1", 0.0)
    assert answered(reads, "192.0.2.1", 100, 0.0) == CREDIT
    # What is earned never exceeds the burst, and another source earns nothing by it.
    for _ in range(SOURCE_BURST):
        reads.wait(POST, MACHINE, "192.0.2.1", 0.0)
    assert answered(reads, "192.0.2.1", 2 * SOURCE_BURST, 0.0) == SOURCE_BURST


def test_a_fleet_behind_one_address_joins_while_others_flood() -> None:
    """10,000 machines start in one second; each reads, waits as it is told, reads again, and asks to be one."""
    reads, joined, asked = PublicReads(), 0, 0
    times = [(number / 10_000, number, 0) for number in range(10_000)]
    heapq.heapify(times)
    flooded = 0.0
    while times:
        now, number, done = heapq.heappop(times)
        while flooded < now:
            answered(reads, "198.51.100.1", 10, flooded)
            flooded += 0.01
        asked += 1
        wait = reads.wait(read(), ANYBODY, "192.0.2.1", now)
        if wait:
            heapq.heappush(times, (now + wait + number / 10_000, number, done))
        elif done:
            joined += 1
            reads.wait(POST, MACHINE, "192.0.2.1", now)
        else:
            heapq.heappush(times, (now + 0.05, number, 1))
    assert joined == 10_000
    # By the rate alone it would be eight minutes.
    assert now < 30
    assert asked < 5 * joined
