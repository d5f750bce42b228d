from __future__ import annotations

import errno
import os
import struct
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubevouch.attestation.interface import SettingsError, UnavailableError
from kubevouch.attestation.tpm import device as device_module
from kubevouch.attestation.tpm.device import (
    Device,
    TPMAbsentError,
    TPMBusyError,
    TPMCommandError,
    TPMLockedOutError,
    TPMPermissionError,
    explain,
)
from kubevouch.pki.tpm import commands, templates
from kubevouch.pki.tpm.commands import CommandCode, Property, ResponseCode
from software_tpm import Manufacturer, SoftwareTPM, software_tpm
from tpm_front import front

_ASK = CommandCode.GET_CAPABILITY
_MANUFACTURER = {Property.MANUFACTURER: int.from_bytes(b"IBM\0", "big")}


def _ask(device: Device) -> dict[int, int]:
    with device.opened() as connection:
        return connection.properties(Property.MANUFACTURER, 1)


def test_a_tpm_behind_a_socket_answers(tpm: SoftwareTPM) -> None:
    assert _ask(tpm.device()) == _MANUFACTURER


@contextmanager
def _character_device(tpm: SoftwareTPM) -> Iterator[str]:
    """A terminal as a device file; what is written there goes to the TPM, in pieces back."""
    inner, outer = os.openpty()
    tty.setraw(outer)

    def serve() -> None:
        line = device_module._opener(tpm.where, 60.0)()
        try:
            while True:
                command = os.read(inner, commands.MAX_RESPONSE)
                answer = line.exchange(command)
                os.write(inner, answer[:3])
                os.write(inner, answer[3:])
        except OSError:
            line.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield os.ttyname(outer)
    finally:
        os.close(outer)
        thread.join()
        os.close(inner)


def test_a_tpm_behind_a_device_file_answers(tpm: SoftwareTPM) -> None:
    with _character_device(tpm) as path:
        assert _ask(Device(path)) == _ask(Device(f"device:{path}")) == _MANUFACTURER


@pytest.mark.parametrize(
    "where", ["tpm0", "swtpm:", "swtpm:path=", "swtpm:port=x", "swtpm:port=１", "swtpm:path=/a,port=1", "mssim:port=1"]
)
def test_what_names_no_tpm_is_refused(where: str) -> None:
    with pytest.raises(SettingsError, match="expected a path"):
        Device(where)


def test_a_port_that_nobody_listens_on_is_an_absent_tpm() -> None:
    with pytest.raises(TPMAbsentError) as caught, Device("swtpm:host=127.0.0.1,port=1").opened():
        pass
    assert "firmware" in caught.value.hint


def test_a_path_that_is_not_there_is_an_absent_tpm(tmp_path: Path) -> None:
    for where in (str(tmp_path / "tpmrm0"), f"swtpm:path={tmp_path / 'socket'}"):
        with pytest.raises(TPMAbsentError, match="there is no TPM"), Device(where).opened():
            pass


def test_a_file_that_is_no_tpm_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "precious"
    file.write_bytes(b"x" * 100)
    for where in (str(file), str(tmp_path)):
        with pytest.raises(SettingsError, match="expected the device or the socket of a TPM"):
            _ask(Device(where))
    assert file.read_bytes() == b"x" * 100


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOENT, TPMAbsentError),
        (errno.ENODEV, TPMAbsentError),
        (errno.EACCES, TPMPermissionError),
        (errno.EPERM, TPMPermissionError),
        (errno.EBUSY, TPMBusyError),
        (errno.EIO, TPMBusyError),
        (errno.ETIME, TPMBusyError),
    ],
)
def test_each_failure_of_the_device_has_its_meaning(number: int, expected: type[Exception]) -> None:
    assert type(explain("/dev/tpm0", OSError(number, os.strerror(number)))) is expected


# ------------------------------------------------------------------ a TPM that is not ready


@pytest.mark.parametrize(
    "code",
    [
        ResponseCode.RETRY, ResponseCode.YIELDED, ResponseCode.TESTING, ResponseCode.NV_RATE,
        ResponseCode.NV_UNAVAILABLE,
    ],
)  # fmt: skip
def test_what_passes_is_asked_again(tpm: SoftwareTPM, code: ResponseCode) -> None:
    with front(tpm, {_ASK: [code, code, code]}) as asked:
        assert _ask(asked.device()) == _MANUFACTURER
        assert asked.seen == [_ASK] * 4
        assert asked.waited == [0.02, 0.05, 0.1]


def test_a_tpm_that_never_gets_ready_is_busy(tpm: SoftwareTPM) -> None:
    with front(tpm, {_ASK: [ResponseCode.RETRY] * 100}) as asked:
        with pytest.raises(TPMBusyError) as caught:
            _ask(asked.device())
        assert isinstance(caught.value, UnavailableError)
        assert 4 < sum(asked.waited) < 6


@pytest.mark.parametrize("busy", [3, 100])
def test_who_holds_the_device_is_waited_for(tpm: SoftwareTPM, busy: int) -> None:
    waited: list[float] = []
    device = Device(tpm.where, sleep=waited.append)
    really, refusals = device._open, [OSError(errno.EBUSY, "Device or resource busy")] * busy

    def opened() -> device_module._Line:
        if refusals:
            raise refusals.pop()
        return really()

    device._open = opened
    if busy == 3:
        assert _ask(device) == _MANUFACTURER
        assert waited == [0.02, 0.05, 0.1]
    else:
        with pytest.raises(TPMBusyError, match="/dev/tpmrm0 is for many at a time"):
            _ask(device)
        assert 4 < sum(waited) < 6


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x80\x01\x00\x00\x00\x09",
        struct.pack(">HII", 0x8001, 1 << 30, 0),
        struct.pack(">HII", 0x8001, 9, 0),
        struct.pack(">HII", 0x1234, 10, 0),
        struct.pack(">HII", 0x8001, 12, 0) + b"\0\0",
        struct.pack(">HII", 0x8001, 19, 0) + struct.pack(">BII", 0, 6, 0x7FFFFFFF),
        struct.pack(">HII", 0x8001, 19, 0) + struct.pack(">BII", 0, 1, 0),
    ],
    ids=["nothing", "cut off", "endless", "shorter than itself", "tag", "short", "count", "another capability"],
)
def test_what_is_no_answer_of_a_tpm_is_an_error(tpm: SoftwareTPM, answer: bytes) -> None:
    with (
        front(tpm, {_ASK: [answer]}) as asked,
        pytest.raises(TPMCommandError, match="does not answer as a TPM"),
    ):
        _ask(asked.device())


def test_a_tpm_that_somebody_else_holds_is_busy(tpm: SoftwareTPM) -> None:
    with tpm.device().opened() as holding:
        _ = holding.handles(commands.FIRST_TRANSIENT)
        with pytest.raises(TPMBusyError, match="does somebody else hold it"):
            _ask(Device(tpm.where, patience=0.05))


# ------------------------------------------------------------------ full, and locked


def test_what_is_loaded_goes_when_the_connection_ends(tpm: SoftwareTPM) -> None:
    with tpm.device().opened() as connection:
        connection.run(commands.create_primary(commands.ENDORSEMENT, templates.ATTESTATION_KEY))
        connection.run(commands.start_policy_session(bytes(16)))
        assert connection.handles(commands.FIRST_TRANSIENT)
        assert connection.handles(commands.FIRST_LOADED_SESSION)
    with tpm.device().opened() as connection:
        assert connection.handles(commands.FIRST_TRANSIENT) == ()
        assert connection.handles(commands.FIRST_LOADED_SESSION) == ()


def _leave(tpm: SoftwareTPM, count: int) -> None:
    """Load keys and go, as the TPM2 tools do."""
    for _ in range(count):
        with tpm.device().opened() as connection:
            connection.run(commands.create_primary(commands.ENDORSEMENT, templates.ATTESTATION_KEY))
            connection._loaded.clear()


def test_a_tpm_that_others_have_left_full_is_emptied(tpm: SoftwareTPM) -> None:
    _leave(tpm, 3)
    with tpm.device().opened() as connection:
        for _ in range(3):
            connection.run(commands.create_primary(commands.ENDORSEMENT, templates.ATTESTATION_KEY))
        with pytest.raises(TPMCommandError, match="full of what others have loaded; use /dev/tpmrm0"):
            connection.run(commands.create_primary(commands.ENDORSEMENT, templates.ATTESTATION_KEY))


def test_behind_a_resource_manager_what_is_others_stays(tpm: SoftwareTPM) -> None:
    _leave(tpm, 3)
    device = tpm.device()
    device.has_resource_manager = True
    with device.opened() as connection:
        with pytest.raises(TPMCommandError, match="object memory"):
            connection.run(commands.create_primary(commands.ENDORSEMENT, templates.ATTESTATION_KEY))
        assert len(connection.handles(commands.FIRST_TRANSIENT)) == 3
    with tpm.device().opened() as connection:
        connection.run(commands.create_primary(commands.ENDORSEMENT, templates.ATTESTATION_KEY))


def test_a_locked_out_tpm_says_until_when(tmp_path: Path, manufacturer: Manufacturer) -> None:
    with software_tpm(tmp_path, manufacturer) as tpm:
        high = next(each for each in templates.ENDORSEMENT_KEYS if each.kind == "ECC-P384")
        tpm.lock_out(seconds=7200)
        with tpm.device().opened() as connection:
            made = connection.run(commands.create_primary(commands.ENDORSEMENT, high.template)).handle
            attestation_key = connection.run(commands.create_primary(commands.ENDORSEMENT, templates.ATTESTATION_KEY))
            with pytest.raises(TPMLockedOutError, match="one every 7200 seconds") as caught:
                connection.run(
                    commands.activate_credential(attestation_key.handle, made, commands.EMPTY, bytes(68), bytes(68))
                )
            assert caught.value.retry_after == 7200
            # The keys that a node needs each day go on.
            connection.run(commands.quote(attestation_key.handle, b"", []))


def test_a_tpm_that_nobody_has_started_says_so(tpm: SoftwareTPM) -> None:
    with (
        front(tpm, {_ASK: [ResponseCode.INITIALIZE]}) as asked,
        pytest.raises(TPMCommandError, match="firmware"),
    ):
        _ask(asked.device())
