"""Nothing is written; ``tests/integration/test_init.py`` has the files of a control plane."""

from __future__ import annotations

from pathlib import Path

import pytest

from asynctest import async_test
from join_world import Told, join_world
from kubevouch.phases.join import BOOTSTRAP_CONF, CA_CERTIFICATE, CERTIFICATE_FOLDER, KUBELET_CONF, JoinOptions, join
from kubevouch.phases.join_phases import named, without
from kubevouch.phases.join_rehearsal import rehearse
from kubevouch.util.clock import SystemClock

CLOCK = SystemClock()


@pytest.mark.parametrize(
    ("skipped", "files"),
    [
        ([], [CA_CERTIFICATE, CERTIFICATE_FOLDER / "kubelet-client-current.pem", KUBELET_CONF]),
        (["kubelet-start"], [CERTIFICATE_FOLDER / "kubelet-client-current.pem", KUBELET_CONF]),
        (["kubelet-wait-bootstrap"], [CA_CERTIFICATE, BOOTSTRAP_CONF]),
    ],
)
def test_what_would_be_written(tmp_path: Path, skipped: list[str], files: list[Path]) -> None:
    @async_test
    async def scenario() -> None:
        root = tmp_path / "node"
        async with join_world(tmp_path) as world, world.clerk_at_work():
            options = JoinOptions(world.discovery(), "worker-1", root, phases=without(skipped))
            found = await rehearse(options, CLOCK, Told())
            assert found == [root / path for path in files]
            assert not root.exists()
            if not skipped:
                await join(options, CLOCK, Told())
                assert all(path.exists() for path in found)

    scenario()


@async_test
async def test_phases_that_ask_nobody(tmp_path: Path) -> None:
    options = JoinOptions(None, "worker-1", tmp_path, phases=named("preflight"), ignored=frozenset())
    assert await rehearse(options, CLOCK, Told()) == []
