"""A TPM that says what a test wants before it says what the real one behind it does."""

from __future__ import annotations

import contextlib
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kubevouch.attestation.tpm.device import Device
from software_tpm import SoftwareTPM


@dataclass
class Front:
    """Between a device and a TPM.

    Args:
        answers: of each command code, what to answer before it is passed on: octets, or a response code.
        waited: how long somebody has waited, in seconds.
    """

    where: str
    answers: dict[int, list[bytes | int]]
    seen: list[int] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)

    def device(self) -> Device:
        return Device(self.where, sleep=self.waited.append)


@contextlib.contextmanager
def front(tpm: SoftwareTPM, answers: dict[int, list[bytes | int]]) -> Iterator[Front]:
    """One at a time can talk to it, as to ``tpm``."""
    with tempfile.TemporaryDirectory(prefix="tpm-") as folder, socket.socket(socket.AF_UNIX) as listening:
        path = str(Path(folder) / "front")
        listening.bind(path)
        listening.listen()
        made = Front(f"swtpm:path={path}", answers)
        thread = threading.Thread(target=_serve, args=(listening, made, tpm))
        thread.start()
        try:
            yield made
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listening: socket.socket, front: Front, tpm: SoftwareTPM) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection, socket.socket(socket.AF_UNIX) as behind, contextlib.suppress(OSError):
            behind.connect(tpm.where.partition("=")[2])
            while header := _exactly(connection, 10):
                _, size, code = struct.unpack(">HII", header)
                command = header + _exactly(connection, size - 10)
                front.seen.append(code)
                planned = front.answers.get(code, [])
                answer = planned.pop(0) if planned else _passed_on(behind, command)
                connection.sendall(struct.pack(">HII", 0x8001, 10, answer) if isinstance(answer, int) else answer)
                if isinstance(answer, bytes) and len(answer) < 10:
                    break  # nothing more will come


def _passed_on(behind: socket.socket, command: bytes) -> bytes:
    behind.sendall(command)
    header = _exactly(behind, 10)
    return header + _exactly(behind, struct.unpack(">HII", header)[1] - 10)


def _exactly(line: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (part := line.recv(size - len(found))):
        found += part
    return found
