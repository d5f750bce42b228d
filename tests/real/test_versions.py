"""The rows of the table of versions in docs/compatibility.md, as far as this kube-apiserver can play older ones."""

from __future__ import annotations

import asyncio
import random
import re
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

import peers
import processes
from asynctest import async_test
from kubevouch.agent.certificate_manager import CertificateManager
from kubevouch.agent.serving import AddressWatch, ServingTemplate
from kubevouch.client.interface import Client
from kubevouch.util.clock import SystemClock
from real import behaviours
from real_cluster import RealCluster, program

_LISTED = tomllib.loads((peers.ROOT / "docs" / "compatibility.toml").read_text())["version"]
_TRIED = [each for each in _LISTED if each["tried"] == "emulated"]
_MUTATING = "mutatingadmissionpolicies.admissionregistration.k8s.io"


def _emulated() -> list[str]:
    """The versions that the program of the folder can be, oldest first."""
    told = processes.run(program("kube-apiserver"), "--help", cwd=peers.ROOT).stdout
    span = re.search(r"kube=1\.(\d+)\.\.1\.(\d+)\(default", told)
    assert span, told[:500]
    return [f"1.{minor}" for minor in range(int(span[1]), int(span[2]) + 1)]


def test_every_version_that_can_be_tried_is_tried() -> None:
    listed = [each["kubernetes"] for each in _LISTED if each["tried"] in ("emulated", "itself")]
    assert sorted(listed) == _emulated()


@pytest.mark.parametrize("row", _TRIED, ids=lambda row: str(row["kubernetes"]))
def test_an_older_one_has_what_its_row_says(row: dict[str, Any], tmp_path: Path) -> None:
    """With the accounts of deploy/; what guards rests on is another matter, and said."""

    @async_test
    async def scenario() -> None:
        async with behaviours.deployed(real, guards=False) as cluster:
            for behaviour in behaviours.WITHOUT_GUARDS:
                await behaviour(cluster)

    with RealCluster(tmp_path, flags=(f"--emulated-version=kube={row['kubernetes']}",)) as real:
        kinds = real.kubectl("api-resources", "-o", "name").stdout.split()
        assert (_MUTATING in kinds) == row["guards"]
        scenario()


def test_the_streaming_lists_of_others_may_be_off(tmp_path: Path) -> None:
    """As in 1.31 and 1.33; controllers list then, and so does whoever waits."""

    @async_test
    async def scenario() -> None:
        async with behaviours.over_https(real) as cluster:
            await behaviours.BEHAVIOURS[0](cluster)
            await _an_agent_sees_its_addresses(cluster.client("system:node:worker-1", ["system:nodes"]))

    with RealCluster(tmp_path, flags=("--feature-gates=WatchList=false",)) as real:
        scenario()


class _Told:
    """Who is told that a node has other addresses than before."""

    def __init__(self) -> None:
        self.was = asyncio.Event()

    def look(self) -> None:
        self.was.set()


async def _an_agent_sees_its_addresses(client: Client) -> None:
    @asynccontextmanager
    async def connect() -> AsyncIterator[Client]:
        yield client

    told = _Told()
    manager = cast("CertificateManager", told)
    watch = AddressWatch("worker-1", connect, ServingTemplate("worker-1"), manager, SystemClock(), random.random)
    task = asyncio.create_task(watch.run())
    await told.was.wait()
    task.cancel()
    await asyncio.wait({task})
