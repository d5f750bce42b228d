"""S12: an empty sequence where members are expected (CVE-2026-40097, an index out of range) is refused in words.

Every extension and name in every odd form, signed by the cluster's own CA so that nothing is refused for its signature.
Without attestation these come as client certificates, requests, issued certificates, and CA bundles. The certificates
that cryptography tests itself with are in tests/integration/test_cryptography_vectors.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec
import pytest

import odd_certificates
from asynctest import async_test
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.authentication.interface import Credentials
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import certificate_chain, issuance, keys, recognizers
from kubevouch.pki.client_certificate import TrustAnchors, verify_presented
from kubevouch.pki.errors import PKIError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import pem, x509_certificate, x509_request
from kubevouch.server.query import Query
from kubevouch.server.request import Request
from kubevouch.testing import Cluster
from kubevouch.util.turns import give_way

KEY = keys.generate(KeyAlgorithm.ECDSA_P256)


def odd_pairs(cluster: Cluster) -> Iterator[tuple[str, bytes]]:
    """Certificates in DER that the cluster's CA has signed."""
    authority, now = cluster.pki.authority, cluster.clock.now()
    for what, extensions in odd_certificates.odd_extensions():
        yield what, odd_certificates.certificate(authority, KEY, *extensions, now=now)
    for what, name in odd_certificates.odd_names():
        yield what, odd_certificates.certificate(authority, KEY, now=now, name=name)
    for serial in (b"\x02\x00", b"\x02\x01\x00", b"\x02\x01\xff", b"\x02\x02\x00\x01", b"\x05\x00", b""):
        yield f"serial {serial.hex()}", odd_certificates.certificate(authority, KEY, now=now, serial=serial)


@async_test
async def test_odd_client_certificates_are_answered_401_or_taken() -> None:
    async with Cluster() as cluster:
        server, now = cluster.server, cluster.clock.now()
        anchors = TrustAnchors([cluster.pki.authority.certificate])
        read = 0
        for number, (what, contents) in enumerate(odd_pairs(cluster)):
            with contextlib.suppress(PKIError):
                verify_presented([contents], anchors, now=now)
                read += 1
            with contextlib.suppress(PKIError):
                verify_presented([contents] * 10, TrustAnchors([]), now=now)
            # Each from a source of its own: bad credentials of one are limited.
            credentials = Credentials(peer_chain=(contents,), source=f"10.0.{number >> 8}.{number & 255}")
            request = Request("GET", "/api/v1/secrets", Query(), {}, now, credentials)
            with pytest.raises(APIStatusError) as refused:
                await server.api.handler(request)
            assert refused.value.code in (401, 403), what
            await give_way()  # a refusal waits for nothing, so that all of them would be one step
        assert read > 50


def test_odd_certificates_in_bundles_and_chains() -> None:
    with Cluster() as cluster:
        for what, contents in odd_pairs(cluster):
            text = pem.encode(pem.CERTIFICATE, contents)
            for reader in (
                TrustAnchors.from_pem, x509_certificate.parse_bundle, certificate_chain.verify_certificate_chain,
            ):  # fmt: skip
                try:
                    reader(text)
                except PKIError:
                    pass
                except Exception as err:
                    raise AssertionError(what) from err


def odd_requests() -> Iterator[tuple[str, bytes]]:
    for what, extensions in odd_certificates.odd_extensions():
        yield what, odd_certificates.request(KEY, *extensions)
    for what, name in odd_certificates.odd_names():
        yield what, odd_certificates.request(KEY, name=name)
    for what, value in odd_certificates.ODD.items():
        yield f"{what} for attributes", odd_certificates.request(KEY, attributes=value)


def test_odd_requests_are_read_recognized_and_issued_or_refused() -> None:
    issued = 0
    with Cluster() as cluster:
        authority, now = cluster.pki.authority, cluster.clock.now()
        for what, contents in odd_requests():
            try:
                request = x509_request.verify_signature(x509_request.parse_der(contents))
                usages = ["digital signature", "client auth"]
                for signer in (wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER, wellknown.KUBELET_SERVING_SIGNER):
                    recognizers.recognize(signer, request, usages, username="system:node:worker-1")
                made = issuance.issue(
                    authority, request, signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER, usages=usages,
                    expiration_seconds=None, now=now,
                )  # fmt: skip
                assert made.public_key.info == request.public_key.info
                issued += 1
            except PKIError:
                pass
            except AssertionError:
                raise
            except Exception as err:
                raise AssertionError(what) from err
    assert issued > 50


def test_odd_requests_through_the_api_and_its_controllers() -> None:
    """One in five: the parsers have seen all of them."""
    codes: dict[int, int] = {}
    with Cluster(controllers=("csrsigning",)) as cluster:
        for number, (what, contents) in enumerate(odd_requests()):
            if number % 5:
                continue
            csr = CertificateSigningRequest(
                metadata=ObjectMeta(name=f"odd-{number}"),
                spec=CertificateSigningRequestSpec(
                    request=pem.encode(pem.CERTIFICATE_REQUEST, contents),
                    signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
                    usages=["digital signature", "client auth"],
                ),
            )
            code = _created(cluster, csr)
            assert code in (201, 403, 422), what
            codes[code] = codes.get(code, 0) + 1
        cluster.settle()
    assert codes[201] > 100 and codes[422] > 5


def _created(cluster: Cluster, csr: CertificateSigningRequest) -> int:
    try:
        made = cluster.run(cluster.client().create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr))
    except APIStatusError as err:
        return err.code
    approved = CertificateSigningRequestCondition(type="Approved", status="True", reason="Test")
    status = CertificateSigningRequestStatus(conditions=[approved])
    cluster.update(msgspec.structs.replace(made, status=status), subresource="approval")
    return 201
