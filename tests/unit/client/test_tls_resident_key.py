"""TLS with a key that a real TPM has: who shows what, with both versions of TLS."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubevouch.attestation.tpm import node_keys
from kubevouch.client.interface import ClientConfigurationError
from kubevouch.client.tls import ClientTLS, check_pair, client_context
from kubevouch.pki.tpm import resident_key
from kubevouch.testing.logs import capture_logs
from software_tpm import SoftwareTPM, software_tpm
from throwaway_ca import Pair, ThrowawayCA, server_context


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoftwareTPM]:
    with software_tpm(tmp_path_factory.mktemp("tpm")) as started, pytest.MonkeyPatch.context() as patch:
        patch.setattr(resident_key, "default_signer", lambda *what: node_keys.sign(started.device(), *what))
        yield started


@pytest.fixture(scope="module")
def pair(ca: ThrowawayCA, machine: SoftwareTPM) -> Pair:
    return ca.issue("system:node:node-1", key=node_keys.make(machine.device()))


def _shaken(client: ssl.SSLContext, server: ssl.SSLContext) -> ssl.SSLObject:
    """What the server has at the end of a handshake and a word in each direction."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    accepted = server.wrap_bio(to_server, to_client, server_side=True)
    asking = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    open_sides = [asking, accepted]
    for _ in range(5):
        for side in list(open_sides):
            try:
                side.do_handshake()
                open_sides.remove(side)
            except ssl.SSLWantReadError:
                continue
    assert not open_sides
    asking.write(b"hello")
    assert accepted.read() == b"hello"
    return accepted


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_shows_a_certificate_whose_key_is_in_the_tpm(
    ca: ThrowawayCA, pair: Pair, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    server = server_context(ca.issue(), tmp_path, client_ca=ca.bundle, required=True)
    server.minimum_version = server.maximum_version = version
    accepted = _shaken(client_context(ClientTLS(ca.bundle, pair.certificate, pair.key)), server)
    shown = accepted.getpeercert()
    assert shown is not None
    assert shown["subject"] == ((("commonName", "system:node:node-1"),),)


def test_both_contexts_and_later_ones_of_one_key_work(ca: ThrowawayCA, pair: Pair, tmp_path: Path) -> None:
    server = server_context(ca.issue(), tmp_path, client_ca=ca.bundle, required=True)
    contexts = [client_context(ClientTLS(ca.bundle, pair.certificate, pair.key)) for _ in range(3)]
    del contexts[0]
    for context in contexts:
        _shaken(context, server)
    check_pair(pair.certificate, pair.key)


def test_a_certificate_for_another_key_is_refused(ca: ThrowawayCA, pair: Pair) -> None:
    with pytest.raises(ClientConfigurationError, match="do not belong together"):
        client_context(ClientTLS(ca.bundle, ca.issue().certificate, pair.key))
    # OpenSSL remembers nothing of it.
    client_context(ClientTLS(ca.bundle, pair.certificate, pair.key))


@pytest.mark.parametrize("broken", ["cut", "empty"])
def test_a_file_that_is_no_key_of_a_tpm_is_refused(ca: ThrowawayCA, pair: Pair, broken: str) -> None:
    lines = pair.key.splitlines(keepends=True)
    key = b"".join([lines[0], *([] if broken == "empty" else lines[1:3]), lines[-1]])
    with pytest.raises(ClientConfigurationError, match="the client key in the TPM cannot be used"):
        client_context(ClientTLS(ca.bundle, pair.certificate, key))


def test_a_certificate_that_is_none_is_refused(ca: ThrowawayCA, pair: Pair) -> None:
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    with pytest.raises(ClientConfigurationError, match="the certificate cannot be read"):
        client_context(ClientTLS(ca.bundle, broken, pair.key))


def test_a_tpm_that_does_not_sign_ends_the_handshake_and_says_why(
    ca: ThrowawayCA, tmp_path: Path, machine: SoftwareTPM
) -> None:
    with software_tpm(tmp_path / "other") as other:
        pair = ca.issue(key=node_keys.make(other.device()))
    server = server_context(ca.issue(), tmp_path, client_ca=ca.bundle, required=True)
    with capture_logs() as logs, pytest.raises(ssl.SSLError):
        _shaken(client_context(ClientTLS(ca.bundle, pair.certificate, pair.key)), server)
    assert [each["event"] for each in logs] == ["a TLS handshake could not be signed in the TPM"]
    assert "was cleared since" in logs[0]["error"]
    # … and nothing else.
    good = ca.issue(key=node_keys.make(machine.device()))
    _shaken(client_context(ClientTLS(ca.bundle, good.certificate, good.key)), server)
    plain = ca.issue()
    _shaken(client_context(ClientTLS(ca.bundle, plain.certificate, plain.key)), server)


def test_keys_go_with_their_process_without_a_word(pair: Pair, tmp_path: Path) -> None:
    """OpenSSL frees what it was given when Python ends, in whatever order."""
    pair.write(tmp_path, "node")
    program = (
        "import pathlib, sys\n"
        "from kubevouch.client.tls import ClientTLS, client_context\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "pair = (folder / 'node.crt').read_bytes(), (folder / 'node.key').read_bytes()\n"
        "kept = client_context(ClientTLS(None, *pair))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, timeout=240, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
