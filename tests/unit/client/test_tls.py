"""client/tls.py: the one builder, and files that change."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from kubevouch.client import tls
from kubevouch.client.interface import ClientConfigurationError
from kubevouch.client.tls import ClientTLS, TLSFiles, TLSSources, client_context
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.logs import capture_logs
from throwaway_ca import Pair, ThrowawayCA


@pytest.fixture(scope="module")
def pair(ca: ThrowawayCA) -> Pair:
    return ca.issue("node")


def test_a_context_verifies_and_speaks_at_least_tls_1_2(ca: ThrowawayCA, pair: Pair) -> None:
    context = client_context(ClientTLS(ca.bundle, pair.certificate, pair.key))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert not context.hostname_checks_common_name
    assert len(context.get_ca_certs()) == 1, "nothing but the bundle is trusted"


def test_without_a_bundle_the_machine_s_roots_count() -> None:
    context = client_context(ClientTLS())
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname


def test_a_bundle_with_remarks_and_a_broken_certificate_still_serves(ca: ThrowawayCA) -> None:
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    bundle = "# Autorität für Ä\n".encode() + broken + ca.bundle + ThrowawayCA("two").bundle
    assert len(client_context(ClientTLS(bundle)).get_ca_certs()) == 2


def test_insecure_is_one_function_and_warns_each_time() -> None:
    with capture_logs() as logs:
        context = client_context(ClientTLS(insecure=True))
    assert context.verify_mode is ssl.CERT_NONE
    assert [entry["event"] for entry in logs] == ["the server's certificate is not verified"]
    source = Path(tls.__file__).parent
    users = [path.name for path in source.rglob("*.py") if "CERT_NONE" in path.read_text()]
    assert users == ["tls.py"]
    assert Path(tls.__file__).read_text().count("CERT_NONE") == 1


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (lambda ca, pair: ClientTLS(b""), "holds no certificate"),
        (lambda ca, pair: ClientTLS(pair.key), "holds no certificate"),
        (lambda ca, pair: ClientTLS(b"x" * (tls.MAX_PEM_BYTES + 1)), "at most"),
        (lambda ca, pair: ClientTLS(ca.bundle, insecure=True), "insecure-skip-tls-verify are both"),
        (lambda ca, pair: ClientTLS(ca.bundle, pair.certificate), "a client certificate is given without its key"),
        (lambda ca, pair: ClientTLS(ca.bundle, b"", pair.key), "a client key is given without its certificate"),
        (lambda ca, pair: ClientTLS(ca.bundle, b"junk", pair.key), "is not PEM"),
        (lambda ca, pair: ClientTLS(ca.bundle, pair.certificate, b"junk"), "cannot be read as PEM"),
        (lambda ca, pair: ClientTLS(ca.bundle, pair.certificate, ca.issue().key), "do not belong together"),
        (lambda ca, pair: ClientTLS(ca.bundle, pair.certificate, encrypted(pair)), "is encrypted"),
    ],
)
def test_what_cannot_be_used(ca: ThrowawayCA, pair: Pair, settings: object, problem: str) -> None:
    assert callable(settings)
    with pytest.raises(ClientConfigurationError, match=problem):
        client_context(settings(ca, pair))


def encrypted(pair: Pair) -> bytes:
    key = serialization.load_pem_private_key(pair.key, None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


def test_keys_do_not_show_in_representations(pair: Pair) -> None:
    assert "PRIVATE" not in repr(ClientTLS(None, pair.certificate, pair.key))
    assert "PRIVATE" not in repr(TLSSources(None, pair.certificate, pair.key))


def test_files_are_compared_by_content_every_ten_seconds(ca: ThrowawayCA, pair: Pair, tmp_path: Path) -> None:
    clock = FakeClock()
    certificate, key = pair.write(tmp_path, "client")
    files = TLSFiles(TLSSources(ca.bundle, certificate, key), clock)
    first = files.current()
    fresh = ca.issue("node")
    fresh.write(tmp_path, "client")
    clock.advance(9.9)
    assert files.current() is first
    clock.advance(0.1)
    assert files.current() == ClientTLS(ca.bundle, fresh.certificate, fresh.key)
    pair.write(tmp_path, "client")
    files.reload()
    assert files.current() == first


def test_a_half_written_pair_waits_for_its_other_half(ca: ThrowawayCA, pair: Pair, tmp_path: Path) -> None:
    clock = FakeClock()
    certificate, key = pair.write(tmp_path, "client")
    files = TLSFiles(TLSSources(ca.bundle, certificate, key), clock)
    first, fresh = files.current(), ca.issue("node")
    for content in (fresh.certificate, b"", b"-----BEGIN"):
        certificate.write_bytes(content)
        with capture_logs() as logs:
            clock.advance(10)
            assert files.current() is first
        assert logs[0]["log_level"] == "warning"
    certificate.unlink()
    clock.advance(10)
    assert files.current() is first
    fresh.write(tmp_path, "client")
    clock.advance(10)
    assert files.current().certificate == fresh.certificate


def test_files_that_are_missing_at_first_are_an_error(ca: ThrowawayCA, tmp_path: Path) -> None:
    with pytest.raises(ClientConfigurationError, match=r"CA bundle .*none.crt cannot be read: No such file"):
        TLSFiles(TLSSources(tmp_path / "none.crt"), FakeClock())
    (tmp_path / "empty.crt").touch()
    with pytest.raises(ClientConfigurationError, match="is empty"):
        TLSFiles(TLSSources(tmp_path / "empty.crt"), FakeClock())


def test_an_empty_block_in_a_bundle_is_passed_over(ca: ThrowawayCA) -> None:
    empty = b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
    assert len(client_context(ClientTLS(empty + ca.bundle)).get_ca_certs()) == 1
    with pytest.raises(ClientConfigurationError, match="holds no certificate"):
        client_context(ClientTLS(empty))
