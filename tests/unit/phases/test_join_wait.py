from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aio import until
from asynctest import async_test
from join_world import JoinWorld, Told, condition, decided, join_world
from kubevouch import wellknown
from kubevouch.agent.certificate_request import Poster, node_serving, obtain
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.interface import NotIssuedError, RequestDeniedError
from kubevouch.agent.serving import PREFIX
from kubevouch.agent.signing_requests import SigningRequests
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.phases.join import CERTIFICATE_FOLDER, KUBELET_CONF, KUBELET_CONFIG, JoinOptions, join
from kubevouch.phases.join_wait import SELF_SIGNED, SERVING, read, wait_for_serving
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.util.clock import SystemClock
from throwaway_ca import ThrowawayCA

CLOCK = SystemClock()


@asynccontextmanager
async def _joined(tmp_path: Path) -> AsyncIterator[tuple[JoinWorld, Path]]:
    root = tmp_path / "node"
    async with join_world(tmp_path) as world:
        async with world.clerk_at_work():
            await join(JoinOptions(world.discovery(), "worker-1", root), CLOCK, Told())
        yield world, root


async def _ask(root: Path, seconds: float = 20) -> None:
    """What a kubelet does for its serving certificate."""
    async with client_from_kubeconfig(root / KUBELET_CONF, component="test") as client:
        template = node_serving("worker-1", SubjectAltNames(dns_names=("worker-1",)))
        store = CertificateStore(root / CERTIFICATE_FOLDER, PREFIX)
        poster = Poster(SigningRequests(client))
        await obtain(store, poster, template, None, CLOCK, Told(), timeout=seconds, random=random.random)


@async_test
async def test_it_waits_for_what_the_kubelet_gets(tmp_path: Path) -> None:
    async with _joined(tmp_path) as (world, root):
        told = Told()
        wait = asyncio.create_task(wait_for_serving(root, "worker-1", CLOCK, told, seconds=20))
        await until(lambda: bool(told.waits))
        assert told.waits == ["nobody has asked for a serving certificate yet"]
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(_ask(root))
            await until(lambda: len(told.waits) > 1)
            assert "is not approved yet; kubevouch csr show" in told.waits[1]
            async with world.clerk_at_work():
                await asking
        found = await wait
        assert found.path == root / SERVING and not found.self_signed
        assert found.certificate.subject.common_name == "system:node:worker-1"
        # And at once when it is there.
        again = Told()
        await wait_for_serving(root, "worker-1", CLOCK, again, seconds=0)
        assert again == Told()


@async_test
async def test_a_denial_ends_it_and_so_does_the_time(tmp_path: Path) -> None:
    async with _joined(tmp_path) as (world, root):
        with pytest.raises(NotIssuedError, match="no serving certificate after 0 s: nobody has asked") as late:
            await wait_for_serving(root, "worker-1", CLOCK, Told(), seconds=0)
        assert "kubevouch agent --serving" in late.value.hint
        async with world.clerk_at_work(decided(condition(wellknown.CSR_DENIED, "NotOurs", "no such name"))):
            with pytest.raises(RequestDeniedError):
                await _ask(root)
        with pytest.raises(RequestDeniedError, match=r"is denied: NotOurs: no such name"):
            await wait_for_serving(root, "worker-1", CLOCK, Told(), seconds=20)


def test_a_self_signed_one_counts_where_nobody_is_told_to_ask(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    path, config = tmp_path / SELF_SIGNED, tmp_path / KUBELET_CONFIG
    path.parent.mkdir(parents=True)
    path.write_bytes(ThrowawayCA().issue("worker-1").certificate)
    config.write_text("kind: KubeletConfiguration\n")
    found = read(tmp_path)
    assert found is not None and found.self_signed
    config.write_text("serverTLSBootstrap: true\n")
    assert read(tmp_path) is None
    (tmp_path / SERVING).write_text("half a cert")
    assert read(tmp_path) is None
