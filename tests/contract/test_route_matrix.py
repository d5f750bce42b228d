"""Every route of the router, shown every kind of credential, answers what the checked-in file says."""

from __future__ import annotations

import aio
from contract import route_matrix
from kubevouch.testing import Cluster

UNAUTHORIZED = 401
# Kinds that list empty: nothing can be created where nothing runs.
EMPTY_KINDS = ()
# A component that there is not is an error of no known kind (pkg/registry/core/componentstatus/rest.go).
FAILING = ("get /api/v1/componentstatuses/{name}",)


def test_every_route_answers_as_written_down() -> None:
    async def scenario() -> dict[str, dict[str, int]]:
        async with Cluster(https=True) as cluster:
            return await route_matrix.measure(cluster)

    measured, expected = aio.run(scenario()), route_matrix.read()
    assert sorted(set(measured) - set(expected)) == [], "routes that are served and not in route_matrix.tsv"
    assert sorted(set(expected) - set(measured)) == [], "routes of route_matrix.tsv that nobody serves"
    differences = {
        f"{route} by {who}": (status, expected[route].get(who))
        for route, by_name in measured.items()
        for who, status in by_name.items()
        if expected[route].get(who) != status
    }
    assert differences == {}, "measured, written down"


def test_what_proves_nothing_opens_nothing() -> None:
    """A credential that is no longer good is 401 everywhere: it does not fall back to being anonymous."""
    for route, by_name in route_matrix.read().items():
        assert {by_name[who] for who in route_matrix.REFUSED} == {UNAUTHORIZED}, route


def test_what_was_taken_away_is_gone_and_nothing_else() -> None:
    """A forged header is nothing; a binding's rights go with it; a node's certificate outlives its Node."""
    for route, by_name in route_matrix.read().items():
        for who, same in route_matrix.SAME_AS.items():
            assert by_name[who] == by_name[same], (who, route)


def test_nothing_fails_and_the_administrator_may_do_everything() -> None:
    for route, by_name in route_matrix.read().items():
        if route not in FAILING:
            assert max(by_name.values()) < 500, route
        assert by_name["admin"] not in (401, 403), route
        if not route.endswith(EMPTY_KINDS):
            assert by_name["admin"] != 405, route
