"""The agent's socket, wherever its folder lies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from asynctest import async_test
from kubevouch.agent.control import NoAgentError, ask_rotation, ask_status, listening


class Agent:
    health = ""

    def status(self) -> dict[str, Any]:
        return {"node": "worker-1"}

    def rotate(self, name: str) -> bool:
        return name == "client"


@pytest.mark.parametrize("depth", [0, 3])
@async_test
async def test_a_socket_may_lie_deep(tmp_path: Path, depth: int) -> None:
    path = tmp_path.joinpath(*["a-folder-with-quite-a-long-name-of-its-own"] * depth, "agent.sock")
    async with listening(Agent(), CollectorRegistry(), path, None):
        assert await ask_status(path) == {"node": "worker-1"}
        assert await ask_rotation(path, "client") and not await ask_rotation(path, "serving")
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


@pytest.mark.parametrize("depth", [0, 3])
@async_test
async def test_nobody_listens(tmp_path: Path, depth: int) -> None:
    path = tmp_path.joinpath(*["a-folder-with-quite-a-long-name-of-its-own"] * depth, "agent.sock")
    with pytest.raises(NoAgentError):
        await ask_status(path)
