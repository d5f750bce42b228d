"""standalone/ca_files.py: what cannot be used is not taken in, and looked at again."""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path

import pytest

from asynctest import async_test
from controller_world import NOW
from kubevouch.phases.certificates.certs import ensure_control_plane, ensure_leaf
from kubevouch.pki import authority, control_plane, keys
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.control_plane import ControlPlaneNames
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.server.edge import sni
from kubevouch.server.edge.tls import ServingFiles
from kubevouch.server.options import ServerOptions
from kubevouch.standalone.ca_files import LOOK_SECONDS, CAFiles
from kubevouch.testing.clock import FakeClock, settle
from throwaway_ca import ThrowawayCA
from tls_shown import shown

NAMES = ControlPlaneNames(node_name="cp", advertise_address="127.0.0.1")


@async_test
async def test_a_client_ca_bundle_is_taken_in_when_it_is_one(tmp_path: Path) -> None:
    pki = ensure_control_plane(tmp_path / "pki", NAMES, now=NOW)
    clock, heard = FakeClock(NOW), list[TrustAnchors]()
    files = CAFiles(pki, clock, heard.append)
    task = asyncio.create_task(files.keep())
    try:
        await clock.until_asleep()
        clock.advance(LOOK_SECONDS)
        await settle()
        assert heard == []
        path = pki.folder / "ca.crt"
        text = path.read_bytes()
        other = authority.create_authority("other", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
        for content, count in ((b"", 0), (b"-----BEGIN", 0), (text + other.certificate.pem(), 2)):
            path.write_bytes(content)
            clock.advance(LOOK_SECONDS)
            await settle()
            assert [len(each.certificates) for each in heard] == ([count] if count else [])
    finally:
        task.cancel()
        await asyncio.wait({task})


def test_a_serving_pair_is_taken_in_when_it_fits(tmp_path: Path) -> None:
    pki = ensure_control_plane(tmp_path / "pki", NAMES, now=NOW)
    files = CAFiles(pki, FakeClock(NOW), lambda _: None)
    context = files.serve_with()
    first = pki.apiserver.certificate.read_bytes()
    key = pki.apiserver.key.read_bytes()
    pki.apiserver.key.write_bytes((pki.folder / "ca.key").read_bytes())
    files.look()
    assert shown(context) == first
    pki.apiserver.certificate.unlink()
    wanted = control_plane.apiserver(NAMES)
    ensure_leaf(pki.folder, wanted, pki.authority, now=NOW)
    files.look()
    assert shown(context) == pki.apiserver.certificate.read_bytes() != first
    assert pki.apiserver.key.read_bytes() != key


def test_a_named_pair_is_shown_to_who_asks_for_it_and_taken_in_again(tmp_path: Path) -> None:
    pki = ensure_control_plane(tmp_path / "pki", NAMES, now=NOW)
    ca = ThrowawayCA()
    own, other = (ServingFiles(*map(Path, ca.issue(name).write(tmp_path, name))) for name in ("own", "other"))
    options = ServerOptions(serving=own, named=(sni.parse(f"{other.certificate},{other.key}:*.example.com"),))
    files = CAFiles(pki, FakeClock(NOW), lambda _: None, options)
    context = files.serve_with()
    assert shown(context) == shown(context, "b.test") == own.certificate.read_bytes()
    first = other.certificate.read_bytes()
    assert shown(context, "a.example.com") == first
    other.certificate.write_bytes(ca.issue("new").certificate)
    files.look()  # half a pair
    assert shown(context, "a.example.com") == first
    ca.issue("new").write(tmp_path, "other")
    files.look()
    assert shown(context, "a.example.com") == other.certificate.read_bytes() != first


def test_a_name_that_is_no_ascii_is_refused_and_nothing_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    pki = ensure_control_plane(tmp_path / "pki", NAMES, now=NOW)
    other = ServingFiles(*map(Path, ThrowawayCA().issue("other").write(tmp_path, "other")))
    named = (sni.parse(f"{other.certificate},{other.key}:*.example.com"),)
    context = CAFiles(pki, FakeClock(NOW), lambda _: None, ServerOptions(named=named)).serve_with()
    hello, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(ssl.MemoryBIO(), sent, server_hostname="odd.example")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello.write(sent.read().replace(b"odd.example", b"od\xff.example"))
    with pytest.raises(ssl.SSLError, match="CALLBACK_FAILED"):
        context.wrap_bio(hello, ssl.MemoryBIO(), server_side=True).do_handshake()
    assert not printed
