"""The TLS context: any client certificate passes the handshake, and its whole chain is there to be verified later."""

from __future__ import annotations

import ssl
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from kubevouch.pki.client_certificate import MAX_PRESENTED
from kubevouch.server.edge import tls
from kubevouch.server.edge.tls import (
    ServingFiles,
    TLSOptions,
    TLSOptionsError,
    TLSUnavailableError,
    peer_chain,
    server_context,
    why_unusable,
)
from throwaway_ca import ThrowawayCA

CA = ThrowawayCA("server-ca")
OTHER_CA = ThrowawayCA("other-ca")


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> ServingFiles:
    return ServingFiles(*CA.issue().write(tmp_path_factory.mktemp("serving"), "apiserver"))


def client_context(folder: Path, *certificates: bytes, key: bytes = b"") -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=CA.bundle.decode())
    context.check_hostname = False
    if certificates:
        pair = folder / "client.pem"
        pair.write_bytes(b"".join(certificates) + key)
        context.load_cert_chain(pair)
    return context


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a connection in memory, after the handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
    )
    for _ in range(4):
        for end in reversed(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends


def der(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem.decode())


def test_without_a_client_certificate_the_chain_is_empty(serving: ServingFiles, tmp_path: Path) -> None:
    server, client = handshake(server_context(serving), client_context(tmp_path))
    assert client.cipher() is not None
    assert peer_chain(server) == ()
    assert peer_chain(None) == ()


@pytest.mark.parametrize("authority", [CA, OTHER_CA], ids=["own", "foreign"])
def test_any_authoritys_certificate_passes_and_is_shown(
    serving: ServingFiles, tmp_path: Path, authority: ThrowawayCA
) -> None:
    pair = authority.issue()
    server, client = handshake(
        server_context(serving), client_context(tmp_path, pair.certificate, authority.bundle, key=pair.key)
    )
    assert client.cipher() is not None
    assert peer_chain(server) == (der(pair.certificate), der(authority.bundle))


def test_no_more_certificates_are_read_than_will_be_verified(serving: ServingFiles, tmp_path: Path) -> None:
    pair = CA.issue()
    others = [ThrowawayCA(f"ca-{number}").bundle for number in range(MAX_PRESENTED + 2)]
    server, _ = handshake(server_context(serving), client_context(tmp_path, pair.certificate, *others, key=pair.key))
    assert peer_chain(server) == (der(pair.certificate), *map(der, others[: MAX_PRESENTED - 1]))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_chain_of_many_bytes_is_not_taken(serving: ServingFiles, tmp_path: Path, version: ssl.TLSVersion) -> None:
    """It is held as long as the connection, and comes before anybody knows from whom."""
    pair = CA.issue()
    most = tls.MAX_CHAIN_BYTES // len(der(pair.certificate))
    for count, fits in ((most - 2, True), (most + 1, False)):
        context = client_context(tmp_path, pair.certificate, *([pair.certificate] * (count - 1)), key=pair.key)
        context.maximum_version = version
        server, client = server_context(serving), context
        if fits:
            assert len(peer_chain(handshake(server, client)[0])) == MAX_PRESENTED
        else:
            with pytest.raises(ssl.SSLError, match=r"(?i)excessive.message.size"):
                handshake(server, client)


def test_the_key_must_be_proven(serving: ServingFiles, tmp_path: Path) -> None:
    """A chain is not verified, but the handshake still shows that the client has its leaf's key."""
    with pytest.raises(ssl.SSLError):
        client_context(tmp_path, CA.issue().certificate, key=CA.issue().key)


def test_tls_1_1_is_refused_and_1_2_is_not(serving: ServingFiles, tmp_path: Path) -> None:
    context = client_context(tmp_path)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    server, _ = handshake(server_context(serving), context)
    assert server.version() == "TLSv1.2"
    assert server_context(serving).minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("offered", [["http/1.1"], ["h2", "http/1.1"]])
def test_http_1_1_is_chosen(serving: ServingFiles, tmp_path: Path, offered: list[str]) -> None:
    context = client_context(tmp_path)
    context.set_alpn_protocols(offered)
    server, _ = handshake(server_context(serving), context)
    assert server.selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("anonymous", [False, True])
def test_no_session_is_resumed_for_it_would_lose_the_chain(
    serving: ServingFiles, tmp_path: Path, version: ssl.TLSVersion, anonymous: bool
) -> None:
    """By its id neither: OpenSSL would hold 20,000 sessions of anybody, with the certificates they came with."""
    pair = CA.issue()
    served, context = server_context(serving), client_context(tmp_path)
    if not anonymous:
        context = client_context(tmp_path, pair.certificate, CA.bundle, key=pair.key)
    context.minimum_version = context.maximum_version = version
    _, first = handshake(served, context)
    assert first.session is None or first.session.id == b""
    assert served.session_stats()["number"] == 0
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    again = context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1", session=first.session)
    end = served.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for each in (again, end):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert not again.session_reused
    assert len(peer_chain(end)) == (0 if anonymous else 2)


def test_a_python_that_cannot_do_it_refuses_to_start(serving: ServingFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.implementation, "name", "pypy")
    with pytest.raises(TLSUnavailableError, match="needs CPython, this is pypy"):
        server_context(serving)


def test_an_unknown_layout_of_the_context_refuses_to_start(serving: ServingFiles) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # CERT_NONE: not what the reading back expects
    with pytest.raises(TLSUnavailableError, match="layout"):
        tls._native(context)


@pytest.mark.parametrize("broken", ["certificate", "key"])
def test_files_that_are_no_pair_are_an_error(serving: ServingFiles, tmp_path: Path, broken: str) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    files = ServingFiles(
        empty if broken == "certificate" else serving.certificate, empty if broken == "key" else serving.key
    )
    with pytest.raises(ssl.SSLError):
        server_context(files)
    with pytest.raises(FileNotFoundError):
        server_context(ServingFiles(tmp_path / "missing", serving.key))


@pytest.mark.parametrize(
    ("options", "version", "cipher"),
    [
        (TLSOptions(), "TLSv1.3", ""),
        (TLSOptions("VersionTLS13"), "TLSv1.3", ""),
        (TLSOptions(cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",)), "TLSv1.2", "ECDHE-ECDSA-AES256-GCM"),
        (TLSOptions(cipher_suites=("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",)), "TLSv1.2", "ECDHE-ECDSA-CHACHA20"),
    ],
)
def test_versions_and_suites(
    options: TLSOptions, version: str, cipher: str, tmp_path: Path, serving: ServingFiles
) -> None:
    client = client_context(tmp_path)
    if cipher:
        client.maximum_version = ssl.TLSVersion.TLSv1_2
    server, _ = handshake(server_context(serving, options), client)
    assert server.version() == version
    assert (server.cipher() or ("",))[0].startswith(cipher)


@pytest.mark.parametrize("options", [TLSOptions("VersionTLS13"), TLSOptions(cipher_suites=("TLS_AES_128_GCM_SHA256",))])
def test_an_old_client_is_kept_out(options: TLSOptions, tmp_path: Path, serving: ServingFiles) -> None:
    client = client_context(tmp_path)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshake(server_context(serving, options), client)


@pytest.mark.parametrize(
    ("version", "suites", "text"),
    [
        ("VersionTLS11", (), "got tls-min-version VersionTLS11, expected VersionTLS12 or VersionTLS13"),
        ("TLS1.2", (), 'unknown tls version "TLS1.2"'),
        ("VersionTLS12", ("ECDHE-RSA-AES128-SHA",), "Cipher suite ECDHE-RSA-AES128-SHA not supported or doesn't exist"),
    ],
)
def test_tls_options_that_cannot_be_meant(version: str, suites: tuple[str, ...], text: str) -> None:
    with pytest.raises(TLSOptionsError) as caught:
        TLSOptions(version, suites)
    assert str(caught.value) == text


def test_of_suites_the_cheapest_that_both_have(tmp_path: Path, serving: ServingFiles) -> None:
    """Whatever the client would rather have; none is out of reach."""
    client = client_context(tmp_path)
    assert client.get_ciphers()[0]["name"] == "TLS_AES_256_GCM_SHA384"
    server, _ = handshake(server_context(serving), client)
    assert (server.cipher() or ("",))[0] == "TLS_AES_128_GCM_SHA256"
    assert {each["name"] for each in server_context(serving).get_ciphers()} >= tls._TLS_1_3


def test_what_is_read_has_room_for_one_record(tmp_path: Path, serving: ServingFiles) -> None:
    """However much uvloop asks for: all of it would be mapped and given back for each request."""
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context(serving).wrap_bio(ours, theirs, server_side=True)
    client = client_context(tmp_path).wrap_bio(theirs, ours, server_hostname="127.0.0.1")
    for end in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    sent = bytes(range(256)) * 256
    client.write(sent)
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        begun = tracemalloc.get_traced_memory()[0]
        pieces = [server.read(256 * 1024)]
        assert tracemalloc.get_traced_memory()[1] - begun < 64 * 1024
    finally:
        tracemalloc.stop()
    while sum(map(len, pieces)) < len(sent):
        pieces.append(server.read(256 * 1024))
    assert b"".join(pieces) == sent
    assert max(map(len, pieces)) == 16 * 1024


def test_what_is_wrong_with_a_pair_is_told_with_the_name_of_the_file(serving: ServingFiles, tmp_path: Path) -> None:
    missing, empty, broken = tmp_path / "nosuch", tmp_path / "empty", tmp_path / "broken"
    empty.write_bytes(b"")
    broken.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    other = ThrowawayCA("other").issue().write(tmp_path, "other")[1]
    for files, expected in (
        (ServingFiles(missing, serving.key), f"{missing} cannot be read: no such file or directory"),
        (ServingFiles(serving.certificate, missing), f"{missing} cannot be read: no such file or directory"),
        (ServingFiles(tmp_path, serving.key), f"{tmp_path} cannot be read: is a directory"),
        (ServingFiles(empty, serving.key), f"got {empty}, expected a PEM file with a certificate"),
        (ServingFiles(serving.certificate, empty), f"got {empty}, expected a PEM file with its key"),
        (
            ServingFiles(serving.certificate, other),
            f"got {other}, expected the key of the certificate in {serving.certificate}",
        ),
        (ServingFiles(broken, serving.key), f"{broken} and {serving.key}: "),
    ):
        with pytest.raises((OSError, ssl.SSLError)) as caught:
            server_context(files)
        told = why_unusable(files, caught.value)
        assert told.startswith(expected) and "_ssl.c" not in told and "Errno" not in told
