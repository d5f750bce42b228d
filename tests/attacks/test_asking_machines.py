"""What machines show, and what the controllers make of it: several proofs together, and versions that are not read."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from asking_machine import AskingMachine
from asynctest import async_test
from attested_world import attested_world, identity
from controller_world import NOW
from device_certificates import issue
from kubevouch.agent.attestation_settings import AttestationSettings
from kubevouch.agent.interface import AttestationRefusedError, EvidenceVersionError
from proving_machine import by_null

CONFIGURATION = """
attestors:
- provider: "null"
- provider: x509pop
  settings: {{rootsFile: {roots}}}
groups:
- {{name: control-plane, nodeNames: ["cp-*"], allOf: ["null", x509pop]}}
"""
BOTH = ("null", "x509pop")


def both(folder: Path, *settings: str, names: tuple[str, ...] = BOTH) -> AttestationSettings:
    device = [f"x509pop.certificate={folder / 'device.pem'}", f"x509pop.key={folder / 'device.key'}"]
    return by_null(*(f"null.{each}" for each in settings), *device, names=names)


@async_test
async def test_both_are_asked_for_shown_and_written_down(tmp_path: Path) -> None:
    begins = NOW - dt.timedelta(days=1)
    factory = issue("factory", ca=True, begins=begins)
    issue("device-1", factory, begins=begins).write(tmp_path)
    (tmp_path / "roots.pem").write_text(factory.pem)
    async with attested_world(CONFIGURATION.format(roots=tmp_path / "roots.pem")) as at:
        machine = AskingMachine(at, tmp_path / "a", "cp-1", both(tmp_path, "identity=m1"))
        await machine.obtain()
        found = await identity(at, "cp-1")
        assert found is not None
        assert (found.status.provider, found.status.identity) == ("null", "m1")
        assert [each.provider for each in found.status.also] == ["x509pop"]
        # Whichever comes first says who signs.
        other = AskingMachine(at, tmp_path / "b", "worker-1", both(tmp_path, "identity=m2", names=BOTH[::-1]))
        with pytest.raises(AttestationRefusedError) as refused:
            await other.obtain()
        # The device is in use already, whatever is shown beside it.
        assert refused.value.reason == "has-another-name"
        # One of them alone is not what the group asks for.
        alone = AskingMachine(at, tmp_path / "c", "cp-2", by_null("identity=m3"))
        with pytest.raises(AttestationRefusedError) as refused:
            await alone.obtain()
        assert refused.value.reason == "combination"
        # One that is wrong takes the other with it.
        stranger = issue("stranger", ca=True, begins=begins)
        issue("device-2", stranger, begins=begins).write(tmp_path)
        wrong = AskingMachine(at, tmp_path / "d", "cp-3", both(tmp_path, "identity=m4"))
        with pytest.raises(AttestationRefusedError) as refused:
            await wrong.obtain()
        assert await identity(at, "cp-3") is None


@async_test
async def test_a_provider_id_that_nothing_is_called_is_not_even_sent(tmp_path: Path) -> None:
    async with attested_world() as at:
        machine = AskingMachine(at, tmp_path, "worker-1", by_null("identity=m1", "providerId=a b"))
        with pytest.raises(AttestationRefusedError, match="expected 1 to 1024 printable characters"):
            await machine.obtain()


@pytest.mark.parametrize("challenge", ["true", "false"])
@async_test
async def test_an_older_version_is_shown_to_controllers_that_read_no_other(tmp_path: Path, challenge: str) -> None:
    """Told on the challenge, or on the request where there is none; and never below the machine's own bound."""
    text = f"attestors: [{{provider: 'null', settings: {{versions: [v2, v1], challenge: {challenge}}}}}]"
    async with attested_world(text) as at:
        said = ("versions=v3,v2,v1", f"challenge={challenge}")
        machine = AskingMachine(at, tmp_path / "a", "worker-1", by_null("identity=m1", *said))
        await machine.obtain()
        assert machine.told.warnings == ["the cluster does not read null/v3: v2 is shown"]
        proud = AskingMachine(at, tmp_path / "b", "worker-2", by_null("identity=m2", *said, oldest=["v3"]))
        with pytest.raises(EvidenceVersionError, match=r"reads v2,v1 of null evidence, this machine may show v3$"):
            await proud.obtain()
        assert await identity(at, "worker-2") is None
