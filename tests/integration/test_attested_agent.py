"""An agent that proves what its machine is, a whole cluster, and an operator who changes his mind about it."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch.agent.daemon import Agent
from kubevouch.agent.interface import SettingsError
from kubevouch.agent.node_access import ClusterFiles
from kubevouch.agent.options import AgentOptions
from kubevouch.api.kubevouch_v1alpha1.catalog import NODE_IDENTITIES
from kubevouch.client.interface import Client
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.config.kubeconfig import User
from kubevouch.machinery.errors import APIStatusError
from kubevouch.phases import node_identities
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.util.clock import SystemClock
from processes import Up
from proving_machine import by_null
from running_agent import bootstrap_kubeconfig

TESTS = str(Path(__file__).parents[1])
CONFIGURATION = "apiVersion: kubevouch.io/v1alpha1\nkind: AttestationConfiguration\nattestors: [{provider: 'null'}]\n"
CLOCK = SystemClock()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "attestation.yaml").write_text(CONFIGURATION)
    with Up(folder, ("--attestation-config", "attestation.yaml"), variables={"PYTHONPATH": TESTS}) as running:
        yield running


@asynccontextmanager
async def operator(up: Up) -> AsyncIterator[Client]:
    async with client_from_kubeconfig(up.folder / "cluster/admin.conf", component="test") as client:
        yield client


def agent_of(up: Up, node: Path, name: str, *settings: str) -> Agent:
    if not node.exists():
        bootstrap_kubeconfig(up.folder, node, User(token=up.join_arguments[1]))
    files = ClusterFiles(node / "etc/kubernetes/kubelet.conf", node / "etc/kubernetes/bootstrap-kubelet.conf")
    options = AgentOptions(
        name,
        files,
        cert_dir=node / "pki",
        socket=node / "agent.sock",
        healthz=None,
        attestation=by_null(*settings),
    )
    return Agent(options, CLOCK, lambda: 0.5)


async def asked(agent: Agent) -> str:
    """One attempt, as soon as it can be; why it failed."""
    agent.client.rotate_now()
    failures = agent.client.standing.failures
    await agent.client.step()
    return agent.client.standing.last_error if agent.client.standing.failures > failures else ""


def leaf(agent: Agent) -> Certificate:
    assert agent.client.pair is not None
    return agent.client.pair.leaf


@async_test
async def test_proven_banned_lifted_forgotten_and_told_to_renew(tmp_path: Path, up: Up) -> None:
    agent = agent_of(up, tmp_path / "a", "worker-1", "identity=m1")
    await agent.begin()
    agent.prepare()
    assert await asked(agent) == ""
    first = leaf(agent)
    async with operator(up) as client:
        identity = await client.get(NODE_IDENTITIES, "worker-1")
        assert (identity.status.identity, identity.status.key_fingerprint) == (
            "m1", first.public_key.fingerprint().hex(),
        )  # fmt: skip
        # The certificate is revoked with the ban, so it takes the token to hear of it: nothing of that is a way in.
        await node_identities.ban(client, "worker-1", "stolen", CLOCK.now())
        assert "does not accept the node's certificate" in await asked(agent)
        # In the second of the ban itself the revocation is what denies it.
        refused = await asked(agent)
        assert "is denied, reason: " in refused and "stolen" in refused
        assert leaf(agent) == first
        await node_identities.unban(client, "worker-1")
        assert await asked(agent) == ""
        second = leaf(agent)
        assert second != first
        # Forgotten: whoever proves himself first has the name, and it is still the same machine.
        await node_identities.forget(client, "worker-1")
        with pytest.raises(APIStatusError, match="not found"):
            await client.get(NODE_IDENTITIES, "worker-1")
        assert await asked(agent) == ""
        assert (await client.get(NODE_IDENTITIES, "worker-1")).status.identity == "m1"
        third = leaf(agent)
        # What was issued since then is left alone.
        await node_identities.renew_now(client, "worker-1", CLOCK.now() - dt.timedelta(minutes=1))
        await agent.follow_operator()
        assert agent.client.standing.asking == ""
        await node_identities.renew_now(client, "worker-1", CLOCK.now() + dt.timedelta(minutes=1))
        await agent.follow_operator()
        await agent.client.step()
        assert leaf(agent) != third


@async_test
async def test_another_machine_does_not_get_the_name(tmp_path: Path, up: Up) -> None:
    """A copy of the disk, with all that is in it: the certificate is the copy's as well, another proof is not."""
    agent = agent_of(up, tmp_path / "a", "worker-2", "identity=m2")
    await agent.begin()
    assert await asked(agent) == ""
    other = agent_of(up, tmp_path / "b", "worker-2", "identity=m3")
    await other.begin()
    assert "message: name-taken: " in await asked(other)
    shutil.copytree(tmp_path / "a", tmp_path / "c", symlinks=False)
    copied = agent_of(up, tmp_path / "c", "worker-2", "identity=m3")
    copied.prepare()
    assert "message: name-taken: " in await asked(copied)
    async with operator(up) as client:
        assert (await client.get(NODE_IDENTITIES, "worker-2")).status.identity == "m2"


@async_test
async def test_a_setting_that_cannot_be_meant_is_said_at_the_start(tmp_path: Path, up: Up) -> None:
    with pytest.raises(SettingsError, match="null: settings of null"):
        await agent_of(up, tmp_path / "a", "worker-3", "bogus=1").begin()
