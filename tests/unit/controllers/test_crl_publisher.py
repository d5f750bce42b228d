"""Lists and answers as anybody gets them, with numbers that only rise."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

import identity_world as world
from kubevouch.controllers import crl_publisher
from kubevouch.controllers.crl_publisher import changes, file_of
from kubevouch.pki.x509 import pem, x509_certificate
from kubevouch.pki.x509.crl_builder import RevokedSerial
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.revocation.revocations import authority_id
from kubevouch.server.bootstrap import own_kinds
from kubevouch.testing.cluster import Cluster
from unit.controllers.test_certificate_revocations import revoke
from unit.pki.x509.test_ocsp import NOW
from wire import Reply, Wire

CONTROLLERS = ("csrapproving", "csrsigning", "certificaterevocations", "crlpublisher")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=CONTROLLERS) as running:
        running.run(own_kinds.ensure(running.server.client))
        running.settle()
        yield running


def issuer(cluster: Cluster) -> str:
    return authority_id(x509_certificate.parse_pem(cluster.pki.ca_certificate)).hex()


def anybody(cluster: Cluster) -> Wire:
    return Wire(int(cluster.url.rpartition(":")[2]), cluster.pki.ca_certificate)


def read(cluster: Cluster, name: str) -> Reply:
    return anybody(cluster).request("GET", f"/pki/crl/{issuer(cluster)}/{name}")


def crl(cluster: Cluster, name: str = "full.crl") -> x509.CertificateRevocationList:
    reply = read(cluster, name)
    assert (reply.code, reply.headers["Content-Type"]) == (200, "application/pkix-crl")
    return x509.load_der_x509_crl(reply.body)


def number(of: x509.CertificateRevocationList) -> int:
    return of.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number


def joined(cluster: Cluster, name: str) -> Certificate:
    posted = world.ask(cluster, world.token_user(), world.node_request(name))
    assert world.outcome(cluster, posted) == "Approved,Issued"
    return x509_certificate.parse_pem(cluster.get("CertificateSigningRequest", posted).status.certificate)


def test_whatever_is_revoked_is_in_the_lists_at_once(cluster: Cluster) -> None:
    one, other = joined(cluster, "worker-1"), joined(cluster, "worker-2")
    before = number(crl(cluster))
    revoke(cluster, nodes=["worker-1"])
    full, delta = crl(cluster), crl(cluster, "delta.crl")
    for each in (full, delta):
        assert each.get_revoked_certificate_by_serial_number(one.serial) is not None
        assert each.get_revoked_certificate_by_serial_number(other.serial) is None
        assert number(each) > before
    base = delta.extensions.get_extension_for_class(x509.DeltaCRLIndicator).value.crl_number
    assert base <= before
    part = crl(cluster, file_of(world.NODE_CLIENT) + ".crl")
    assert part.get_revoked_certificate_by_serial_number(one.serial) is not None
    assert crl(cluster, file_of(world.CLIENT) + ".crl").get_revoked_certificate_by_serial_number(one.serial) is None
    point = part.extensions.get_extension_for_class(x509.IssuingDistributionPoint).value
    assert point.full_name is not None and point.full_name[0].value.endswith("kube-apiserver-client-kubelet.crl")


def test_numbers_rise_over_restarts_and_when_the_clock_was_set_back(cluster: Cluster) -> None:
    seen = [number(crl(cluster))]
    cluster.restart()
    cluster.settle()
    seen.append(number(crl(cluster)))
    cluster.clock.set(cluster.clock.now().replace(year=2020))
    cluster.restart()
    cluster.settle()
    seen.append(number(crl(cluster)))
    assert sorted(set(seen)) == seen


def test_openssl_verifies_with_the_published_certificate(cluster: Cluster, tmp_path: Path) -> None:
    leaf = joined(cluster, "worker-1")
    (tmp_path / "leaf.pem").write_bytes(leaf.pem())
    (tmp_path / "ca.pem").write_bytes(pem.encode(pem.CERTIFICATE, read(cluster, "ca.crt").body))

    def verified() -> str:
        (tmp_path / "crl.pem").write_bytes(pem.encode("X509 CRL", read(cluster, "full.crl").body))
        at = str(int(cluster.clock.now().timestamp()) + 1)
        command = ["openssl", "verify", "-CAfile", "ca.pem", "-CRLfile", "crl.pem", "-crl_check", "-attime", at]
        ended = subprocess.run([*command, "leaf.pem"], cwd=tmp_path, capture_output=True, text=True, check=False)
        return ended.stdout + ended.stderr

    assert "leaf.pem: OK" in verified()
    revoke(cluster, serials=[{"issuer": issuer(cluster), "numbers": [f"{leaf.serial:x}"]}])
    assert "certificate revoked" in verified()


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/pki/crl/00/full.crl", 404),
        ("GET", "/pki/crl/../ca.key", 404),
        ("GET", "/pki/ocsp/zz", 404),
        ("GET", f"/pki/ocsp/{'a' * 4000}", 404),
        ("GET", "/pki", 403),
        ("PUT", "/pki/crl/00/full.crl", 403),
    ],
)
def test_what_there_is_not(cluster: Cluster, method: str, path: str, code: int) -> None:
    assert anybody(cluster).request(method, path).code == code


def test_what_is_no_request_is_answered_as_ocsp_does(cluster: Cluster) -> None:
    wire, path = anybody(cluster), f"/pki/ocsp/{issuer(cluster)}"
    malformed = b"\x30\x03\x0a\x01\x01"
    assert wire.request("POST", path, b"junk").body == malformed
    assert wire.request("GET", f"{path}/%%%").body == malformed
    assert wire.request("POST", path, b"x" * 9000).code in (200, 413)


def test_what_a_delta_says() -> None:
    kept, new, held = (RevokedSerial(each, NOW, "certificateHold") for each in (1, 2, 3))
    graver = RevokedSerial(1, NOW, "keyCompromise")
    found = changes({1: kept, 3: held}, {1: graver, 2: new}, NOW)
    assert found == (graver, new, RevokedSerial(3, NOW, "removeFromCRL"))
    assert changes({1: kept}, {1: kept}, NOW) == ()
    assert crl_publisher.file_of("example.com/s") == "example.com:s"
