from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from asynctest import async_test, on_both_loops
from control_plane_world import NOW, control_plane_files
from kubevouch.client.endpoint import Endpoint
from kubevouch.phases.certificates import certs_renewal
from kubevouch.phases.certificates.control_plane_files import Layout, credential
from kubevouch.phases.certificates.served_certificates import listening_process, look, ports
from kubevouch.util.clock import SystemClock
from throwaway_ca import ThrowawayCA

CLOCK = SystemClock()


@asynccontextmanager
async def _serving(layout: Layout) -> AsyncIterator[Endpoint]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(layout.pki / "apiserver.crt", layout.pki / "apiserver.key")

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield Endpoint("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await server.wait_closed()


@on_both_loops
async def test_a_process_that_goes_on_with_the_old_certificate_is_named(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    async with _serving(layout) as endpoint:
        before = await look("apiserver", endpoint, layout, CLOCK)
        assert before.is_current is True
        certs_renewal.renew(credential("apiserver"), layout, now=NOW)
        after = await look("apiserver", endpoint, layout, CLOCK)
        assert after.is_current is False
        assert after.process.endswith(f"(process {os.getpid()})")


@async_test
async def test_a_process_of_another_cluster_is_not_taken_for_ours(tmp_path: Path) -> None:
    ours, theirs = control_plane_files(tmp_path / "ours"), Layout(tmp_path, tmp_path)
    pair = ThrowawayCA().issue("kube-apiserver")
    (tmp_path / "apiserver.crt").write_bytes(pair.certificate)
    (tmp_path / "apiserver.key").write_bytes(pair.key)
    async with _serving(theirs) as endpoint:
        served = await look("apiserver", endpoint, ours, CLOCK)
    assert served.is_current is None and "another cluster" in served.problem


@async_test
async def test_what_cannot_be_seen_says_why(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    async with _serving(layout) as endpoint:
        pass
    served = await look("apiserver", endpoint, layout, CLOCK)
    assert (served.is_current, served.problem) == (None, "nothing listens there")
    plain = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = plain.sockets[0].getsockname()[1]
    served = await look("apiserver", Endpoint("127.0.0.1", port), layout, CLOCK)
    assert served.is_current is None and served.problem
    plain.close()
    await plain.wait_closed()


def test_the_ports_are_those_of_the_kubeconfigs(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    assert ports(layout) == {
        "apiserver": Endpoint("127.0.0.1", 6443),
        "etcd-server": Endpoint("127.0.0.1", 2379),
        "etcd-peer": Endpoint("127.0.0.1", 2380),
    }
    assert ports(Layout(tmp_path / "none", tmp_path / "none")).keys() == {"etcd-server"}


def test_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    assert listening_process(1, tmp_path) == ""
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n"
        "   1: 0100007F:192B 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n"
    )
    folder = tmp_path / "17"
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text("kube-apiserver\n")
    (folder / "fd/3").symlink_to("socket:[4712]")
    assert listening_process(6443, tmp_path) == ""
    (folder / "fd/4").symlink_to("socket:[4711]")
    assert listening_process(6443, tmp_path) == "kube-apiserver (process 17)"
    assert listening_process(6444, tmp_path) == ""
