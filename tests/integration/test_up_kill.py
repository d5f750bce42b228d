"""kill -9 of `kubevouch up` while clients write: what was acknowledged is there at the next start, nothing is half."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import signal
import subprocess
import threading
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import processes
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from processes import KUBEVOUCH, Up, environment
from wire import CSRS, Wire

# make endurance has 15.
ROUNDS = int(os.environ.get("KUBEVOUCH_KILLS", "6"))
WRITERS = 4
MAPS = "/api/v1/namespaces/default/configmaps"


def content(name: str, turn: int) -> dict[str, str]:
    """Data that shows whether it is whole."""
    text = f"{name} {turn} " * 50
    return {"turn": str(turn), "text": text, "sum": hashlib.sha256(text.encode()).hexdigest()}


class Writer(threading.Thread):
    """Creates, updates and deletes ConfigMaps over one connection, and remembers what the server acknowledged.

    ``expected`` has for each name the turns that may be found: the acknowledged one, and the one that was asked for
    when the connection broke. None stands for no object.
    """

    def __init__(self, wire: Wire, number: str, enough: threading.Semaphore) -> None:
        super().__init__(name=f"writer-{number}", daemon=True)
        self.expected: dict[str, list[int | None]] = {}
        self.unexpected: list[str] = []
        self._wire = wire
        self._number = number
        self._enough = enough

    def run(self) -> None:
        try:
            with self._wire.connected() as connection:
                http = HTTPConnection("127.0.0.1", self._wire.port)
                http.sock = connection
                for turn in range(100_000):
                    self._write(http, turn)
        except (OSError, HTTPException):
            return

    def _write(self, http: HTTPConnection, turn: int) -> None:
        name = f"map-{self._number}-{turn // 3}"
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": content(name, turn)}
        method, path = (("POST", MAPS), ("PUT", f"{MAPS}/{name}"), ("DELETE", f"{MAPS}/{name}"))[turn % 3]
        if method == "DELETE" and turn % 2:
            return  # half of them stay
        wanted = None if method == "DELETE" else turn
        self.expected[name] = [*self.expected.get(name, [None])[-1:], wanted]
        body = None if method == "DELETE" else json.dumps(tree)
        http.request(method, path, body, {"Content-Type": "application/json"})
        reply = http.getresponse()
        answer = reply.read()
        if reply.status not in (200, 201):
            self.unexpected.append(f"{method} {path}: {reply.status} {answer!r}")
        self.expected[name] = [wanted]
        self._enough.release()


def found(wire: Wire) -> dict[str, int]:
    """The turn of each object, once every one of them is whole."""
    turns = {}
    for each in json.loads(wire.request("GET", MAPS).body)["items"]:
        name = each["metadata"]["name"]
        if name.startswith("map-"):
            turns[name] = int(each["data"]["turn"])
            assert each["data"] == content(name, turns[name])
    return turns


def test_every_acknowledged_write_is_there_afterwards(tmp_path: Path) -> None:
    chance = random.Random(3)
    expected: dict[str, list[int | None]] = {}
    up = Up(tmp_path)
    acknowledged = 0
    told = set()
    for number in range(ROUNDS):
        with up:
            wire = Wire.of_kubeconfig(tmp_path / "cluster/admin.conf", tmp_path)
            turns = found(wire)
            for name, possible in expected.items():
                assert turns.get(name) in possible, name
            assert turns.keys() <= expected.keys()
            told.add(up.printed_join[1:])
            enough = threading.Semaphore(0)
            writers = [Writer(wire, f"{number}-{each}", enough) for each in range(WRITERS)]
            for writer in writers:
                writer.start()
            wanted = chance.randint(1, 150)
            for _ in range(wanted):
                assert enough.acquire(timeout=processes.PATIENCE_SECONDS)
            up.end(signal.SIGKILL)
            for writer in writers:
                writer.join()
                assert writer.unexpected == [], up.stderr
                expected |= writer.expected
            acknowledged += wanted
    assert acknowledged > ROUNDS * 20
    # The token and the authority are the first start's.
    assert len(told) == 1
    assert up.stderr == ""


def test_a_first_start_that_is_cut_short_is_begun_again(tmp_path: Path) -> None:
    """At the first files that it makes, some later ones and the last."""
    code = """
import os, signal, sys
from kubevouch.phases import kubeconfig
from kubevouch.phases.certificates import certs
from kubevouch.util import files
left = int(sys.argv.pop())
def write(path, content, *, mode=0o600):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    files.write_atomically(path, content, mode=mode)
certs.write_atomically = kubeconfig.write_atomically = write
from kubevouch.cli.main import main
main(sys.argv[1:])
"""
    for number in (0, 1, 2, 3, 5, 8, 13):
        folder = tmp_path / str(number)
        folder.mkdir()
        command = [KUBEVOUCH[0], "-c", code, "up", "--data-dir", "./cluster", "--secure-port", "0", str(number)]
        ended = subprocess.run(
            command, cwd=folder, env=environment(), capture_output=True, timeout=processes.PATIENCE_SECONDS, check=False
        )
        assert ended.returncode == -signal.SIGKILL, ended
        with Up(folder) as again:
            assert again.end() == 0
        assert again.stderr == "  … stopping\n"


def test_a_join_whose_server_is_killed_ends_well_when_run_again(tmp_path: Path) -> None:
    up = Up(tmp_path, ("--controllers", "*,-csrapproving"))
    with up:
        address, token, pin = up.join_arguments
        # What `up` prints differs from start to start, and somebody else's token would be somebody else with this key.
        arguments = (
            "--token", token, "--discovery-token-ca-cert-hash", pin,
            "--node-name", "worker-1", "--rootfs", "./worker-1", "--timeout", "200s",
        )  # fmt: skip
        port = address.rpartition(":")[2]
        with subprocess.Popen(
            [*KUBEVOUCH, "join", f"127.0.0.1:{port}", *arguments], cwd=tmp_path, env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as joining:  # fmt: skip
            assert joining.stdout is not None
            # Nobody approves, so it waits from here on.
            assert any("request created" in line for line in joining.stdout)
            up.end(signal.SIGKILL)
            joining.terminate()
            joining.communicate()
    # At the address that cluster-info names: a start does not rewrite it.
    again = Up(tmp_path, ("--bind-address", "127.0.0.1", "--secure-port", port))
    with again:
        ended = processes.kubevouch("join", f"127.0.0.1:{again.port}", *arguments, cwd=tmp_path)
        assert ended.code == 0, ended
        wire = Wire.of_kubeconfig(tmp_path / "cluster/admin.conf", tmp_path)
        requests: list[Any] = json.loads(wire.request("GET", CSRS).body)["items"]
        assert len(requests) == 1
        assert again.end() == 0


def test_a_request_of_its_own_is_issued_after_the_kill(tmp_path: Path) -> None:
    """Acknowledged, and the server killed before a controller looked: the next one's controllers do."""
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    request = build_request(key, Subject(common_name="system:node:worker-9", organizations=("system:nodes",)))
    tree = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "early"},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    }
    with Up(tmp_path, ("--controllers", "bootstrapsigner")) as up:
        wire = Wire.of_kubeconfig(tmp_path / "cluster/admin.conf", tmp_path)
        assert wire.json("POST", CSRS, tree).code == 201
        path = f"{CSRS}/early/approval"
        approved = [{"type": "Approved", "status": "True", "reason": "ByHand", "message": "", "lastUpdateTime": None}]
        patch = json.dumps({"status": {"conditions": approved}}).encode()
        assert wire.request("PATCH", path, patch, "application/merge-patch+json").code == 200
        up.end(signal.SIGKILL)
    with Up(tmp_path) as up:
        wire = Wire.of_kubeconfig(tmp_path / "cluster/admin.conf", tmp_path)
        with wire.connected() as connection:
            connection.sendall(f"GET {CSRS}?watch=true HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            assert any(b'"certificate":' in line for line in connection.makefile("rb"))
        assert up.end() == 0
