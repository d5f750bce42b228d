"""A KMS plug-in that is killed, stands still and comes back, or lies: reads go on, and nothing hangs or is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import kms_plugin
from asynctest import async_test
from encryption_world import Recorded
from kubevouch.storage.encryption.interface import SeedMissing, TransformError
from kubevouch.storage.encryption.kms import RETRY_SECONDS, WRITE_SECONDS, KMSProvider
from kubevouch.storage.encryption.kms_messages import (
    DecryptRequest,
    DecryptResponse,
    EncryptRequest,
    EncryptResponse,
    StatusResponse,
)
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


class Liar(kms_plugin.KMSPlugin):
    """``encrypted`` and ``decrypted`` change its answers."""

    def __init__(self) -> None:
        super().__init__()
        self.encrypted: Callable[[EncryptRequest, EncryptResponse], EncryptResponse] = lambda _asked, answer: answer
        self.decrypted: Callable[[bytes], bytes] = lambda answer: answer

    def _encrypt(self, asked: EncryptRequest) -> EncryptResponse:
        return self.encrypted(asked, super()._encrypt(asked))

    def _decrypt(self, asked: DecryptRequest) -> DecryptResponse:
        return DecryptResponse(plaintext=self.decrypted(super()._decrypt(asked).plaintext))


def _ciphertext(octets: Callable[[EncryptRequest, EncryptResponse], bytes]) -> Any:
    return lambda asked, answer: replace(answer, ciphertext=octets(asked, answer))


ENCRYPTED = {
    "garbage": (_ciphertext(lambda _asked, _answer: os.urandom(60)), "does not decrypt what it has encrypted"),
    "truncated": (_ciphertext(lambda _asked, answer: answer.ciphertext[:20]), "does not decrypt what it has encrypted"),
    "the seed itself": (_ciphertext(lambda asked, _answer: asked.plaintext), "answered with the seed itself"),
    "the seed inside": (_ciphertext(lambda asked, _answer: b"x" + asked.plaintext), "answered with the seed itself"),
    "the seed beside": (
        lambda asked, answer: replace(answer, annotations={**answer.annotations, "a.b": asked.plaintext}),
        "answered with the seed itself",
    ),
    "nothing": (_ciphertext(lambda _asked, _answer: b""), "encrypted DEK source is empty"),
    "too much": (_ciphertext(lambda _asked, _answer: bytes(1025)), "exceeds the max size of 1024"),
    "another key": (lambda _asked, answer: replace(answer, key_id="kek-2"), "does not decrypt what it has encrypted"),
}
DECRYPTED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "another seed": (lambda _answer: bytes(32), "decrypts what it has encrypted to something else"),
    "a part": (lambda answer: answer[:31], "decrypts what it has encrypted to something else"),
    "more": (lambda answer: answer + b"x", "decrypts what it has encrypted to something else"),
    "megabytes": (lambda _answer: bytes(4 << 20), "Received message larger than max"),
}


@pytest.mark.parametrize("how", [*ENCRYPTED, *DECRYPTED])
@async_test
async def test_no_value_is_written_with_a_seed_that_the_plug_in_lies_about(tmp_path: Path, how: str) -> None:
    """With garbage for a seed, what was acknowledged would be lost at the next start; with the seed itself, each value
    would lie beside its key."""
    plugin, clock = Liar(), FakeClock()
    if how in ENCRYPTED:
        plugin.encrypted, why = ENCRYPTED[how]
    else:
        plugin.decrypted, why = DECRYPTED[how]
    async with plugin.running(tmp_path / "k.sock"):
        # 1. From the start: it is not well, and nothing is written.
        lied_to = provider(tmp_path / "k.sock", clock, 60.0)
        with pytest.raises(TransformError, match=why):
            await lied_to.check()
        with pytest.raises(TransformError, match="got unexpected nil transformer"):
            lied_to.write(b"value", KEY)
        # 2. Once it tells the truth, all is as if nothing had been.
        honest = plugin.encrypted, plugin.decrypted
        plugin.encrypted, plugin.decrypted = Liar().encrypted, Liar().decrypted
        await lied_to.check()
        written = lied_to.write(b"value", KEY)
        # 3. Lies about its next key leave the former seed, for as long as one may be used without the plug-in.
        plugin.encrypted, plugin.decrypted = honest
        plugin.key_id = "kek-3"
        with pytest.raises(TransformError, match=why):
            await lied_to.check()
        assert await read(lied_to, lied_to.write(b"value", KEY)) == await read(lied_to, written) == b"value"
        clock.advance(WRITE_SECONDS + 1)
        with pytest.raises(TransformError, match="expired at"):
            lied_to.write(b"value", KEY)
        await lied_to.close()


@async_test
async def test_a_plug_in_says_little_of_itself(tmp_path: Path) -> None:
    plugin = kms_plugin.KMSPlugin()
    async with plugin.running(tmp_path / "k.sock"):
        asking = provider(tmp_path / "k.sock", FakeClock(), 60.0)
        for status in (
            StatusResponse(version="v2", healthz="x" * 100_000),
            StatusResponse(version="v" * 100_000, healthz="ok"),
        ):
            plugin.status = status
            with pytest.raises(TransformError) as caught:
                await asking.check()
            assert len(str(caught.value)) < 1000
        await asking.close()
