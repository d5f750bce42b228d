"""A machine that was off for too long comes back by itself, and a copy of it does not."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import aio
from asynctest import async_test
from joined_node import NAME, USER, JoinedNode, join_node
from kubevouch import wellknown
from kubevouch.agent.daemon import Agent
from kubevouch.agent.node_access import ClusterFiles
from kubevouch.agent.options import AgentOptions
from kubevouch.agent.recovery_keys import RecoveryKeys
from kubevouch.agent.signing_requests import SigningRequests
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.client.credentials import FixedCredential
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import RawResponse
from kubevouch.client.options import ClientOptions
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.config import kubeconfig
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import authority, keys, recovery_proof
from kubevouch.pki.recovery_proof import Answer
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.records import node_recovery
from kubevouch.records.node_recovery import Record, RecoveryPolicy
from kubevouch.testing import Cluster
from kubevouch.util.clock import SystemClock

RECOVERER = Path(__file__).with_name("rotator.py")
POLICY = RecoveryPolicy(uses=2, window=dt.timedelta(days=1000), max_age=dt.timedelta(days=400))
OFF = dt.timedelta(days=400)
NEW_KEY = keys.generate(keys.KeyAlgorithm.ECDSA_P256)


@asynccontextmanager
async def running(policy: RecoveryPolicy | None = POLICY) -> AsyncIterator[Cluster]:
    async with Cluster(https=True, controllers=("*",), recovery=policy) as cluster:
        yield cluster


def agent_of(node: JoinedNode, lifetime: int | None = None, bootstrap: Path | None = None) -> Agent:
    files = ClusterFiles(node.kubelet_conf, bootstrap)
    options = AgentOptions(NAME, files, cert_dir=node.current.parent, expiration_seconds=lifetime, healthz=None)
    agent = Agent(options, node.cluster.clock, random=lambda: 0.0)
    agent.prepare()
    return agent


def keys_of(node: JoinedNode) -> RecoveryKeys:
    return RecoveryKeys(node.current.parent)


async def attempt(agent: Agent) -> None:
    """One request, however it ends."""
    before = (agent.client.standing.rotations, agent.client.standing.failures)
    async with asyncio.timeout(120):
        while (agent.client.standing.rotations, agent.client.standing.failures) == before:
            step = asyncio.create_task(agent.client.step())
            while not step.done():
                await asyncio.wait({step}, timeout=0.05)
                agent._clock.advance(1)  # type: ignore[attr-defined]
            step.result()


async def comes_back(node: JoinedNode) -> Agent:
    """The agent after it has tried with the certificate, and then with the recovery key."""
    agent = agent_of(node)
    await attempt(agent)
    assert "does not accept" in agent.client.standing.last_error
    await attempt(agent)
    return agent


async def registered(cluster: Cluster, root: Path) -> JoinedNode:
    """A machine that has joined, and whose agent has run once."""
    node = await join_node(cluster, root, cluster.clock)
    agent = agent_of(node)
    await agent.access.refresh()
    assert agent.access.wants_recovery_key
    agent.client.rotate_now()
    await attempt(agent)
    await cluster.settle_async()
    return node


async def record_of(cluster: Cluster) -> Record:
    name = node_recovery.record_name(NAME)
    return node_recovery.record_of(await cluster.client().get(catalog.CONFIG_MAPS, name, node_recovery.NAMESPACE))


async def requests_of(cluster: Cluster) -> list[CertificateSigningRequest]:
    return (await cluster.client().list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items


def key_digest(node: JoinedNode) -> str:
    return node_recovery.digest(keys.public_key_of(keys_of(node).load()[0]))


@async_test
async def test_a_machine_that_was_off_for_too_long_comes_back(tmp_path: Path) -> None:
    async with running() as cluster:
        node = await registered(cluster, tmp_path / "node")
        first = key_digest(node)
        assert (await record_of(cluster)).key == first
        cluster.clock.advance(OFF.total_seconds())
        agent = await comes_back(node)
        assert agent.client.standing.last_error == "" and agent.client.usable
        assert node.leaf.subject.common_name == USER
        record = await record_of(cluster)
        assert record.key == key_digest(node) != first
        assert record.former == (first,) and len(record.uses) == 1 and not record.locked
        assert len(keys_of(node).load()) == 1


@async_test
async def test_a_copy_of_a_machine_raises_an_alarm(tmp_path: Path) -> None:
    async with running() as cluster:
        node = await registered(cluster, tmp_path / "node")
        shutil.copytree(node.root, tmp_path / "copy", symlinks=True)
        copy = JoinedNode(cluster, tmp_path / "copy")
        cluster.clock.advance(OFF.total_seconds())
        assert (await comes_back(node)).client.usable
        twin = await comes_back(copy)
        assert not twin.client.usable and "another machine has a copy" in twin.client.standing.last_error
        await cluster.settle_async()
        record = await record_of(cluster)
        assert "copy" in record.locked and record.locked_at is not None
        assert record.key == key_digest(node), "the copy replaces nothing"
        denied = [
            condition.reason
            for csr in await requests_of(cluster)
            for condition in csr.status.conditions
            if condition.type == wellknown.CSR_DENIED
        ]
        assert denied == ["RecoveryRefused"]
        events = (await cluster.client().list(catalog.EVENTS, "default")).items
        assert [each.type for each in events if each.reason == "RecoveryKeyReused"] == ["Warning"]
        # The next time not even the first machine comes back, until somebody has looked.
        cluster.clock.advance(OFF.total_seconds())
        late = await comes_back(node)
        assert not late.client.usable and "is locked" in late.client.standing.last_error


@async_test
async def test_a_copy_that_renews_with_a_certificate_that_lasts_is_seen_too(tmp_path: Path) -> None:
    async with running() as cluster:
        node = await registered(cluster, tmp_path / "node")
        shutil.copytree(node.root, tmp_path / "copy", symlinks=True)
        keys_of(node).with_next()
        keys_of(node).promote()
        cluster.clock.advance(1)
        agent = agent_of(node)
        agent.client.rotate_now()
        await attempt(agent)
        await cluster.settle_async()
        assert "another recovery key" in (await record_of(cluster)).locked
        assert agent.client.usable, "its certificate is not touched"


@async_test
async def test_the_budget(tmp_path: Path) -> None:
    async with running(msgspec.structs.replace(POLICY, uses=1)) as cluster:
        node = await registered(cluster, tmp_path / "node")
        for expected in (True, False):
            cluster.clock.advance(OFF.total_seconds())
            agent = await comes_back(node)
            assert agent.client.usable is expected
        assert "1 times are allowed" in agent.client.standing.last_error
        assert not (await record_of(cluster)).locked


@async_test
async def test_a_token_comes_first_and_one_that_has_expired_is_no_hindrance(tmp_path: Path) -> None:
    async with running() as cluster:
        node = await registered(cluster, tmp_path / "node")
        bootstrap = tmp_path / "bootstrap.conf"
        config = kubeconfig.load(node.kubelet_conf.read_bytes())
        user = next(iter(config.users))
        for token, uses in ((await cluster.token_async(), 1), ("abcdef.0123456789abcdef", 2)):
            bootstrap.write_text(
                kubeconfig.dump(msgspec.structs.replace(config, users={user: kubeconfig.User(token=token)}))
            )
            cluster.clock.advance(OFF.total_seconds())
            agent = agent_of(node, bootstrap=bootstrap)
            await attempt(agent)
            assert "the credential of" in agent.client.standing.last_error, "its day is over"
            await attempt(agent)
            assert agent.client.usable and len((await record_of(cluster)).uses) == uses
        cluster.clock.advance(OFF.total_seconds())
        token = await cluster.token_async()
        bootstrap.write_text(
            kubeconfig.dump(msgspec.structs.replace(config, users={user: kubeconfig.User(token=token)}))
        )
        agent = agent_of(node, bootstrap=bootstrap)
        await attempt(agent)
        assert agent.client.usable and len((await record_of(cluster)).uses) == 2, "not the recovery key"


@async_test
async def test_off_by_default(tmp_path: Path) -> None:
    async with running(None) as cluster:
        node = await join_node(cluster, tmp_path / "node", cluster.clock)
        agent = agent_of(node)
        await agent.access.refresh()
        assert not agent.access.wants_recovery_key and not keys_of(node).present
        agent.client.rotate_now()
        await attempt(agent)
        assert not keys_of(node).present
        keys_of(node).ensure()
        cluster.clock.advance(OFF.total_seconds())
        agent = await comes_back(node)
        assert not agent.client.usable and "the cluster does not allow it" in agent.client.standing.last_error
        async with anonymous(cluster) as client:
            for path in (node_recovery.CHALLENGE_PATH, node_recovery.SESSION_PATH):
                # As any path that nobody has the right to.
                assert (await client.raw("POST", path, b"{}")).status == 403
        with pytest.raises(APIStatusError):
            await cluster.client().get(catalog.NAMESPACES, node_recovery.NAMESPACE)


# ------------------------------------------------------------------ answers that prove nothing


@asynccontextmanager
async def anonymous(cluster: Cluster, token: str = "") -> AsyncIterator[HTTPSClient]:
    client = HTTPSClient(
        ClientOptions(server=cluster.url, component="test"),
        tls=TLSFiles(TLSSources(ca_bundle=cluster.pki.ca_certificate), SystemClock()),
        credentials=FixedCredential.token(token) if token else FixedCredential(),
    )
    async with client:
        yield client


async def post(client: HTTPSClient, path: str, content: object) -> RawResponse:
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return await client.raw("POST", path, body, {"Content-Type": "application/json"})


async def challenge_of(client: HTTPSClient, node_name: str = NAME) -> str:
    answer = await post(client, node_recovery.CHALLENGE_PATH, {"nodeName": node_name})
    assert answer.status == 201
    return str(msgspec.json.decode(answer.body)["challenge"])


def request_for(key: PrivateKey, node_name: str = NAME) -> bytes:
    return build_request(key, Subject(common_name=f"system:node:{node_name}", organizations=("system:nodes",)))


def answer_of(node: JoinedNode, challenge: str, request: bytes = b"", node_name: str = NAME) -> Answer:
    pair = node.store.current()
    assert pair is not None
    request = request or request_for(NEW_KEY)
    return recovery_proof.answer(node_name, challenge, pair.chain, pair.key, request, keys_of(node).with_next())


async def session(client: HTTPSClient, answer: Answer) -> tuple[int, str]:
    reply = await post(client, node_recovery.SESSION_PATH, answer)
    tree = msgspec.json.decode(reply.body)
    return reply.status, tree.get("token") or tree["message"]


@async_test
async def test_answers_that_prove_nothing(tmp_path: Path) -> None:
    async with running() as cluster, anonymous(cluster) as client:
        node = await registered(cluster, tmp_path / "node")
        refused = await session(client, answer_of(node, await challenge_of(client)))
        assert refused[0] == 403 and "has not ended yet" in refused[1]
        cluster.clock.advance(OFF.total_seconds())
        replace = msgspec.structs.replace
        other = keys.generate(keys.KeyAlgorithm.ECDSA_P256)
        pair = node.store.current()
        assert pair is not None
        foreign = authority.create_authority("foreign", other, now=pair.leaf.not_before)
        spec = authority.LeafSpec(common_name=USER, organizations=("system:nodes",), purposes=("client auth",))
        leaf = authority.issue_leaf(foreign, spec, pair.key, now=pair.leaf.not_before + authority.BACKDATE)
        bad: list[tuple[str, Callable[[Answer], Answer]]] = [
            ("certificate's key has not signed", lambda a: replace(a, request=request_for(other).decode())),
            ("certificate's key has not signed", lambda a: replace(a, certificate_signature=a.key_signature)),
            ("the recovery key has not signed", lambda a: replace(a, key_signature=a.next_key_signature)),
            ("the next recovery key has not signed", lambda a: replace(a, next_key_signature=a.key_signature)),
            ("certificate's key has not signed", lambda a: replace(a, next_key=keys.public_key_of(other).info)),
            ("two different recovery keys", lambda a: replace(a, next_key=a.key)),
            ("challenge is not one for this node", lambda a: replace(a, node_name="worker-2")),
            ("challenge is not one for this node", lambda a: replace(a, challenge=a.challenge[:-2] + "AA")),
            ("request is for", lambda a: replace(a, request=request_for(NEW_KEY, "worker-2").decode())),
            ("not one of this cluster's", lambda a: replace(a, certificates=leaf.pem().decode())),
            ("cannot be read", lambda a: replace(a, certificates="")),
            ("cannot be read", lambda a: replace(a, request="x")),
            ("cannot be read", lambda a: replace(a, key=b"x")),
        ]
        for words, change in bad:
            status, message = await session(client, change(answer_of(node, await challenge_of(client))))
            assert status == 403 and words in message, (words, message)
        # Another node's challenge, and one whose time is over.
        status, message = await session(client, answer_of(node, await challenge_of(client, "worker-2")))
        assert status == 403 and "challenge is not one for this node" in message
        late = answer_of(node, await challenge_of(client))
        cluster.clock.advance(121)
        assert "its time is over" in (await session(client, late))[1]
        # Each challenge is good for one answer.
        answer = answer_of(node, await challenge_of(client))
        assert (await session(client, answer))[0] == 201
        assert "answered already" in (await session(client, answer))[1]
        # A key that nobody knows neither opens a session nor locks the node.
        keys_of(node).promote()
        status, message = await session(client, answer_of(node, await challenge_of(client)))
        assert status == 403 and "not the one that is registered" in message
        assert not (await record_of(cluster)).locked
        for body in (b"", b"[]", b"{", b'{"nodeName": 1}', b"[" * 100_000):
            for path in (node_recovery.CHALLENGE_PATH, node_recovery.SESSION_PATH):
                assert (await post(client, path, body)).status == 400
        assert (await client.raw("GET", node_recovery.CHALLENGE_PATH)).status == 403
        cluster.clock.advance(POLICY.max_age.total_seconds())
        assert "longer ago than is allowed" in (await session(client, answer_of(node, await challenge_of(client))))[1]


@async_test
async def test_a_session_is_for_one_request(tmp_path: Path) -> None:
    async with running() as cluster, anonymous(cluster) as client:
        node = await registered(cluster, tmp_path / "node")
        cluster.clock.advance(OFF.total_seconds())
        status, token = await session(client, answer_of(node, await challenge_of(client)))
        assert status == 201
        async with anonymous(cluster, token) as recovering:
            for request, signer in (
                (
                    request_for(keys.generate(keys.KeyAlgorithm.ECDSA_P256)),
                    wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
                ),
                (request_for(NEW_KEY, "worker-2"), wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER),
                (request_for(NEW_KEY), wellknown.KUBE_APISERVER_CLIENT_SIGNER),
            ):
                spec = CertificateSigningRequestSpec(request=request, signer_name=signer, usages=["client auth"])
                csr = CertificateSigningRequest(metadata=ObjectMeta(name="mine"), spec=spec)
                with pytest.raises(APIStatusError, match="no other"):
                    await SigningRequests(recovering).create(csr)
            for method, path in (("GET", "/api/v1/nodes"), ("GET", "/api/v1/namespaces/kube-system/secrets")):
                assert (await recovering.raw(method, path)).status == 403
        cluster.clock.advance(20 * 60)
        async with anonymous(cluster, token) as recovering:
            assert (await recovering.raw("GET", "/api")).status == 401
        assert (await record_of(cluster)).uses == (), "nothing is charged before a request is approved"


# ------------------------------------------------------------------ faults


@async_test
async def test_an_answer_that_was_lost_costs_nothing(tmp_path: Path) -> None:
    """The server has replaced the key, and the machine, whose key for the certificate is gone, does not know."""
    async with running() as cluster:
        node = await registered(cluster, tmp_path / "node")
        cluster.clock.advance(OFF.total_seconds())
        before = keys_of(node).with_next()
        shutil.copytree(node.root, tmp_path / "saved", symlinks=True)
        agent = await comes_back(node)
        assert agent.client.usable
        saved = JoinedNode(cluster, tmp_path / "saved")
        saved.store.pending_key_path.unlink(missing_ok=True)
        again = await comes_back(saved)
        assert again.client.usable and not (await record_of(cluster)).locked
        assert (await record_of(cluster)).former == tuple(
            node_recovery.digest(keys.public_key_of(key)) for key in before
        )


# A process for each third change of a file, of some twenty; make endurance has one for each.
STRIDE = int(os.environ.get("KUBEVOUCH_STRIDE", "3"))


def test_killed_at_every_change_of_a_file(tmp_path: Path) -> None:
    async def start(cluster: Cluster, node: JoinedNode, number: int) -> int:
        ahead = (cluster.clock.now() - SystemClock().now()).total_seconds()
        arguments = (str(RECOVERER), str(node.root), str(number), str(ahead))
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.DEVNULL)
        return await process.wait()

    async def scenario() -> int:
        async with running(msgspec.structs.replace(POLICY, uses=1000)) as cluster:
            node = await registered(cluster, tmp_path / "node")
            cluster.clock.advance(OFF.total_seconds())
            number, code = 1 - STRIDE, -signal.SIGKILL
            while code == -signal.SIGKILL:
                number += STRIDE
                uses = len((await record_of(cluster)).uses)
                code = await start(cluster, node, number)
                agent = agent_of(node, 3600)
                while not agent.client.usable:
                    await attempt(agent)
                await cluster.settle_async()
                record = await record_of(cluster)
                assert not record.locked and len(record.uses) == uses + 1, number
                assert record.key in keys_of(node).digests(), number
                assert node.leaf.not_after > cluster.clock.now()
                cluster.clock.advance(4200)
            assert code == 0
            return number

    assert aio.run(scenario(), blocked_seconds=10.0) > 8
