from __future__ import annotations

import datetime as dt

import pytest

from asynctest import async_test
from kubevouch.server.health import Health, HealthError
from kubevouch.server.query import Query
from kubevouch.server.request import BytesResult, Request
from kubevouch.server.request_info import parse
from kubevouch.testing import Cluster


async def passes() -> None: ...


async def fails() -> None:
    raise HealthError("the secret reason")


async def get(health: Health, path: str, query: str = "") -> tuple[int, str]:
    asked = Query(query)
    request = Request("GET", path, asked, {}, dt.datetime(2031, 1, 1, tzinfo=dt.UTC), info=parse("GET", path, asked))
    result = await health.serve(request)
    assert isinstance(result, BytesResult)
    assert result.content_type == "text/plain; charset=utf-8"
    one_passes = result.status == 200 and path.strip("/").count("/") == 1
    assert ("X-Content-Type-Options" in result.headers) is not one_passes
    return result.status, result.body.decode()


WELL = Health("livez", {"ping": passes, "etcd": passes})
SICK = Health("readyz", {"ping": passes, "etcd": fails})


@pytest.mark.parametrize(
    ("health", "path", "query", "status", "body"),
    [
        (WELL, "/livez", "", 200, "ok"),
        (WELL, "/livez/", "", 200, "ok"),
        (WELL, "/livez", "verbose", 200, "[+]ping ok\n[+]etcd ok\nlivez check passed\n"),
        (WELL, "/livez", "verbose=1&exclude=etcd", 200, "[+]ping ok\n[+]etcd excluded: ok\nlivez check passed\n"),
        (
            WELL,
            "/livez",
            "verbose&exclude=x&exclude=a",
            200,
            (
                "[+]ping ok\n[+]etcd ok\nwarn: some health checks cannot be excluded: "
                'no matches for "a", "x"\nlivez check passed\n'
            ),
        ),
        (WELL, "/livez/ping", "", 200, "ok"),
        (WELL, "/livez/other", "", 404, "404 page not found\n"),
        (SICK, "/readyz", "", 500, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"),
        (SICK, "/readyz", "exclude=etcd", 200, "ok"),
        (SICK, "/readyz/etcd", "", 500, "internal server error: etcd failed\n"),
        (SICK, "/readyz/ping", "", 200, "ok"),
        (Health("healthz", {}), "/healthz", "", 200, "ok"),
    ],
)
@async_test
async def test_endpoint(health: Health, path: str, query: str, status: int, body: str) -> None:
    assert await get(health, path, query) == (status, body)


@async_test
async def test_what_is_no_health_error_is_a_bug() -> None:
    async def broken() -> None:
        raise RuntimeError("bug")

    with pytest.raises(RuntimeError, match="bug"):
        await get(Health("livez", {"broken": broken}), "/livez")


HOOKS = tuple(
    f"poststarthook/{name}"
    for name in (
        "start-system-namespaces-controller",
        "rbac/bootstrap-roles",
        "start-cluster-authentication-info-controller",
    )
)
CHECKS = {
    "livez": ("ping", "log", "etcd", *HOOKS),
    "healthz": ("ping", "log", "etcd", "informer-sync", *HOOKS),
    "readyz": ("ping", "log", "etcd", "informer-sync", "etcd-readiness", *HOOKS, "shutdown"),
}


def test_the_checks_have_kubernetes_names_and_are_counted() -> None:
    with Cluster() as cluster:
        client = cluster.client()

        def ask(path: str) -> str:
            return cluster.run(client.raw("GET", path)).body.decode()

        for name, checks in CHECKS.items():
            assert ask(f"/{name}?verbose").splitlines() == [
                *(f"[+]{each} ok" for each in checks),
                f"{name} check passed",
            ]
        assert ask("/livez/poststarthook/rbac/bootstrap-roles") == "ok"
        slis = ask("/metrics/slis").splitlines()
        assert 'kubernetes_healthcheck{name="etcd",type="readyz"} 1.0' in slis
        hook = 'name="poststarthook/rbac/bootstrap-roles"'
        assert f'kubernetes_healthchecks_total{{{hook},status="success",type="livez"}} 2.0' in slis


@async_test
async def test_a_hook_that_is_not_done_is_told_by_its_name() -> None:
    health = Health("readyz", {"ping": passes, "shutdown": passes})
    health.add("poststarthook/late", fails)
    status, body = await get(health, "/readyz")
    assert (status, body.splitlines()[1:3]) == (
        500, ["[-]poststarthook/late failed: reason withheld", "[+]shutdown ok"],
    )  # fmt: skip
