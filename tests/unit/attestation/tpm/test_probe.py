from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest

from kubevouch.attestation.tpm import node_keys
from kubevouch.attestation.tpm.device import Device, explain
from kubevouch.attestation.tpm.probe import State, probe
from kubevouch.pki.tpm import commands, public_area, templates
from kubevouch.pki.tpm.commands import CommandCode, ResponseCode
from software_tpm import Manufacturer, SoftwareTPM, software_tpm
from tpm_front import front


def test_a_tpm_that_can_prove_is_ready(tpm: SoftwareTPM) -> None:
    report = probe(tpm.device(), node_keys.make(tpm.device()))
    with tpm.device().opened() as connection:
        made = connection.run(commands.create_primary(commands.ENDORSEMENT, templates.ENDORSEMENT_KEYS[0].template))
        area = public_area.parse_area(commands.first_sized(made)).encode_area()
    assert (report.state, report.message, report.problems) == (State.READY, "", ())
    assert (report.manufacturer, report.kind, report.ek_hash) == ("IBM", "ECC-P256", hashlib.sha256(area).hexdigest())
    assert (report.has_certificate, report.chain, report.node_key) == (True, 1, "usable")
    assert set(report.banks) == {"sha1", "sha256", "sha384", "sha512"}


def test_without_a_certificate_the_hash_is_what_counts(tmp_path: Path) -> None:
    with software_tpm(tmp_path) as tpm:
        report = probe(tpm.device(), None)
    assert (report.state, report.has_certificate, report.node_key) == (State.READY, False, "")
    assert report.problems == ("nobody vouches for the endorsement key: clusters have to have its hash on their list",)


def test_a_cleared_tpm_has_lost_the_key_and_is_the_same_machine(tmp_path: Path, manufacturer: Manufacturer) -> None:
    with software_tpm(tmp_path, manufacturer) as tpm:
        key = node_keys.make(tpm.device())
        before = probe(tpm.device(), key)
        tpm.clear()
        after = probe(tpm.device(), key)
    assert (before.node_key, after.node_key) == ("usable", "lost")
    assert (before.ek_hash, after.state) == (after.ek_hash, State.READY)


@pytest.mark.parametrize("kind", ["ECC-P256", "ECC-P384"])
def test_a_lockout_matters_to_keys_that_take_a_password(tmp_path: Path, manufacturer: Manufacturer, kind: str) -> None:
    with software_tpm(tmp_path, manufacturer, (kind,)) as tpm:
        tpm.lock_out(seconds=7200)
        report = probe(tpm.device(), node_keys.make(tpm.device()))
    assert report.node_key == "usable"
    if kind == "ECC-P256":
        assert (report.state, report.problems) == (
            State.READY,
            ("the TPM is locked out for others' keys, which take passwords",),
        )
    else:
        assert report.state is State.LOCKED_OUT
        assert "7200 seconds" in report.hint


def test_a_password_on_the_endorsement_hierarchy_is_what_is_in_the_way(tmp_path: Path) -> None:
    with software_tpm(tmp_path) as tpm:
        tpm.set_password(commands.ENDORSEMENT, b"secret")
        report = probe(tpm.device(), None)
    assert report.state is State.FAILED
    assert "a password is set for what has to be used, expected none" in report.message


def test_why_a_tpm_does_not_answer_is_told(tmp_path: Path, tpm: SoftwareTPM) -> None:
    absent = probe(Device(str(tmp_path / "tpmrm0")), None)
    assert (absent.state, absent.hint) == (
        State.ABSENT,
        "switch it on in the machine's firmware, or give the virtual machine one",
    )
    with tpm.device().opened() as holding:
        holding.handles(commands.FIRST_TRANSIENT)
        assert probe(Device(tpm.where, patience=0.05), None).state is State.BUSY
    with front(tpm, {CommandCode.GET_CAPABILITY: [ResponseCode.FAILURE]}) as failing:
        report = probe(failing.device(), None)
    assert (report.state, report.message) == (
        State.FAILED,
        "the TPM answers 0x101 failure to get capability",
    )


def test_who_may_not_is_told_what_group_may() -> None:
    refused = explain("/dev/tpmrm0", OSError(errno.EACCES, "Permission denied"))
    assert "group tss" in getattr(refused, "hint", "")
