"""A KMS plug-in that is killed, stands still and comes back: what is known is read, and nothing hangs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kms_plugin
from asynctest import async_test
from encryption_world import Recorded
from kubevouch.storage.encryption.interface import SeedMissing, TransformError
from kubevouch.storage.encryption.kms import RETRY_SECONDS, KMSProvider
from kubevouch.storage.encryption.kms_service import KMSService
from kubevouch.testing.clock import FakeClock

KEY = b"/registry/secrets/default/one"


@contextmanager
def process(socket: Path) -> Iterator[subprocess.Popen[bytes]]:
    socket.unlink(missing_ok=True)
    with subprocess.Popen([sys.executable, kms_plugin.__file__, socket], stdout=subprocess.PIPE) as plugin:
        try:
            assert plugin.stdout is not None and plugin.stdout.readline() == b"ready\n"
            yield plugin
        finally:
            plugin.kill()


def provider(socket: Path, clock: FakeClock, timeout: float) -> KMSProvider:
    return KMSProvider("k", KMSService("k", str(socket), timeout, clock, Recorded()), clock, Recorded(), lambda: None)


async def read(reader: KMSProvider, body: bytes) -> bytes:
    while True:
        try:
            return reader.read(body, KEY).plain
        except SeedMissing as missing:
            await missing.fetch()


@async_test
async def test_a_plug_in_that_stands_still_is_killed_and_comes_back(tmp_path: Path) -> None:
    socket, clock = tmp_path / "k.sock", FakeClock()
    ours, others = provider(socket, clock, 60.0), provider(socket, clock, 60.0)
    impatient = provider(socket, clock, 0.2)
    with process(socket) as plugin:
        await ours.check()
        await others.check()
        known, unknown = ours.write(b"known", KEY), others.write(b"unknown", KEY)
        for fault in (signal.SIGSTOP, signal.SIGKILL):
            plugin.send_signal(fault)
            # The seed that was made here needs nobody; one that has to be asked for fails at its deadline, and
            # all of its values at once from then on.
            assert await read(ours, known) == b"known"
            for _ in range(50):
                with pytest.raises(TransformError, match="failed to decrypt DEK, error: rpc error: code = "):
                    await read(impatient, unknown)
            with pytest.raises(TransformError, match="failed to perform status section"):
                await impatient.check()
            if fault == signal.SIGSTOP:
                plugin.send_signal(signal.SIGCONT)
                assert await read(ours, unknown) == b"unknown"
            clock.advance(RETRY_SECONDS)
    with process(socket):
        patient = provider(socket, clock, 60.0)
        assert await read(patient, unknown) == b"unknown"
        # Who has known the former one speaks to this one.
        await ours.check()
        assert ours.write(b"again", KEY)
        for each in (ours, others, impatient, patient):
            await asyncio.wait_for(each.close(), 60)
