"""A CA rotation by the command, against `kubevouch up` in its process and an agent with its files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from pathlib import Path

import aio
from kubevouch.agent.daemon import Agent
from kubevouch.agent.node_access import ClusterFiles
from kubevouch.agent.options import AgentOptions
from kubevouch.agent.trust_bundle import bundle_hash, load, parse
from kubevouch.api import catalog
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.pki.client_certificate import is_issued_by
from kubevouch.util.clock import SystemClock
from processes import Ended, Up, kubevouch


def _rotate(up: Up, *arguments: str) -> Ended:
    folder = "./cluster"
    return kubevouch(
        "ca", "rotate", *arguments, "--cert-dir", f"{folder}/pki", "--kubeconfig-dir", folder, cwd=up.folder
    )


def _status(up: Up) -> dict[str, object]:
    ended = _rotate(up, "status", "-o", "json")
    assert ended.code == 0, ended
    found = json.loads(ended.stdout)
    assert isinstance(found, dict)
    return found


def _agent(folder: Path) -> Agent:
    root = folder / "worker-1"
    files = ClusterFiles(root / "etc/kubernetes/kubelet.conf", ca_copies=(root / "etc/kubernetes/pki/ca.crt",))
    agent = Agent(AgentOptions("worker-1", files, cert_dir=root / "var/lib/kubelet/pki"), SystemClock())
    agent.prepare()
    return agent


async def _served(port: int, trusted: bytes) -> None:
    """The server takes new files in within seconds; here is waited until a client with only these CAs gets through."""
    context = ssl.create_default_context(cadata=trusted.decode())
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        except ssl.SSLError:  # the test's own time limit ends what never comes
            await asyncio.sleep(0.25)
            continue
        writer.transport.abort()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()
        return


async def _renewed(agent: Agent) -> None:
    before = agent.client.pair
    agent.client.rotate_now()
    while agent.client.pair is before:
        await agent.client.step()


def test_a_rotation_with_a_running_server(tmp_path: Path) -> None:
    with Up(tmp_path) as up:
        assert up.join().code == 0
        port = up.port
        admin = tmp_path / "cluster/admin.conf"
        (former,) = load(admin)
        assert _status(up)["phase"] == "None"
        begun = _rotate(up, "start")
        assert (begun.code, begun.stderr) == (0, "") and "Distributing" in begun.stdout
        following = load(admin)[1]
        # 1. The machine is waited for, and follows by itself.
        early = _rotate(up, "start")
        assert early.code == 1 and "worker-1: has not reported what it trusts" in early.stderr
        assert "error: the next CA cannot sign yet" in early.stderr
        agent = _agent(tmp_path)

        async def follow() -> None:
            await agent.access.refresh()
            await agent.report_trust()

        aio.run(follow())
        assert agent.access.bundle() == (former, following)
        assert parse((tmp_path / "worker-1/etc/kubernetes/pki/ca.crt").read_bytes(), "") == agent.access.bundle()
        assert [each["name"] for each in _status(up)["obstacles"]] in ([], ["pods"])  # type: ignore[attr-defined]  # JSON
        # 2. The next CA signs, without a restart, whichever of the two a client knows.
        assert _rotate(up, "start", "--force", "--renewal-window", "0").code == 0
        for trusted in (former, following):
            aio.run(_served(int(port), trusted.pem()))
        refused = _rotate(up, "finish")
        assert refused.code == 1 and "worker-1: has a kube-apiserver-client-kubelet certificate" in refused.stderr
        late = up.join(name="worker-2")
        assert late.code == 0, late
        # 3. A restart in the middle changes nothing.
        assert up.end() == 0
        files = {path: path.read_bytes() for path in (tmp_path / "cluster/pki").rglob("*.crt")}
        with Up(tmp_path, ("--secure-port", port)) as again:
            assert {path: path.read_bytes() for path in (tmp_path / "cluster/pki").rglob("*.crt")} == files

            async def renew() -> None:
                await agent.access.refresh()
                assert agent.access.renewal_order() is not None
                await _renewed(agent)

            aio.run(renew())
            assert agent.client.pair is not None and is_issued_by(agent.client.pair.leaf, following)
            status = _status(again)
            assert status["obstacles"] == [] and status["machines"] == {"total": 2, "ready": 2}
            # 4. The former CA is given up.
            finished = _rotate(again, "finish")
            assert finished.code == 0 and "Finished" in finished.stdout, finished
            assert load(admin) == (following,) and not (tmp_path / "cluster/pki/ca-rotation").exists()
            aio.run(_served(int(port), following.pem()))

            async def end() -> None:
                await agent.access.refresh()
                assert bundle_hash(agent.access.bundle()) == bundle_hash((following,))
                async with client_from_kubeconfig(admin, component="test") as client:
                    assert (await client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items

            aio.run(end())
            assert again.join(name="worker-3").code == 0
