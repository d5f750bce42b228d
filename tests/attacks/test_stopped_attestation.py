"""A machine that is switched off at any step of proving what it is comes back as the same machine (spiffe/spire#630).

Its method is the strictest: a proof that counts for one key only. Were the key lost after the cluster has written it
down, the machine would be locked out of its own name for good.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asking_machine import AskingMachine
from asynctest import async_test
from attested_world import attested_world, identity
from controller_world import World
from kubevouch.agent import attestation_settings
from kubevouch.agent.attestation_settings import AttestationSettings
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.interface import AttestationRefusedError
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.pki import keys
from kubevouch.pki.x509.x509_certificate import Certificate
from proving_machine import by_null

USER = "system:bootstrap:p9k2zq"


class _SwitchedOff(BaseException):
    """The machine ends here."""


class _Countdown:
    """Ends the machine at the n-th step, before or after what the step does."""

    def __init__(self, number: int, *, after: bool) -> None:
        self.left = number
        self.after = after

    def begins(self) -> None:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise _SwitchedOff

    def is_done(self) -> None:
        if self.left == 0 and self.after:
            raise _SwitchedOff


class _Client:
    """Each call is a step."""

    def __init__(self, client: Any, countdown: _Countdown) -> None:
        self._client = client
        self._countdown = countdown

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name == "watch":
            self._countdown.begins()
            self._countdown.is_done()
            return found

        async def call(*arguments: Any, **options: Any) -> Any:
            self._countdown.begins()
            result = await found(*arguments, **options)
            self._countdown.is_done()
            return result

        return call


class _Store(CertificateStore):
    """Each change of a file is a step."""

    countdown: _Countdown

    def update(self, *arguments: Any, **options: Any) -> Path:
        self.countdown.begins()
        done = super().update(*arguments, **options)
        self.countdown.is_done()
        return done

    def drop_pending_key(self) -> None:
        self.countdown.begins()
        super().drop_pending_key()
        self.countdown.is_done()


class _Machine(AskingMachine):
    """Each call and each change of a file is a step."""

    def __init__(self, at: World, folder: Path, name: str, settings: AttestationSettings) -> None:
        super().__init__(at, folder, name, settings)
        self.store = self._store = _Store(folder)

    async def obtain_until(self, countdown: _Countdown) -> Certificate:
        self._store.countdown = countdown
        return await self.obtain(through=lambda client: _Client(client, countdown))


@pytest.mark.parametrize("after", [False, True])
@async_test
async def test_at_every_step(tmp_path: Path, after: bool) -> None:
    async with attested_world() as at:
        number, off = 0, True
        while off:
            number += 1
            name = f"worker-{number}"
            settings = by_null(f"identity=m{number}", "renewable=false")
            machine = _Machine(at, tmp_path / name, name, settings)
            off = False
            try:
                leaf = await machine.obtain_until(_Countdown(number, after=after))
            except _SwitchedOff:
                off = True
                # As agent, join and plug-in: whoever has a pair for these proofs asks for none.
                there = machine.store.current()
                given = there is not None and attestation_settings.is_given_for(
                    machine.store.current_path, settings, there.leaf
                )
                leaf = (
                    there.leaf
                    if there is not None and given
                    else await machine.obtain_until(_Countdown(0, after=after))
                )
            found = await identity(at, name)
            assert found is not None
            # One key has ever been certified, and it is what the cluster knows the machine by.
            assert found.status.key_fingerprint == leaf.public_key.fingerprint().hex()
            assert {each.key_fingerprint for each in found.status.granted} == {found.status.key_fingerprint}
            current = machine.store.current()
            assert current is not None and current.leaf == leaf
            assert keys.public_key_of(current.key) == leaf.public_key
            assert attestation_settings.is_given_for(machine.store.current_path, settings, leaf)
        # Challenge, its watch, the request, its watch, the pair, the key: each of them was a step.
        assert number > 5
        requests = (await at.client.list(CERTIFICATE_SIGNING_REQUESTS)).items
        assert all(each.status.certificate for each in requests)
        assert len(requests) == number


@async_test
async def test_a_copy_that_was_made_in_between_is_another_machine(tmp_path: Path) -> None:
    """With the key that was asked about, and all else that is on the disk: who proves another machine gets nothing."""
    async with attested_world() as at:
        machine = _Machine(at, tmp_path / "a", "worker-1", by_null("identity=m1", "renewable=false"))
        with pytest.raises(_SwitchedOff):
            await machine.obtain_until(_Countdown(1, after=True))
        copy = _Machine(at, tmp_path / "a", "worker-1", by_null("identity=m2"))
        leaf = await machine.obtain_until(_Countdown(0, after=False))
        with pytest.raises(AttestationRefusedError) as refused:
            await copy.obtain_until(_Countdown(0, after=False))
        assert refused.value.reason == "name-taken"
        found = await identity(at, "worker-1")
        assert found is not None and found.status.key_fingerprint == leaf.public_key.fingerprint().hex()
