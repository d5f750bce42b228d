"""What comes before a credential takes no more memory than is documented, and none of it is read without need."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch.server.edge.http_framing import MAX_FIRST_HEAD_BYTES, MAX_HEAD_BYTES
from kubevouch.server.flow_control.head_memory import FREE_BYTES, TOTAL_BYTES, HeadBudget
from processes import Up
from served_world import Served, served
from wire import Wire

MEBIBYTE = 1 << 20
CONNECTIONS = 100
THREADS = 20
# A connection with everything that is read ahead on its way through TLS. Measured: up to 217 KiB. Without the bounds it
# is 2 MiB and more.
CONNECTION_BYTES = 224 * 1024
# What was freed goes back when the allocator gets round to it: up to 277 KiB meanwhile, on a busy machine.
LOOKS = 20
GET = b"GET /version HTTP/1.1\r\nHost: here\r\n"
POST = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
ATTACKS = {
    "head": GET + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 65_000) for n in range(60)),
    "line": b"GET /" + b"a" * (2 * MEBIBYTE),
    "pipelined heads": (GET + b"X: " + b"a" * 30_000 + b"\r\n\r\n") * 60,
    "body": POST + b"Content-Length: 3000000\r\n\r\n" + b" " * 2_999_999,
    "chunks": POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 300_000,
    "extensions": POST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * (2 * MEBIBYTE),
}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("memory"), ("--store", "memory:")) as running:
        yield running
        assert "Traceback" not in running.stderr


@pytest.fixture(scope="module")
def nobody(up: Up) -> Wire:
    wire = Wire.of_kubeconfig(up.folder / "cluster/admin.conf", up.folder, anonymous=True)
    # What the first connections bring with them is no attack's.
    for _ in range(20):
        assert wire.request("GET", "/version").code == 200
    return wire


def resident(up: Up) -> int:
    fields = Path(f"/proc/{up.pid}/statm").read_text().split()
    return int(fields[1]) * 4096


def say(connection: ssl.SSLSocket, said: bytes) -> None:
    """All of it, or as much as the server takes."""
    connection.settimeout(0.2)
    with contextlib.suppress(OSError):
        for at in range(0, len(said), 65_536):
            connection.sendall(said[at : at + 65_536])


@pytest.mark.parametrize("attack", ATTACKS)
def test_without_a_credential_a_connection_takes_little(up: Up, nobody: Wire, attack: str) -> None:
    before = resident(up)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(nobody.connected()) for _ in range(CONNECTIONS)]
        threads = [
            threading.Thread(target=say_each, args=(connections[n::THREADS], ATTACKS[attack])) for n in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert min(looks(up, nobody)) - before < CONNECTIONS * CONNECTION_BYTES


def looks(up: Up, nobody: Wire) -> Iterator[int]:
    """The memory of a server that has had something else to do before each look."""
    for _ in range(LOOKS):
        assert nobody.request("GET", "/version").code == 200
        yield resident(up)


def say_each(connections: list[ssl.SSLSocket], said: bytes) -> None:
    for each in connections:
        say(each, said)


async def connected(at: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", at.server.endpoint.port, ssl=at.context)


@async_test
async def test_of_many_partial_heads_the_oldest_give_way(tmp_path: Path) -> None:
    async with served(tmp_path) as at:
        size = 3 * FREE_BYTES
        budget = at.server.api._https.memory._first = HeadBudget(FREE_BYTES, 5 * (size - FREE_BYTES))
        said = GET + b"X: " + b"a" * (size - len(GET) - 3)
        clients = [await connected(at) for _ in range(8)]
        for count, (_, writer) in enumerate(clients):
            writer.write(said)
            while budget.held != min(count + 1, 5) * (size - FREE_BYTES):  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0)
            if count >= 5:
                assert await clients[count - 5][0].read() == b""
        clients[-1][1].write(b"\r\n\r\n")
        assert (await clients[-1][0].readline()).startswith(b"HTTP/1.1 200 ")
        for _, writer in clients:
            writer.close()
        while budget.held:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
    assert TOTAL_BYTES <= 32 * MEBIBYTE


@async_test
async def test_idle_connections_without_a_credential_give_way_to_others(tmp_path: Path) -> None:
    async with served(tmp_path) as at:
        at.server.api._https.memory._most = 2
        first, second = await connected(at), await connected(at)
        second[1].write(GET + b"Authorization: Bearer " + at.token.encode() + b"\r\n\r\n")
        assert (await second[0].readline()).startswith(b"HTTP/1.1 200 ")
        others = [await connected(at) for _ in range(4)]
        assert await first[0].read() == b""
        assert await others[0][0].read() == b""
        for _, writer in (others[-1], second):  # somebody's connection stays
            writer.write(GET + b"\r\n")
        assert (await others[-1][0].readline()).startswith(b"HTTP/1.1 200 ")
        await second[0].readuntil(b"\r\n\r\n")
        assert not second[0].at_eof()
        for _, writer in (first, second, *others):
            writer.close()


@async_test
async def test_a_head_may_be_longer_once_somebody_is_known(tmp_path: Path) -> None:
    async with served(tmp_path) as at:
        token = b"Authorization: Bearer " + at.token.encode() + b"\r\n"
        long = b"".join(b"X-%d: %s\r\n" % (n, b"a" * 60_000) for n in range(15))
        assert MAX_FIRST_HEAD_BYTES < len(long) < MAX_HEAD_BYTES
        for known, code in ((token, b"200"), (b"", b"431")):
            reader, writer = await connected(at)
            writer.write(GET + known + b"\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(GET + token + long + b"\r\n")
            assert (await reader.readline()).startswith((b"HTTP/1.1 " + code, b"HTTP/1.0 " + code))
            writer.close()


@pytest.mark.parametrize("credential", ["", "Authorization: Bearer abcdef.0123456789abcdef\r\n"])
def test_who_may_not_is_told_so_before_a_body_is_read(up: Up, nobody: Wire, credential: str) -> None:
    with nobody.connected() as connection:
        connection.sendall(POST + credential.encode() + b"Content-Length: 3000000\r\n\r\n{")
        answer = connection.recv(65_536)
    assert answer.startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 403 "))
    assert up.stderr.count("Traceback") == 0
