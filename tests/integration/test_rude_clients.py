"""Clients that read slowly, send slowly, hang up or never begin: they are cut off, and nobody else notices."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import processes
from processes import PATIENCE_SECONDS, Up
from wire import Wire

MAPS = "/api/v1/namespaces/default/configmaps"
HEAD = b" HTTP/1.1\r\nHost: here\r\n"
REQUEST_TIMEOUT = 2.0
MEBIBYTE = 1 << 20
# Where a machine allows fewer descriptors, the flood is as large as they are.
FLOOD = 10_000


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    arguments = ("--store", "memory:", "--request-timeout", f"{REQUEST_TIMEOUT:.0f}s")
    with Up(tmp_path_factory.mktemp("rude"), arguments) as running:
        yield running
        assert "Traceback" not in running.stderr


@pytest.fixture(scope="module")
def admin(up: Up) -> Wire:
    return Wire.of_kubeconfig(up.folder / "cluster/admin.conf", up.folder)


@pytest.fixture(scope="module")
def long_list(admin: Wire) -> int:
    """Enough ConfigMaps that a list of them fills every buffer on its way many times over; how many bytes it has."""
    for number in range(40):
        tree = {"metadata": {"name": f"long-{number}"}, "data": {"a": "x" * (MEBIBYTE // 2)}}
        assert admin.json("POST", MAPS, tree).code == 201
    return len(admin.request("GET", MAPS).body)


@contextlib.contextmanager
def slow(wire: Wire, said: bytes) -> Iterator[ssl.SSLSocket]:
    """A connection with the smallest receive buffer there is."""
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.settimeout(PATIENCE_SECONDS)
        plain.connect(("127.0.0.1", wire.port))
        with wire._context.wrap_socket(plain, server_hostname="127.0.0.1") as secured:
            secured.sendall(said)
            yield secured


def read_to_end(connection: socket.socket) -> int:
    """How many bytes come before the server hangs up."""
    count = 0
    try:
        while received := connection.recv(65536):
            count += len(received)
    except (ConnectionResetError, ssl.SSLError):
        pass
    return count


def dribble(connection: socket.socket, some: bytes) -> None:
    """Sends ``some`` now and then until the server hangs up; returns then."""

    def is_over() -> bool:
        try:
            connection.sendall(some)
        except OSError:
            return True
        return False

    until(is_over)


def until(done: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.1)):
        if done():
            return
        pause.wait(0.1)
    raise AssertionError("it did not come to pass")


def descriptors(up: Up) -> int:
    return len(list(Path(f"/proc/{up.pid}/fd").iterdir()))


def memory(up: Up) -> int:
    """Resident bytes."""
    pages = int(Path(f"/proc/{up.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


# ------------------------------------------------------------------ slow readers


def test_those_who_do_not_read_a_list_are_cut_off(up: Up, admin: Wire, long_list: int) -> None:
    before, held = descriptors(up), memory(up)
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(slow(admin, b"GET " + MAPS.encode() + HEAD + b"\r\n")) for _ in range(10)]
        for _ in range(3):
            assert admin.request("GET", f"{MAPS}/long-1").code == 200
        until(lambda: descriptors(up) <= before)
        # Ten times the list would be 200 MiB.
        assert memory(up) - held < 6 * long_list
        assert all(read_to_end(reader) < long_list for reader in readers)


def test_a_watcher_who_does_not_read_is_cut_off(up: Up, admin: Wire) -> None:
    before, held = descriptors(up), memory(up)
    tree = {"metadata": {"name": "watched"}, "data": {"a": "x" * (MEBIBYTE // 2)}}
    assert admin.json("POST", MAPS, tree).code == 201
    query = b"?watch=1&fieldSelector=metadata.name%3Dwatched"
    with slow(admin, b"GET " + MAPS.encode() + query + HEAD + b"\r\n") as watcher:
        assert watcher.recv(12) == b"HTTP/1.1 200"
        for number in range(60):
            tree["data"]["b"] = str(number)
            assert admin.json("PUT", f"{MAPS}/watched", tree).code == 200
        until(lambda: descriptors(up) <= before)
        assert memory(up) - held < 100 * MEBIBYTE
        assert read_to_end(watcher) < 20 * MEBIBYTE


def test_one_who_asks_and_asks_and_never_reads(up: Up, admin: Wire) -> None:
    """Pipelined requests: the server stops reading, and then hangs up."""
    before, held = descriptors(up), memory(up)
    with slow(admin, b"") as connection:
        # The kernel's buffers (tcp_rmem, tcp_wmem) may take tens of MiB, so it goes on until nothing is taken any more.
        dribble(connection, (b"GET /openapi/v2" + HEAD + b"\r\n") * 100_000)
    until(lambda: descriptors(up) <= before)
    assert memory(up) - held < 100 * MEBIBYTE
    assert admin.request("GET", "/version").code == 200


# ------------------------------------------------------------------ slow senders

POST = b"POST " + MAPS.encode() + HEAD + b"Content-Type: application/json\r\n"


def test_a_body_that_comes_slowly(admin: Wire) -> None:
    with admin.connected() as connection:
        connection.sendall(POST + b"Content-Length: 100000\r\n\r\n{")
        timer = threading.Timer(0.1, connection.sendall, [b'"a":'])
        timer.start()
        answer = connection.recv(65536)
        timer.join()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert f"did not come within {REQUEST_TIMEOUT:g} s".encode() in answer


def test_a_body_that_is_dropped_in_the_middle(up: Up, admin: Wire) -> None:
    before = descriptors(up)
    for _ in range(20):
        with admin.connected() as connection:
            connection.sendall(POST + b"Content-Length: 100000\r\n\r\n" + b"{" * 50_000)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    until(lambda: descriptors(up) <= before)
    assert admin.request("GET", "/version").code == 200


def test_a_head_that_comes_byte_by_byte(admin: Wire) -> None:
    with admin.connected() as connection:
        connection.sendall(b"GET /version HTTP/1.1\r\nHost: ")
        dribble(connection, b"a")
    assert admin.request("GET", "/version").code == 200


def test_a_handshake_that_comes_byte_by_byte(admin: Wire) -> None:
    with socket.create_connection(("127.0.0.1", admin.port)) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00")
        dribble(connection, b"\x01")
    assert admin.request("GET", "/version").code == 200


# ------------------------------------------------------------------ many


@contextlib.contextmanager
def descriptors_for(wanted: int) -> Iterator[int]:
    """How many connections this process may open, at most ``wanted``."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield wanted if hard == resource.RLIM_INFINITY else min(wanted, hard - 500)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def flood(port: int, count: int, says: tuple[bytes, ...]) -> Iterator[list[socket.socket]]:
    """Connections from two hundred addresses, each with one of these openings."""
    with contextlib.ExitStack() as stack:
        opened = []
        for number in range(count):
            each = stack.enter_context(socket.socket())
            each.settimeout(PATIENCE_SECONDS)
            each.bind((f"127.0.1.{number % 200 + 1}", 0))
            each.connect(("127.0.0.1", port))
            with contextlib.suppress(ConnectionError):
                each.sendall(says[number % len(says)])
            opened.append(each)
        yield opened


def test_ten_thousand_connections_that_never_begin(tmp_path: Path) -> None:
    """A machine joins beside them. Among them are silent ones, half a handshake, and plain HTTP."""
    with Up(tmp_path) as up, descriptors_for(FLOOD) as count:
        before = descriptors(up)
        with flood(int(up.port), count, (b"", b"\x16\x03\x01\x02\x00\x01", b"", b"GE")) as connections:
            held = descriptors(up)
            joined = up.join()
            assert joined.code == 0, joined.stderr
            # On a slow machine the first have been hung up on when the last is there.
            assert held - before > count / 2
            assert len(connections) == count
        admin = Wire.of_kubeconfig(tmp_path / "cluster/admin.conf", tmp_path)
        assert json.loads(admin.request("GET", "/api/v1/nodes").body)["kind"] == "NodeList"
        until(lambda: descriptors(up) < before + 50)
        assert up.stderr == ""


def test_more_connections_than_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever says nothing makes room; the server never runs out."""
    few = ("sh", "-c", 'ulimit -n 1024; exec "$0" "$@"', *processes.KUBEVOUCH)
    monkeypatch.setattr(processes, "KUBEVOUCH", few)
    with Up(tmp_path) as up:
        monkeypatch.undo()
        with flood(int(up.port), 2000, (b"", b"\x16\x03\x01\x02\x00\x01")):
            admin = Wire.of_kubeconfig(tmp_path / "cluster/admin.conf", tmp_path)
            for _ in range(5):
                assert admin.request("GET", "/version").code == 200
            joined = up.join()
            assert joined.code == 0, joined.stderr
            assert descriptors(up) <= 1024
        assert up.stderr == ""
