"""Whatever the holder of a key puts into a certificate or request, no other reader sees something else in it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

import certificate_differences as differences
import differing_certificates
import odd_certificates
from certificate_differences import DifferenceError, signed
from kubevouch.pki.errors import PKIError
from kubevouch.pki.x509 import x509_certificate, x509_request
from property.fuzz_strategies import examples, inputs


def read(compare: object, data: bytes) -> bool:
    """Whether ours reads it, and nobody otherwise."""
    try:
        assert callable(compare)
        compare(data)
    except PKIError:
        return False
    return True


@examples(300)
@given(data=inputs(differing_certificates.REQUESTS, differing_certificates.WORDS))
def test_requests(data: bytes) -> None:
    read(differences.compare_request, signed(data))


@examples(300)
@given(data=inputs(differing_certificates.CERTIFICATES, differing_certificates.WORDS))
def test_certificates(data: bytes) -> None:
    read(differences.compare_certificate, signed(data))


@examples(25)
@given(data=inputs(differing_certificates.REQUESTS, differing_certificates.WORDS))
def test_requests_by_openssl(data: bytes) -> None:
    read(differences.compare_request_with_openssl, signed(data))


@examples(25)
@given(data=inputs(differing_certificates.CERTIFICATES, differing_certificates.WORDS))
def test_certificates_by_openssl(data: bytes) -> None:
    read(differences.compare_certificate_with_openssl, signed(data))


def test_the_oddly_made() -> None:
    counted = 0
    for _, extensions in odd_certificates.odd_extensions():
        counted += read(differences.compare_request, odd_certificates.request(differences.KEY, *extensions))
    for _, name in odd_certificates.odd_names():
        counted += read(differences.compare_request, odd_certificates.request(differences.KEY, name=name))
    assert counted > 500


@pytest.mark.parametrize("number", range(len(differing_certificates.REQUESTS)))
def test_each_beginning_is_read_by_all(number: int) -> None:
    request = signed(differing_certificates.REQUESTS[number])
    assert read(differences.compare_request, request)
    assert read(differences.compare_request_with_openssl, request)


@pytest.mark.parametrize("number", range(len(differing_certificates.CERTIFICATES)))
def test_each_certificate_to_begin_with_is_read_by_all(number: int) -> None:
    certificate = signed(differing_certificates.CERTIFICATES[number])
    assert read(differences.compare_certificate, certificate)
    assert read(differences.compare_certificate_with_openssl, certificate)


# ------------------------------------------------------------------ a reader that is alone is found


@pytest.mark.parametrize("by_openssl", [False, True])
@pytest.mark.parametrize("part", ["subject", "public_key"])
def test_another_reading_of_a_request_is_found(monkeypatch: pytest.MonkeyPatch, part: str, by_openssl: bool) -> None:
    plain, others = x509_request.parse_der, x509_request.parse_der(signed(differing_certificates.REQUESTS[2]))
    if part == "public_key":
        others = msgspec.structs.replace(
            others, public_key=msgspec.structs.replace(others.public_key, canonical_info=b"")
        )

    def alone(contents: bytes) -> x509_request.CertificateRequest:
        return msgspec.structs.replace(plain(contents), **{part: getattr(others, part)})

    monkeypatch.setattr(x509_request, "parse_der", alone)
    compare = differences.compare_request_with_openssl if by_openssl else differences.compare_request
    with pytest.raises(DifferenceError):
        compare(signed(differing_certificates.REQUESTS[0]))


@pytest.mark.parametrize("part", ["serial", "not_before", "not_after", "subject", "meaning"])
def test_another_reading_of_a_certificate_is_found(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    plain = x509_certificate.parse_der
    others = plain(signed(differing_certificates.CERTIFICATES[2]))

    def alone(contents: bytes) -> x509_certificate.Certificate:
        return msgspec.structs.replace(plain(contents), **{part: getattr(others, part)})

    monkeypatch.setattr(x509_certificate, "parse_der", alone)
    with pytest.raises(DifferenceError):
        differences.compare_certificate(signed(differing_certificates.CERTIFICATES[1]))
