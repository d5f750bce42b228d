"""What attached controllers do on our server, they do on kube-apiserver."""

from __future__ import annotations

from pathlib import Path

import pytest

from asynctest import async_test
from real.behaviours import BEHAVIOURS, WAYS
from real_cluster import RealCluster


@pytest.mark.parametrize("way", WAYS)
def test_they_do_the_same_there(way: str, tmp_path: Path) -> None:
    @async_test
    async def scenario() -> None:
        async with WAYS[way](real) as cluster:
            for behaviour in BEHAVIOURS:
                await behaviour(cluster)

    with RealCluster(tmp_path) as real:
        scenario()
