"""A rotation that is killed at any change of a file, and two at once, lose nothing."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import aio
from join_world import JoinWorld, Told, join_world
from kubevouch.agent.certificate_store import KEPT_PAIRS, CertificateStore
from kubevouch.api import catalog
from kubevouch.api.authentication_v1 import SelfSubjectReview
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.phases.join import KUBELET_CONF, JoinOptions, join
from kubevouch.util.clock import SystemClock

ROTATOR = Path(__file__).with_name("rotator.py")


async def _start(root: Path, number: int = 0) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, str(ROTATOR), str(root), str(number), stdout=asyncio.subprocess.DEVNULL
    )


async def _joined(world: JoinWorld, root: Path) -> CertificateStore:
    await join(JoinOptions(world.discovery(), "worker-1", root, 120.0), SystemClock(), Told())
    return CertificateStore(root / "var/lib/kubelet/pki")


async def _requests(world: JoinWorld) -> int:
    return len((await world.server.client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items)


async def _verify_credential(root: Path) -> None:
    async with client_from_kubeconfig(root / KUBELET_CONF, component="test") as client:
        review = await client.create(catalog.SELF_SUBJECT_REVIEWS, SelfSubjectReview())
    assert review.status.user_info.username == "system:node:worker-1"


# A process for each change of a file, some twenty.
def test_killed_at_every_change_of_a_file(tmp_path: Path) -> None:
    root = tmp_path / "node"

    async def scenario() -> int:
        async with join_world(tmp_path) as world, world.clerk_at_work():
            store = await _joined(world, root)
            number, code = 0, -signal.SIGKILL
            while code == -signal.SIGKILL:
                number += 1
                requests, before = await _requests(world), store.current()
                assert before is not None
                code = await (await _start(root, number)).wait()
                # Whatever the moment was, there is a pair, and it is good.
                found = store.current()
                assert found is not None
                await _verify_credential(root)
                # A key that was asked about is not lost: nothing was asked for twice.
                assert await _requests(world) <= requests + 1
            assert code == 0
            assert await (await _start(root)).wait() == 0
            return number

    assert aio.run(scenario(), blocked_seconds=10.0) > 8
    # Those who were killed leave what they were writing, and nothing else.
    pairs = [path for path in (root / "var/lib/kubelet/pki").iterdir() if path.suffix == ".pem"]
    assert len(pairs) == KEPT_PAIRS + 1  # the link to the current one


def test_two_programs_at_once_and_a_reader(tmp_path: Path) -> None:
    root = tmp_path / "node"

    async def scenario() -> None:
        async with join_world(tmp_path) as world, world.clerk_at_work():
            store = await _joined(world, root)
            # One of them dies in the middle of it.
            rotators = [await _start(root, number) for number in (0, 5, 0, 0)]
            ends = asyncio.gather(*(each.wait() for each in rotators))
            seen = set()
            while not ends.done():
                found = store.current()
                assert found is not None
                seen.add(found.leaf.serial)
                await asyncio.sleep(0)
            first, killed, *others = await ends
            assert (first, *others) == (0, 0, 0) and killed in (0, -signal.SIGKILL)
            await _verify_credential(root)
            # Each that rotated did so by itself; those that came late took what was there.
            assert len(seen) <= 5 and await _requests(world) <= 5
            if killed:
                # It may have been the last: what it left behind the next one takes up.
                assert await (await _start(root, 0)).wait() == 0

    aio.run(scenario(), blocked_seconds=10.0)
    assert not list((root / "var/lib/kubelet/pki").glob("*.key.tmp"))
