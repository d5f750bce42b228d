"""Real CAs of others on ports of their own: cfssl, and Pebble for ACME."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import peers
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.keys import to_pem
from processes import PATIENCE_SECONDS, environment
from throwaway_ca import Pair

AUTH_KEY = "00112233445566778899aabbccddeeff"
_LOOK_SECONDS = 0.01
_LISTEN = "0A"


@contextmanager
def _running(folder: Path, *command: str | Path, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(part) for part in command], cwd=folder, env=environment(**more), stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _ports(process: subprocess.Popen[bytes], count: int) -> list[int]:
    """Where it listens once these are so many; both programs only say what port they were told."""
    never = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / _LOOK_SECONDS)):
        assert process.poll() is None, f"{process.args!r} has ended"
        found = _listening(process.pid)
        if len(found) >= count:
            return found
        never.wait(_LOOK_SECONDS)
    pytest.fail(f"{process.args!r} does not listen")


def _listening(pid: int) -> list[int]:
    inodes = []
    for entry in sorted(Path(f"/proc/{pid}/fd").glob("*"), key=lambda path: int(path.name)):
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
        except FileNotFoundError:
            continue
        inodes += [match[1]] if match else []
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = {row[9]: int(row[1].partition(":")[2], 16) for row in rows if row[3] == _LISTEN}
    return [listening[inode] for inode in inodes if inode in listening]


@contextmanager
def cfssl(folder: Path, authority: CertificateAuthority, serving: Pair) -> Iterator[int]:
    """A server that signs what asks with :data:`AUTH_KEY`, on the port that it gives."""
    (folder / "ca.crt").write_bytes(authority.certificate.pem())
    (folder / "ca.key").write_bytes(to_pem(authority.key))
    certificate, key = serving.write(folder, "serving")
    usages = {"expiry": "24h", "backdate": "5m", "auth_key": "ours"}
    document = {
        "signing": {
            "default": {**usages, "usages": ["digital signature", "client auth"]},
            "profiles": {"serving": {**usages, "usages": ["digital signature", "server auth"]}},
        },
        "auth_keys": {"ours": {"type": "standard", "key": AUTH_KEY}},
    }
    (folder / "config.json").write_text(json.dumps(document))
    program = peers.binary("debian", "usr/bin/cfssl")
    flags = ["-address", "127.0.0.1", "-port", "0", "-ca", "ca.crt", "-ca-key", "ca.key", "-config", "config.json"]
    with _running(folder, program, "serve", *flags, "-tls-cert", certificate, "-tls-key", key) as process:
        yield _ports(process, 1)[0]


@contextmanager
def pebble(folder: Path, serving: Pair, http_port: int, **more: str) -> Iterator[tuple[str, bytes]]:
    """An ACME server that validates names at ``http_port``: the URL of its directory, and the root it issues under."""
    certificate, key = serving.write(folder, "serving")
    document = {
        "pebble": {
            "listenAddress": "127.0.0.1:0",
            "managementListenAddress": "127.0.0.1:0",
            "certificate": str(certificate),
            "privateKey": str(key),
            "httpPort": http_port,
            "tlsPort": http_port,
            "externalAccountBindingRequired": False,
            "certificateValidityPeriod": 86400,
        }
    }
    (folder / "pebble.json").write_text(json.dumps(document))
    program = peers.binary("debian", "usr/bin/pebble")
    with _running(
        folder, program, "-config", "pebble.json", PEBBLE_VA_NOSLEEP="1", PEBBLE_WFE_NONCEREJECT="0", **more
    ) as process:
        # Which of the two sockets comes first is left to chance.
        ports = _ports(process, 2)
        answers = {port: _get(port, "/roots/0") for port in ports}
        management = next(port for port in ports if answers[port].startswith(b"-----BEGIN"))
        port = next(port for port in ports if port != management)
        yield f"https://127.0.0.1:{port}/dir", answers[management]


def _get(port: int, path: str) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()
