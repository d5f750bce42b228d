"""A join that is killed at any step is run again and comes to the same end."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

import aio
from join_world import TOKEN, JoinWorld, join_world
from kubevouch.agent.interface import Step
from kubevouch.api import catalog
from kubevouch.api.authentication_v1 import SelfSubjectReview
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.phases.join import BOOTSTRAP_CONF, KUBELET_CONF

JOINER = Path(__file__).with_name("joiner.py")
# bootstrap-kubelet.conf, ca.crt, the key, the pair, kubelet.conf.
WRITES = [f"write {number}" for number in range(1, 6)]


async def _run(world: JoinWorld, rootfs: Path, last: str = "") -> int:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(JOINER), world.endpoint, TOKEN.text, world.pin, str(rootfs), last
    )
    return await process.wait()


def _contents(rootfs: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in rootfs.rglob("*") if path.is_file()}


@pytest.mark.parametrize("last", [*(step.value for step in Step if step is not Step.PROVEN), *WRITES])
def test_killed_and_run_again(tmp_path: Path, last: str) -> None:
    rootfs = tmp_path / "node"

    async def scenario() -> None:
        async with join_world(tmp_path) as world, world.clerk_at_work():
            assert await _run(world, rootfs, last) == -signal.SIGKILL
            assert await _run(world, rootfs) == 0
            async with client_from_kubeconfig(rootfs / KUBELET_CONF, component="test") as client:
                review = await client.create(catalog.SELF_SUBJECT_REVIEWS, SelfSubjectReview())
            assert review.status.user_info.username == "system:node:worker-1"
            # The key stayed, so there is one request however often it was asked.
            assert len((await world.server.client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items) == 1

    # Starting a process takes its time on a busy machine.
    aio.run(scenario(), blocked_seconds=10.0)
    found = _contents(rootfs)
    assert rootfs / BOOTSTRAP_CONF not in found
    assert all(TOKEN.token_secret.encode() not in content for content in found.values())
    assert not list(rootfs.rglob("*.key.tmp"))
