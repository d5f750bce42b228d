"""A server that runs for years: what it serves with never ends, and nobody is hung up on for it."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from pathlib import Path

from asynctest import async_test
from kubevouch.phases.certificates.certs import renewal_time
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.standalone.ca_files import LOOK_SECONDS
from kubevouch.standalone.leaf_renewal import LOOK_SECONDS as RENEWAL_SECONDS
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.up import running
from kubevouch.testing.clock import FakeClock

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


async def shown(port: int) -> tuple[Certificate, asyncio.StreamReader, asyncio.StreamWriter]:
    """A new connection, and what the server shows on it; its dates are the test's to judge."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    contents = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return x509_certificate.parse_der(contents), reader, writer


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n")
    line = await reader.readline()
    await reader.readuntil(b"\r\n\r\n")
    assert await reader.readexactly(2) == b"ok"
    return line


@async_test
async def test_two_years_on_one_connection(tmp_path: Path) -> None:
    clock = FakeClock(START)
    options = StandaloneOptions(
        data_dir=tmp_path, store="memory:", bind_address="127.0.0.1", secure_port=0, extra_names=("cluster.example",)
    )
    async with running(options, clock) as cluster:
        port = cluster.endpoint.port
        leaf, lasting, kept = await shown(port)
        names, ends = leaf.meaning.alt_names, leaf.not_after
        assert "cluster.example" in names.dns_names
        seen = {leaf.contents}
        while clock.now() < START + dt.timedelta(days=730):
            clock.set(clock.now() + dt.timedelta(days=100))
            is_due = clock.now() > renewal_time(leaf)
            while True:
                await clock.run(max(RENEWAL_SECONDS, LOOK_SECONDS))
                leaf, reader, writer = await shown(port)
                assert leaf.not_after > clock.now()
                assert await ask(reader, writer) == b"HTTP/1.1 200 OK\r\n"
                writer.close()
                if not is_due or leaf.not_after > ends:  # keys are made in a thread
                    break
            ends = leaf.not_after
            seen.add(leaf.contents)
            assert leaf.meaning.alt_names == names
            assert await ask(lasting, kept) == b"HTTP/1.1 200 OK\r\n"
        assert len(seen) == 3
        kept.close()
