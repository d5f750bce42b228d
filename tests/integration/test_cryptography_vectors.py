"""The odd certificates, requests and keys that cryptography tests itself with, through everything that reads such.

Each is read or refused in words; none is an error of the server, an unexpected exception or a warning.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import cryptography_vectors
import pytest

from asynctest import async_test
from fuzz_targets import TARGETS
from kubevouch.agent import discovery
from kubevouch.agent.interface import NotTrustedError
from kubevouch.authentication.interface import Credentials
from kubevouch.client.interface import ClientConfigurationError
from kubevouch.client.tls import ClientTLS, check_pair, client_context
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki import pins
from kubevouch.pki.client_certificate import TrustAnchors, verify_presented
from kubevouch.pki.errors import ParseError, PKIError
from kubevouch.pki.x509 import pem, x509_certificate, x509_request
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records.cluster_info import ClusterInfo, build_kubeconfig
from kubevouch.server.query import Query
from kubevouch.server.request import Request
from kubevouch.testing import Cluster
from served_world import served
from wire import CSRS, Wire

FOLDER = Path(cryptography_vectors.__file__).parent
SUFFIXES = {".pem", ".der", ".crt", ".cer", ".pub", ".key", ".p7b", ".csr", ".txt"}
FILES = sorted(
    path for part in ("x509", "asymmetric", "pkcs7") for path in (FOLDER / part).rglob("*") if path.suffix in SUFFIXES
)


def contents() -> Iterator[tuple[str, bytes]]:
    """The files, and what is in their PEM blocks."""
    for path in FILES:
        text = path.read_bytes()
        yield str(path.relative_to(FOLDER)), text
        for number, block in enumerate(pem.blocks(text)):
            yield f"{path.relative_to(FOLDER)} block {number}", block.contents


VECTORS = dict(contents())


def certificates() -> list[Certificate]:
    found = []
    for data in VECTORS.values():
        try:
            found.append(x509_certificate.parse_der(data))
        except ParseError:
            continue
    return found


def test_the_vectors_are_there() -> None:
    kinds = Counter(path.suffix for path in FILES)
    assert len(FILES) > 900
    assert kinds[".crt"] > 300
    assert len(certificates()) > 300


@pytest.mark.filterwarnings("ignore:Diffie-Hellman")
@pytest.mark.parametrize(
    "name",
    ["certificate", "pem-bundle", "certificate-chain", "csr", "pem-csr", "private-key", "kubeconfig", "cluster-info"],
)
def test_every_vector_through_a_parser(name: str) -> None:
    for vector, data in VECTORS.items():
        try:
            TARGETS[name].run(data)
        except Exception as err:
            raise AssertionError(vector) from err


def test_every_certificate_as_its_own_anchor() -> None:
    """So that the checks behind the search for an anchor are reached too."""
    accepted = 0
    for certificate in certificates():
        for now in (certificate.not_before, certificate.not_after):
            try:
                verify_presented([certificate.contents], TrustAnchors([certificate]), now=now)
                accepted += 1
            except PKIError:
                pass
    assert accepted > 20


def test_every_vector_as_a_bundle_of_a_client_and_of_discovery() -> None:
    trusted = 0
    for vector, data in VECTORS.items():
        text = data if b"-----BEGIN" in data else pem.encode(pem.CERTIFICATE, data)
        try:
            client_context(ClientTLS(ca_bundle=text))
            trusted += 1
        except ClientConfigurationError:
            pass
        except Exception as err:
            raise AssertionError(vector) from err
        try:
            found = discovery.verify_authority(build_kubeconfig(ClusterInfo("https://here", text)), pins.parse([]))
            pins.verify(pins.parse([pins.pin_of(found[1][0])]), found[1])
        except NotTrustedError:
            pass
        with pytest.raises(ClientConfigurationError):
            check_pair(text, b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    assert trusted > 300


@async_test
async def test_every_certificate_as_that_of_a_client(tmp_path: Path) -> None:
    async with served(tmp_path) as at:
        for number, (vector, data) in enumerate(VECTORS.items()):
            # Each from a source of its own: bad credentials of one are limited.
            credentials = Credentials(peer_chain=(data, data), source=f"10.0.{number >> 8}.{number & 255}")
            request = Request("GET", "/api/v1/nodes", Query(), {}, at.server.clock.now(), credentials)
            with pytest.raises(APIStatusError) as refused:
                await at.server.api.handler(request)
            assert refused.value.code == 401, vector
            await asyncio.sleep(0)  # a connection's requests come one after the other, and others have turns between


def test_every_vector_as_a_request(tmp_path: Path) -> None:
    """Over HTTPS; what is no PEM goes in as the contents of a block."""
    codes: Counter[int] = Counter()
    requests = 0
    with Cluster(https=True, controllers=("*",)) as cluster:
        wire = Wire.of_kubeconfig(Path(cluster.kubeconfig), tmp_path)
        for number, (vector, data) in enumerate(VECTORS.items()):
            text = data if b"-----BEGIN" in data else pem.encode(pem.CERTIFICATE_REQUEST, data)
            try:
                x509_request.parse_pem(text)
                requests += 1
            except ParseError:
                # One in ten of those that are plainly none will do.
                if number % 10:
                    continue
            tree = {
                "apiVersion": "certificates.k8s.io/v1",
                "kind": "CertificateSigningRequest",
                "metadata": {"name": f"vector-{number}"},
                "spec": {
                    "request": base64.b64encode(text).decode(),
                    "signerName": ("kubernetes.io/kube-apiserver-client", "example.com/any")[number % 2],
                    "usages": ["client auth"],
                },
            }
            reply = wire.json("POST", CSRS, tree)
            codes[reply.code] += 1
            assert reply.code in (201, 403, 422), (vector, reply)
            if reply.code != 201:
                assert reply.status["code"] == reply.code
                continue
            tree = json.loads(reply.body)
            tree["status"]["conditions"] = [{"type": "Approved", "status": "True", "reason": "Test"}]
            reply = wire.json("PUT", f"{CSRS}/vector-{number}/approval", tree)
            assert reply.code == 200, (vector, reply)
        cluster.settle()
        assert wire.request("GET", "/readyz").code == 200
    assert requests > 10
    assert codes[201] > 10
    assert codes[422] > 50
