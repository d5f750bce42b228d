"""Whoever sends requests, with or without a credential, chooses no more than a bounded number of series."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from asynctest import async_test
from kubevouch.server.metrics import series
from kubevouch.server.metrics.catalog import Metrics, exposition
from served_world import Served, served

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "FROB")
NAMES = 400


async def _series(at: Served) -> int:
    body, _ = await exposition(at.server.api.metrics.registry, "")
    return sum(not line.startswith(b"#") for line in body.splitlines())


async def _labels(at: Served) -> str:
    body, _ = await exposition(at.server.api.metrics.registry, "")
    return body.decode()


async def _send(session: aiohttp.ClientSession, method: str, path: str) -> None:
    headers = {"User-Agent": path[-40:]}
    async with session.request(method, path, data=None if method == "HEAD" else b"{}", headers=headers) as answer:
        await answer.read()


async def _ask_for_names(session: aiohttp.ClientSession, count: int) -> None:
    for number in range(count):
        method = METHODS[number % len(METHODS)]
        await _send(session, method, f"/apis/g{number}.example/v{number}/r{number}")
        await _send(session, method, f"/apis/certificates.k8s.io/v1/certificatesigningrequests/a/sub{number}")


@async_test
@pytest.mark.parametrize("credential", ["none", "bad", "token"])
async def test_names_that_are_not_served_make_no_series(tmp_path: Path, credential: str) -> None:
    async with served(tmp_path) as at:
        token = {"none": "", "bad": "nobody", "token": at.token}[credential]
        async with at.session(token) as session:
            await _ask_for_names(session, len(METHODS))
            before = await _series(at)
            await _ask_for_names(session, NAMES)
            assert await _series(at) <= before + NAMES // 4  # other codes: 429 in place of 401, and what time brings
            text = await _labels(at)
        assert ".example" not in text
        assert "sub1" not in text


@async_test
async def test_random_requests_stay_below_the_bound(tmp_path: Path) -> None:
    """Served and unserved names, right and wrong verbs, scopes, versions, subresources: all mixed."""
    dice = random.Random(9)
    async with served(tmp_path) as at, at.session() as anonymous, at.session(at.token) as joiner:
        endpoints = list(at.server.api.served.endpoints)
        for _ in range(1500):
            group, version, plural = dice.choice(endpoints)
            group = dice.choice((group, group, "other.example"))
            parts = ["api" if not group else f"apis/{group}", dice.choice((version, version, "v9"))]
            parts += dice.choice(([], ["namespaces", f"n{dice.random()}"], ["watch"]))
            parts += [dice.choice((plural, plural, f"r{dice.random()}"))]
            parts += dice.choice(([], [f"o{dice.random()}"], [f"o{dice.random()}", dice.choice(("status", "x", "y"))]))
            query = dice.choice(("", "?dryRun=All", f"?dryRun={dice.random()}", "?timeoutSeconds=1"))
            await _send(dice.choice((anonymous, joiner)), dice.choice(METHODS), f"/{'/'.join(parts)}{query}")
        registry = at.server.api.metrics.registry
        for family in registry.collect():
            assert len(family.samples) <= _most_samples(registry, family.name), family.name
            assert not any("0." in value for each in family.samples for k, value in each.labels.items() if k != "le")


_BOUNDED = (series.Bounded, series.Counter, series.Histogram)


def _most_samples(registry: CollectorRegistry, name: str) -> int:
    collector = registry._names_to_collectors.get(name)
    bound = collector.max_series + 1 if isinstance(collector, _BOUNDED) else 100
    buckets = len(collector._bounds) + 3 if isinstance(collector, series.Histogram) else 2
    return int(bound * buckets)


@async_test
async def test_every_family_with_labels_has_a_bound(tmp_path: Path) -> None:
    """All that a whole server registers; a new metric of prometheus_client's own classes fails here."""
    async with served(tmp_path) as at:
        collectors = list(at.server.api.metrics.registry._collector_to_names)
        labelled = [each for each in collectors if isinstance(each, MetricWrapperBase) and each._labelnames]
        assert labelled
        assert [str(each) for each in labelled if not isinstance(each, series.Bounded)] == []
        bounds = [each.max_series for each in collectors if isinstance(each, _BOUNDED)]
        assert len(bounds) > len(labelled)
        assert max(bounds) <= 5000


@pytest.mark.parametrize("kind", [series.Counter, series.Gauge, series.Level])
def test_a_full_family_takes_all_else_as_one(kind: type[series.Counter | series.Gauge]) -> None:
    metric = kind("x", "X.", ("a", "b"), registry=CollectorRegistry(), max_series=3)
    for number in range(1000):
        metric.labels(str(number), "b").inc()
    samples = [each for each in next(iter(metric.collect())).samples if not each.name.endswith("_created")]
    counted = {tuple(each.labels.values()): each.value for each in samples}
    assert counted == {("0", "b"): 1, ("1", "b"): 1, ("2", "b"): 1, ("other", "other"): 997}


def test_a_full_histogram_takes_all_else_as_one() -> None:
    metric = series.Histogram("x", "X.", ("a",), buckets=(1,), registry=CollectorRegistry(), max_series=3)
    for number in range(1000):
        metric.observe((str(number),), 0.5)
    counts = {e.labels["a"]: e.value for part in metric.collect() for e in part.samples if e.name == "x_count"}
    assert counts == {"0": 1, "1": 1, "2": 1, "other": 997}


@async_test
async def test_a_scrape_of_full_families_gives_way() -> None:
    """As many turns of the loop as slices of samples; one head for each family, whatever the number of slices."""
    metrics = Metrics()
    for number in range(9000):
        metrics.request((f"V{number}", "", "", "", "", "", "apiserver", ""), 200, 0.1, watch=False)
    turns = 0
    done = False

    async def count() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(count())
    for accept in ("", "application/openmetrics-text; version=1.0.0"):
        turns = 0
        body, _ = await exposition(metrics.registry, accept)
        samples = sum(not line.startswith(b"#") for line in body.splitlines())
        assert samples < 50_000
        assert turns >= samples // 2000
        assert body.count(b"# TYPE apiserver_request_duration_seconds ") == 1
        assert body.count(b"# EOF") == bool(accept)
    done = True
    await task
