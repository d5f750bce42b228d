"""An agent that proves what its machine is, a whole cluster, and an operator who changes his mind about it."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch.agent.daemon import Agent
from kubevouch.agent.discovery import token_discovery
from kubevouch.agent.interface import SettingsError
from kubevouch.agent.node_access import ClusterFiles
from kubevouch.agent.options import AgentOptions
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS, NODE_IDENTITIES
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import (
    CertificateRevocation,
    CertificateRevocationSpec,
    RevocationTargets,
)
from kubevouch.cli.cluster import rest_config_of
from kubevouch.client.interface import Client
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.config.kubeconfig import User
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases import node_identities
from kubevouch.pki import keys
from kubevouch.pki.tpm import resident_key
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.util.clock import SystemClock
from processes import Up
from proving_machine import by_null
from running_agent import bootstrap_kubeconfig
from software_tpm import Manufacturer, SoftwareTPM, software_tpm

TESTS = str(Path(__file__).parents[1])
MAKER = Manufacturer()
CONFIGURATION = {
    "apiVersion": "kubevouch.io/v1alpha1",
    "kind": "AttestationConfiguration",
    "attestors": [{"provider": "null"}, {"provider": "tpm", "settings": {"roots": MAKER.root_pem}}],
}
CLOCK = SystemClock()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "attestation.yaml").write_text(json.dumps(CONFIGURATION))
    with Up(folder, ("--attestation-config", "attestation.yaml"), variables={"PYTHONPATH": TESTS}) as running:
        yield running


@asynccontextmanager
async def operator(up: Up) -> AsyncIterator[Client]:
    async with client_from_kubeconfig(up.folder / "cluster/admin.conf", component="test") as client:
        yield client


def agent_of(up: Up, node: Path, name: str, *settings: str, tpm: SoftwareTPM | None = None) -> Agent:
    if not node.exists():
        bootstrap_kubeconfig(up.folder, node, User(token=up.join_arguments[1]))
    files = ClusterFiles(node / "etc/kubernetes/kubelet.conf", node / "etc/kubernetes/bootstrap-kubelet.conf")
    options = AgentOptions(
        name,
        files,
        cert_dir=node / "pki",
        socket=node / "agent.sock",
        healthz=None,
        attestation=by_null(*settings) if tpm is None else by_null(f"device={tpm.where}", names=["tpm"]),
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
        await node_identities.ban(client, "worker-1", "stolen")
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


@async_test
async def test_a_key_that_never_leaves_its_tpm_is_renewed_and_made_anew_once_it_is_lost(
    tmp_path: Path, up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_key, "default_signer", None)
    with software_tpm(tmp_path / "tpm", MAKER) as tpm:
        agent = agent_of(up, tmp_path / "a", "worker-4", tpm=tpm)
        await agent.begin()
        agent.prepare()
        assert await asked(agent) == ""
        pair = agent.client.pair
        assert pair is not None and keys.is_in_tpm(pair.key)
        # The request for the next one goes out by TLS with that key.
        assert await asked(agent) == ""
        second = leaf(agent)
        assert second != pair.leaf
        # So do other commands, with nothing but the node's kubeconfig.
        resident_key.default_signer = None
        monkeypatch.setenv("KUBEVOUCH_TPM", tpm.where)
        async with rest_config_of(tmp_path / "a/etc/kubernetes/kubelet.conf").client(component="test") as own:
            assert (await own.raw("GET", "/apis")).status == 200
        async with operator(up) as client:
            known = (await client.get(NODE_IDENTITIES, "worker-4")).status
            assert (known.provider, known.strength) == ("tpm", "tpm")
            tpm.stop()
            assert "there is no TPM at" in await asked(agent)
            tpm.start()
            tpm.clear()
            assert await asked(agent) == ""
            assert leaf(agent) != second
            assert (await client.get(NODE_IDENTITIES, "worker-4")).status.identity == known.identity
        # A copy of the disk is another machine's.
        with software_tpm(tmp_path / "other", MAKER) as other:
            resident_key.default_signer = None
            shutil.copytree(tmp_path / "a", tmp_path / "b", symlinks=False)
            copied = agent_of(up, tmp_path / "b", "worker-4", tpm=other)
            await copied.begin()
            copied.prepare()
            assert "message: name-taken: " in await asked(copied)


@async_test
async def test_a_certificate_that_is_no_longer_accepted_is_replaced_without_waiting(tmp_path: Path, up: Up) -> None:
    """Its token is in its settings only, and on the disk for as long as it takes."""
    address, token, pin = up.join_arguments
    bootstrap = tmp_path / "etc/bootstrap-kubelet.conf"
    files = ClusterFiles(
        tmp_path / "etc/kubelet.conf", bootstrap, discovery=token_discovery(address, token, [pin], timeout=120)
    )
    options = AgentOptions(
        "worker-9", files, cert_dir=tmp_path / "pki", socket=tmp_path / "agent.sock", healthz=None,
        attestation=by_null("identity=m9"),
    )  # fmt: skip
    agent = Agent(options, CLOCK, lambda: 0.5)
    await agent.begin()
    agent.prepare()
    await agent.client.step()
    before = agent.client.pair
    assert before is not None and not bootstrap.exists()
    await agent.begin_again()
    assert not bootstrap.exists()
    async with operator(up) as client:
        spec = CertificateRevocationSpec(
            revoked=RevocationTargets(certificates=[before.leaf.fingerprint().hex()]), reason="superseded"
        )
        await client.create(
            CERTIFICATE_REVOCATIONS, CertificateRevocation(metadata=ObjectMeta(name="worker-9"), spec=spec)
        )
    while agent.access.accepts(before):
        await agent.follow_operator()
    await agent.begin_again()
    assert bootstrap.exists()
    await agent.client.step()
    assert leaf(agent) != before.leaf and not bootstrap.exists()
    assert agent.client.standing.asking == ""
