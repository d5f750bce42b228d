"""Talking to a TPM: Linux' /dev/tpmrm0 or /dev/tpm0, or the socket of a swtpm.

A connection is held for a few commands only, for without a resource manager nobody else can talk meanwhile; what was
loaded is flushed before it ends.

SettingsError
├── TPMAbsentError         there is no TPM
└── TPMPermissionError     there is one, for others
UnavailableError
├── TPMBusyError           somebody else holds it, or it does not get ready
└── TPMLockedOutError      it was asked with wrong passwords too often, by whomever
AttestationError
└── TPMCommandError        it has refused a command; ``code`` says why
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from kubevouch.attestation.interface import AttestationError, SettingsError, UnavailableError
from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import commands
from kubevouch.pki.tpm.commands import Command, Property, Response, ResponseCode, TPMResponseError

_T = TypeVar("_T")

RESOURCE_MANAGER = "/dev/tpmrm0"
ENVIRONMENT = "KUBEVOUCH_TPM"
"""For machines whose TPM is elsewhere: the certificate store has no settings that would say where."""
DEVICES = (RESOURCE_MANAGER, "/dev/tpm0")
_SWTPM = "swtpm:"
_DEVICE = "device:"

_WAITS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 1.6)
"""Seconds before the next try while the TPM says that it is not ready: 5 in all."""
LONGEST_ANSWER = 120.0
"""Seconds: some TPMs look for the primes of an RSA key for a minute."""
_PASSING = frozenset(
    {
        ResponseCode.RETRY,
        ResponseCode.YIELDED,
        ResponseCode.TESTING,
        ResponseCode.NV_RATE,
        ResponseCode.NV_UNAVAILABLE,
    }
)
# Loaded sessions are asked for as sessions for HMAC, and answered as what they are (part 2, 7.3).
_SESSIONS = (0x02, 0x03)
_FULL = frozenset({ResponseCode.OBJECT_MEMORY, ResponseCode.SESSION_MEMORY, ResponseCode.OBJECT_HANDLES})


class TPMAbsentError(SettingsError):
    """There is no TPM where one was looked for."""


class TPMPermissionError(SettingsError):
    """There is a TPM that this user may not talk to."""


class TPMBusyError(UnavailableError):
    """Somebody else holds the TPM, or it does not get ready."""


class TPMLockedOutError(UnavailableError):
    """The TPM answers nobody who shows a password, for it was shown wrong ones. ``retry_after``: until it does."""


class TPMCommandError(AttestationError):
    """The TPM has refused a command. ``code`` is the response code without its parameter."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class _Line(Protocol):
    """Where commands go."""

    def exchange(self, command: bytes) -> bytes:
        """Raises ``OSError``, ``StructureError``."""
        ...

    def close(self) -> None: ...


class Device:
    """A TPM.

    Args:
        where: a path, or as the TPM2 tools write it ``device:PATH``, ``swtpm:path=PATH``,
            ``swtpm:host=HOST,port=PORT``; empty for what the environment says (:data:`ENVIRONMENT`), else
            the first of :data:`DEVICES` that is there.
        sleep: waits for so many seconds.
        patience: seconds to wait for an answer of a socket.

    Raises:
        SettingsError: ``where`` is none of these.
    """

    def __init__(
        self,
        where: str = "",
        *,
        sleep: Callable[[float], object] | None = None,
        patience: float = LONGEST_ANSWER,
    ) -> None:
        self.where = where or _first_device()
        self._open = _opener(self.where, patience)
        self._sleep = sleep or threading.Event().wait
        self.has_resource_manager = "tpmrm" in self.where

    @contextlib.contextmanager
    def opened(self) -> Iterator[Connection]:
        """A connection for as long as the block runs; waits for who holds the TPM, for five seconds at most.

        Raises:
            TPMAbsentError, TPMPermissionError, TPMBusyError
        """
        connection = Connection(self._line(), self)
        try:
            yield connection
        finally:
            connection.close()

    def sleep(self, seconds: float) -> None:
        self._sleep(seconds)

    def _line(self) -> _Line:
        waits = iter(_WAITS)
        while True:
            try:
                return self._open()
            except OSError as err:
                # /dev/tpm0 is for one at a time, and most hold it for a few commands.
                seconds = next(waits, None) if err.errno == errno.EBUSY else None
                if seconds is None:
                    raise explain(self.where, err) from err
                self._sleep(seconds)


class Connection:
    """Commands to one TPM; use :meth:`Device.opened`."""

    def __init__(self, line: _Line, device: Device) -> None:
        self._line = line
        self._device = device
        self._loaded: list[int] = []

    def run(self, command: Command) -> Response:
        """What the TPM answers; waits while it is not ready, for five seconds at most.

        A handle that it makes is flushed when the connection ends, or by :meth:`flush`.

        Raises:
            TPMBusyError, TPMLockedOutError, TPMCommandError
        """
        waits = iter(_WAITS)
        made_room = False
        while True:
            try:
                response = self._exchange(command)
            except TPMResponseError as err:
                if err.code in _PASSING:
                    seconds = next(waits, None)
                    if seconds is None:
                        raise TPMBusyError(f"the TPM does not get ready: {err}") from err
                    self._device.sleep(seconds)
                elif err.code in _FULL and not made_room and self._make_room():
                    made_room = True
                elif err.code == ResponseCode.LOCKOUT:
                    raise self._locked_out() from err
                else:
                    raise TPMCommandError(_explained(err, self._device), err.code) from err
            else:
                if command.answers_handle:
                    self._loaded.append(response.handle)
                return response

    def properties(self, first: int, count: int = 64) -> dict[int, int]:
        """Of the TPM, from ``first`` on (part 2, 6.13). Raises as :meth:`run`."""
        command = commands.get_capability(commands.CAPABILITY_PROPERTIES, first, count)
        return dict(self._parsed(commands.capability_properties, command))

    def handles(self, first: int, count: int = 64) -> tuple[int, ...]:
        """Those in use of the kind that ``first`` is of. Raises as :meth:`run`."""
        command = commands.get_capability(commands.CAPABILITY_HANDLES, first, count)
        kinds = _SESSIONS if first >> 24 in _SESSIONS else (first >> 24,)
        return tuple(each for each in self._parsed(commands.capability_handles, command) if each >> 24 in kinds)

    def flush(self, handle: int) -> None:
        """Let go of an object or a session. Raises as :meth:`run`."""
        self._loaded.remove(handle)
        self.run(commands.flush_context(handle))

    def release(self) -> None:
        """Let go of all that is loaded; nothing is raised, for what has failed before says more."""
        while self._loaded:
            with contextlib.suppress(AttestationError, TPMResponseError):
                self._exchange(commands.flush_context(self._loaded.pop()))

    def close(self) -> None:
        """Let go of everything."""
        self.release()
        self._line.close()

    def _parsed(self, parse: Callable[[Response], _T], command: Command) -> _T:
        try:
            return parse(self.run(command))
        except StructureError as err:
            raise TPMCommandError(f"{self._device.where} does not answer as a TPM: {err}", 0) from err

    def _exchange(self, command: Command) -> Response:
        try:
            return commands.parse_response(command, self._line.exchange(command.to_bytes()))
        except TimeoutError as err:
            raise TPMBusyError(f"{self._device.where} does not answer; does somebody else hold it?") from err
        except OSError as err:
            raise explain(self._device.where, err) from err
        except StructureError as err:
            raise TPMCommandError(f"{self._device.where} does not answer as a TPM: {err}", 0) from err

    def _make_room(self) -> bool:
        """Flush what somebody has left in a TPM that only one can talk to at a time; whether there was anything.

        Behind a resource manager others' objects are not seen, and must not go.
        """
        if self._device.has_resource_manager:
            return False
        left = [
            handle
            for first in (commands.FIRST_TRANSIENT, commands.FIRST_LOADED_SESSION)
            for handle in self.handles(first)
            if handle not in self._loaded
        ]
        for handle in left:
            self._exchange(commands.flush_context(handle))
        return bool(left)

    def _locked_out(self) -> TPMLockedOutError:
        known = self.properties(Property.PERMANENT)
        interval = known.get(Property.LOCKOUT_INTERVAL, 0)
        return TPMLockedOutError(
            f"the TPM is locked out after {known.get(Property.LOCKOUT_COUNTER, 0)} wrong passwords; it forgives one "
            f"every {interval} seconds",
            float(interval) or 3600.0,
        )


def _explained(err: TPMResponseError, device: Device) -> str:
    if err.code in _FULL:
        return f"{err}: it is full of what others have loaded; use {RESOURCE_MANAGER}, which swaps"
    if err.code == ResponseCode.INITIALIZE:
        return f"{err}: nobody has started the TPM at {device.where}, which firmware does"
    if err.code in {ResponseCode.AUTH_FAIL, ResponseCode.BAD_AUTH}:
        return f"{err}: a password is set for what has to be used, expected none"
    return str(err)


# ------------------------------------------------------------------ where it is


def _first_device() -> str:
    return os.environ.get(ENVIRONMENT) or next((each for each in DEVICES if Path(each).exists()), RESOURCE_MANAGER)


def _opener(where: str, patience: float) -> Callable[[], _Line]:
    if where.startswith(_SWTPM):
        given = dict(each.partition("=")[::2] for each in where.removeprefix(_SWTPM).split(","))
        if set(given) == {"path"} and given["path"]:
            return lambda: _Socket(socket.AF_UNIX, given["path"], patience)
        if set(given) <= {"host", "port"} and given.get("port", "").isascii() and given.get("port", "").isdecimal():
            address = (given.get("host", "127.0.0.1"), int(given["port"]))
            return lambda: _Socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, address, patience)
    path = where.removeprefix(_DEVICE)
    if path.startswith("/"):
        return lambda: _CharacterDevice(path)
    raise SettingsError(
        f"got the TPM {where!r}, expected a path, swtpm:path=PATH or swtpm:host=HOST,port=PORT",
        f"leave it out for {' or '.join(DEVICES)}",
    )


def explain(where: str, err: OSError) -> AttestationError:
    """What a failure to talk to the TPM at ``where`` means."""
    match err.errno:
        case errno.ENOENT | errno.ENODEV | errno.ENXIO | errno.ECONNREFUSED:
            return TPMAbsentError(
                f"there is no TPM at {where}: {err.strerror}",
                "switch it on in the machine's firmware, or give the virtual machine one",
            )
        case errno.EACCES | errno.EPERM:
            return TPMPermissionError(
                f"the TPM at {where} may not be used: {err.strerror}", "run as root, or as a member of the group tss"
            )
        case errno.ENOTTY | errno.EISDIR | errno.ENOTSOCK | errno.EPROTOTYPE:
            return SettingsError(f"got {where}, expected the device or the socket of a TPM: {err.strerror}")
        case errno.EBUSY:
            return TPMBusyError(f"somebody else holds the TPM at {where}; {RESOURCE_MANAGER} is for many at a time")
        case _:
            return TPMBusyError(f"the TPM at {where} cannot be used: {err.strerror or err}")


def _size_of(found: bytes) -> int:
    """Of the whole response that ``found`` is the beginning of. Raises :class:`StructureError`."""
    if len(found) < commands.HEADER.size:
        return commands.HEADER.size
    _, size, _ = commands.HEADER.unpack_from(found)
    if not commands.HEADER.size <= size <= commands.MAX_RESPONSE:
        raise StructureError(f"got a response of {size} bytes, expected at most {commands.MAX_RESPONSE}")
    return int(size)


def _hung_up(found: bytes, size: int) -> StructureError:
    return StructureError(f"it hung up after {len(found)} of {size} bytes")


class _CharacterDevice:
    """One write is a command, one read its answer (Linux, Documentation/security/tpm)."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
        # A file that somebody has named by mistake would be written over.
        if not stat.S_ISCHR(os.fstat(self._descriptor).st_mode):
            os.close(self._descriptor)
            raise OSError(errno.ENOTTY, "it is no device")

    def exchange(self, command: bytes) -> bytes:
        os.write(self._descriptor, command)
        # All at once: older kernels throw away what the first read leaves.
        found = os.read(self._descriptor, commands.MAX_RESPONSE)
        while len(found) < _size_of(found):
            part = os.read(self._descriptor, commands.MAX_RESPONSE)
            if not part:
                raise _hung_up(found, _size_of(found))
            found += part
        return found

    def close(self) -> None:
        os.close(self._descriptor)


class _Socket:
    """The data channel of a swtpm: commands and answers one behind the other."""

    def __init__(self, family: int, address: str | tuple[str, int], patience: float) -> None:
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.settimeout(patience)
        try:
            self._socket.connect(address)
        except BaseException:
            self._socket.close()
            raise

    def exchange(self, command: bytes) -> bytes:
        self._socket.sendall(command)
        header = self._exactly(commands.HEADER.size)
        return header + self._exactly(_size_of(header) - len(header))

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self._socket.recv(size - len(found))
            if not part:
                raise _hung_up(found, size)
            found += part
        return found

    def close(self) -> None:
        self._socket.close()
