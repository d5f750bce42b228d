"""phases/certificates/ca_rotation.py: what each step changes, who holds it up, and being killed anywhere."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from ca_world import CAWorld, ca_world
from kubevouch.agent import trust_bundle
from kubevouch.api import catalog
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.phases.certificates import ca_rotation_files as files
from kubevouch.phases.certificates.ca_rotation import CARotation, CARotationError, Settings
from kubevouch.phases.certificates.ca_rotation_plan import Phase
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.pki.client_certificate import is_issued_by
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records.ca_rotation import RENEWAL_ANNOTATION, STATE_CONFIGMAP
from kubevouch.records.cluster_info import kubeconfig_of, parse_kubeconfig


async def _published(world: CAWorld) -> tuple[Certificate, ...]:
    info = parse_kubeconfig(kubeconfig_of(await world.cluster_info()))
    return trust_bundle.parse(info.certificate_authority_data, "cluster-info")


async def _reached(world: CAWorld, *bundle: Certificate) -> None:
    """A client that trusts only ``bundle`` reaches the server."""
    context = ssl.create_default_context(cadata=trust_bundle.to_pem(bundle).decode())
    host, port = world.cluster.server.endpoint.host, world.cluster.server.endpoint.port
    _, writer = await asyncio.open_connection(host, port, ssl=context)
    writer.close()
    await writer.wait_closed()


@async_test
async def test_a_whole_rotation() -> None:
    async with ca_world(https=True) as world:
        former = world.signing()
        first = await world.issue("worker-1")
        assert is_issued_by(first, former)
        # 1. Both are published, the former one signs.
        assert (await world.rotation.start()).phase is Phase.DISTRIBUTING
        both = world.bundle()
        assert both[0] == former and len(both) == 2 and world.signing() == former
        assert await _published(world) == both == trust_bundle.load(world.cluster.kubeconfig)
        following = both[1]
        # 2. Held up by pods, for a minute, and by a machine.
        with pytest.raises(CARotationError) as refusal:
            await world.rotation.start()
        assert [each.name for each in refusal.value.obstacles] == ["pods", "worker-1"]
        await world.wait(120)
        for anchor in both:
            await _reached(world, anchor)
        with pytest.raises(CARotationError) as refusal:
            await world.rotation.start()
        assert [each.name for each in refusal.value.obstacles] == ["worker-1"]
        await world.report("worker-1")
        # 3. The next one signs; nobody but the machine is in the way of the end.
        assert (await world.rotation.start()).phase is Phase.RENEWING
        assert world.signing() == following and world.bundle() == (following, former)
        await world.wait(20)
        for anchor in both:
            await _reached(world, anchor)
        async with client_from_kubeconfig(world.cluster.kubeconfig, component="test") as client:
            assert await client.get(catalog.CONFIG_MAPS, STATE_CONFIGMAP, "kube-system")
        assert all(is_issued_by(each, following) for each in files.own_certificates(world.layout).values())
        assert RENEWAL_ANNOTATION in (await world.cluster_info()).metadata.annotations
        await world.forget_requests()
        with pytest.raises(CARotationError) as refusal:
            await world.rotation.finish()
        assert [each.name for each in refusal.value.obstacles] == ["worker-1"]
        assert is_issued_by(await world.issue("worker-1", 1), following)
        # 4. One is trusted.
        assert (await world.rotation.finish()).phase is Phase.FINISHED
        assert world.bundle() == (following,) == await _published(world)
        assert trust_bundle.load(world.cluster.kubeconfig) == (following,)
        assert RENEWAL_ANNOTATION not in (await world.cluster_info()).metadata.annotations
        assert not files.folder_of(world.layout).exists()
        await world.wait(120)
        root = await world.cluster.client().get(catalog.CONFIG_MAPS, "kube-root-ca.crt", "default")
        assert trust_bundle.parse(root.data["ca.crt"].encode(), "") == (following,)
        async with client_from_kubeconfig(world.cluster.kubeconfig, component="test") as client:
            assert await client.get(catalog.CONFIG_MAPS, STATE_CONFIGMAP, "kube-system")
        # Who has slept through it all still finds the right server.
        await _reached(world, former)


@async_test
async def test_a_rollback_before_anything_is_signed() -> None:
    async with ca_world() as world:
        former = world.signing()
        await world.rotation.start()
        assert (await world.rotation.rollback()).phase is Phase.WITHDRAWN
        assert world.bundle() == (former,) == await _published(world)
        assert not files.folder_of(world.layout).exists()
        assert len(world.layout.pki.joinpath("apiserver.crt").read_text().split("BEGIN CERT")) == 2
        # Another start makes another CA.
        assert (await world.rotation.start()).phase is Phase.DISTRIBUTING
        assert len(world.bundle()) == 2


@async_test
async def test_a_rollback_after_that_turns_round() -> None:
    async with ca_world() as world:
        former = world.signing()
        await world.rotation.start()
        await world.rotation.start(Settings(force=True))
        await world.issue("worker-1")
        turned = await world.rotation.rollback()
        assert turned.phase is Phase.RENEWING and turned.backwards
        assert world.signing() == former and len(world.bundle()) == 2
        with pytest.raises(CARotationError) as refusal:
            await world.rotation.finish()
        assert [each.name for each in refusal.value.obstacles] == ["worker-1"]
        assert is_issued_by(await world.issue("worker-1", 1), former)
        assert (await world.rotation.finish()).phase is Phase.FINISHED
        assert world.bundle() == (former,) == await _published(world)


@async_test
async def test_a_pause_stops_the_renewals_and_a_start_spreads_them_anew() -> None:
    async with ca_world() as world:
        await world.rotation.start()
        await world.rotation.start(Settings(force=True))
        await world.rotation.pause()
        assert RENEWAL_ANNOTATION not in (await world.cluster_info()).metadata.annotations
        _, standing = await world.rotation.status()
        assert standing.words.startswith("paused: ") and standing.command == "kubevouch ca rotate start"
        await world.wait(60)
        rotation = await world.rotation.start()
        assert rotation.renewal_begins == world.cluster.clock.now()
        assert RENEWAL_ANNOTATION in (await world.cluster_info()).metadata.annotations


@async_test
async def test_who_is_gone_is_given_up() -> None:
    async with ca_world() as world:
        await world.issue("worker-1")
        await world.rotation.start()
        await world.wait(120)
        assert (await world.rotation.start(Settings(given_up=("worker-1",)))).phase is Phase.RENEWING
        assert (await world.rotation.finish()).phase is Phase.FINISHED


@async_test
async def test_a_cluster_that_has_forgotten_is_told_by_the_files() -> None:
    async with ca_world() as world:
        await world.rotation.start()
        await world.cluster.client().delete(catalog.CONFIG_MAPS, STATE_CONFIGMAP, "kube-system")
        found = await world.rotation.read()
        assert found is not None and found.phase is Phase.DISTRIBUTING
        await world.rotation.start(Settings(force=True))
        await world.cluster.client().delete(catalog.CONFIG_MAPS, STATE_CONFIGMAP, "kube-system")
        found = await world.rotation.read()
        assert found is not None and found.phase is Phase.RENEWING
        assert (await world.rotation.finish()).phase is Phase.FINISHED


@async_test
async def test_another_control_plane_is_brought_to_the_same_phase(tmp_path: Path) -> None:
    async with ca_world() as world:
        pki = shutil.copytree(world.layout.pki, tmp_path / "pki")
        other = CARotation(world.cluster.client(), Layout(pki, tmp_path), world.cluster.clock)
        with pytest.raises(CARotationError, match="no CAs are published yet"):
            await other.sync()
        await world.rotation.start()
        with pytest.raises(CARotationError, match="ca-rotation is not here"):
            await other.sync()
        shutil.copytree(files.folder_of(world.layout), pki / "ca-rotation")
        for step in ("start", "finish"):
            await other.sync()
            for name in ("ca.crt", "ca.key"):
                assert (pki / name).read_bytes() == (world.layout.pki / name).read_bytes()
            await world.rotation.start(Settings(force=True)) if step == "start" else await world.rotation.finish()
        await other.sync()
        assert (pki / "ca.crt").read_bytes() == (world.layout.pki / "ca.crt").read_bytes()
        assert not (pki / "ca-rotation").exists()
        serving = files.own_certificates(Layout(pki, tmp_path))["apiserver"]
        assert is_issued_by(serving, world.signing())


@async_test
async def test_what_makes_no_sense_is_refused() -> None:
    async with ca_world() as world:
        for step in (world.rotation.pause, world.rotation.rollback, world.rotation.finish):
            with pytest.raises(CARotationError, match="no CA rotation is under way"):
                await step()
        await world.rotation.start()
        with pytest.raises(CARotationError, match="the phase is Distributing, expected Renewing"):
            await world.rotation.finish()


# ------------------------------------------------------------------ killed


class _Killed(BaseException):
    pass


class _Death:
    """Comes before the N-th change of a file or object."""

    def __init__(self) -> None:
        self.left, self.folder = 0, ""
        sys.addaudithook(self._heard)

    def count(self) -> None:
        if self.left:
            self.left -= 1
            if not self.left:
                raise _Killed

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.left and event in ("os.rename", "os.mkdir", "os.rmdir"):
            if os.fsdecode(arguments[0]).startswith(self.folder):
                self.count()
        elif self.left and event == "os.remove" and not os.fsdecode(arguments[0]).endswith(".tmp"):
            self.count()


class _Mortal:
    def __init__(self, client: object, death: _Death) -> None:
        self._client, self._death = client, death

    def __getattr__(self, name: str) -> object:
        if name in ("create", "update"):
            self._death.count()
        return getattr(self._client, name)


DEATH = _Death()


async def _killed_at(number: int, world: CAWorld, step: Callable[[CARotation], Awaitable[object]]) -> bool:
    client: Any = _Mortal(world.cluster.client(), DEATH)
    DEATH.left, DEATH.folder = number, str(world.layout.pki.parent)
    try:
        await step(CARotation(client, world.layout, world.cluster.clock))
    except _Killed:
        return True
    finally:
        DEATH.left = 0
    return False


async def _force(rotation: CARotation) -> object:
    return await rotation.start(Settings(force=True))


async def _until(world: CAWorld, *phases: Phase) -> None:
    """Whatever was cut off goes on with the plain commands."""
    for _ in range(4):
        rotation = await world.rotation.read()
        if rotation is not None and rotation.phase in phases:
            break
        await world.rotation.start(Settings(force=True))


@pytest.mark.parametrize("ends", ["finish", "rollback"])
@pytest.mark.parametrize("cut", ["begin", "switch", "finish", "withdraw", "turn"])
@async_test
async def test_killed_at_every_change(cut: str, ends: str) -> None:
    async with ca_world() as world:
        number, killed = 0, True
        while killed:
            number += 1
            killed = await _cut(number, world, cut)
            # The server can be started at any moment: a CA signs, and is trusted.
            assert world.signing() in world.bundle()
            rotation = await world.rotation.read()
            if rotation is not None and rotation.over:
                assert len(world.bundle()) == 1
            elif ends == "finish" or (rotation is not None and rotation.phase is Phase.FINISHING):
                await _until(world, Phase.RENEWING, Phase.FINISHED, Phase.WITHDRAWN)
            await _end(world, ends)
            assert len(world.bundle()) == 1 and await _published(world) == world.bundle()
            assert not files.underway(world.layout)
            own = files.own_certificates(world.layout)
            assert own and all(is_issued_by(each, world.signing()) for each in own.values())
        assert number > 4


async def _cut(number: int, world: CAWorld, cut: str) -> bool:
    """Everything up to the step that is cut off, and that one."""
    if cut != "begin":
        await world.rotation.start()
    if cut in ("finish", "turn"):
        await world.rotation.start(Settings(force=True))
    steps: dict[str, Callable[[CARotation], Awaitable[object]]] = {
        "begin": lambda rotation: rotation.start(),
        "switch": _force,
        "finish": lambda rotation: rotation.finish(),
        "withdraw": lambda rotation: rotation.rollback(),
        "turn": lambda rotation: rotation.rollback(),
    }
    return await _killed_at(number, world, steps[cut])


async def _end(world: CAWorld, ends: str) -> None:
    rotation = await world.rotation.read()
    if rotation is None or rotation.over:
        return
    if ends == "rollback" and rotation.phase is not Phase.FINISHING:
        rotation = await world.rotation.rollback()
    if rotation.phase in (Phase.RENEWING, Phase.FINISHING):
        await world.rotation.finish()
