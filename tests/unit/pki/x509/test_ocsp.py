"""Requests of ``cryptography``, and answers as it and openssl read them."""

from __future__ import annotations

import datetime as dt
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp as theirs

from kubevouch.pki import authority, keys
from kubevouch.pki.errors import ParseError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import der, ocsp
from kubevouch.pki.x509.ocsp import SingleStatus
from kubevouch.pki.x509.x509_certificate import Certificate

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
CA, OTHER = (
    authority.create_authority("kubernetes", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW - HOUR) for _ in range(2)
)
SPEC = authority.LeafSpec(common_name="alice", purposes=("client auth",))
LEAF = authority.issue_leaf(CA, SPEC, keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)


def loaded(certificate: Certificate) -> x509.Certificate:
    return x509.load_der_x509_certificate(certificate.contents)


def asked(digest: hashes.HashAlgorithm | None = None, nonce: bytes = b"", by: Certificate = CA.certificate) -> bytes:
    builder = theirs.OCSPRequestBuilder().add_certificate(loaded(LEAF), loaded(by), digest or hashes.SHA1())
    if nonce:
        builder = builder.add_extension(x509.OCSPNonce(nonce), critical=False)
    return builder.build().public_bytes(Encoding.DER)


def answered(octets: bytes, *, known: bool = True, revoked: bool = False) -> bytes:
    request = ocsp.parse_request(octets)
    at, reason = (NOW - HOUR, "keyCompromise") if revoked else (None, "unspecified")
    statuses = [SingleStatus(each, at, reason, known) for each in request.certificates]
    name = CA.certificate.subject_name
    return ocsp.response(
        CA.signed(
            lambda _: ocsp.to_be_signed(
                statuses, name, produced=NOW, this_update=NOW, next_update=NOW + HOUR, nonce=request.nonce
            )
        )
    )


@pytest.mark.parametrize("digest", [hashes.SHA1(), hashes.SHA256(), hashes.SHA384(), hashes.SHA512()])
def test_whose_certificate_is_meant(digest: hashes.HashAlgorithm) -> None:
    (found,) = ocsp.parse_request(asked(digest)).certificates
    assert found.serial == LEAF.serial and found.is_of(CA.certificate)
    # The same name with another key is another authority.
    assert not found.is_of(OTHER.certificate)


def test_good_revoked_and_unknown() -> None:
    good, bad, unknown = (
        theirs.load_der_ocsp_response(each)
        for each in (answered(asked()), answered(asked(), revoked=True), answered(asked(), known=False))
    )
    assert good.certificate_status is theirs.OCSPCertStatus.GOOD and good.serial_number == LEAF.serial
    assert (bad.certificate_status, bad.revocation_reason) == (
        theirs.OCSPCertStatus.REVOKED, x509.ReasonFlags.key_compromise
    )  # fmt: skip
    assert bad.revocation_time_utc == NOW - HOUR and bad.next_update_utc == NOW + HOUR
    assert unknown.certificate_status is theirs.OCSPCertStatus.UNKNOWN
    failures = {ocsp.MALFORMED_RESPONSE: 1, ocsp.TRY_LATER_RESPONSE: 3, ocsp.UNAUTHORIZED_RESPONSE: 6}
    assert {each: theirs.load_der_ocsp_response(each).response_status.value for each in failures} == failures


def test_a_year_has_four_digits() -> None:
    """RFC 5280 section 4.1.2.5.2; ``%Y`` leaves zeros in front out."""
    request = ocsp.parse_request(asked())
    status = SingleStatus(request.certificates[0], dt.datetime(1, 2, 3, 4, 5, 6, tzinfo=dt.UTC), "unspecified", True)
    body = ocsp.to_be_signed(
        [status], CA.certificate.subject_name, produced=NOW, this_update=NOW, next_update=NOW + HOUR, nonce=b""
    )
    assert b"\x18\x0f00010203040506Z" in body


@pytest.mark.parametrize("nonce", [b"n", b"n" * 32, b"n" * 128])
def test_a_nonce_comes_back(nonce: bytes) -> None:
    response = theirs.load_der_ocsp_response(answered(asked(nonce=nonce)))
    assert response.extensions.get_extension_for_class(x509.OCSPNonce).value.nonce == nonce


def test_a_nonce_of_another_length_is_refused() -> None:
    with pytest.raises(ParseError, match="129 octets, expected 1 to 128"):
        ocsp.parse_request(asked(nonce=b"n" * 129))


@pytest.mark.parametrize(
    "octets",
    [b"", b"\x30\x00", b"x" * 100, asked()[:-1], asked() + b"\0", b"\x30\x82\xff\xff" + b"\0" * 9000, asked()[:20]],
    ids=range(7),
)
def test_what_is_no_request(octets: bytes) -> None:
    with pytest.raises(ParseError):
        ocsp.parse_request(octets)


def question(
    serial: bytes = b"\1", name: bytes = b"n" * 20, key: bytes = b"k" * 20, parameters: bytes = b"", tail: bytes = b""
) -> bytes:
    algorithm = der.encode(der.SEQUENCE, der.encode_object_identifier("1.3.14.3.2.26"), parameters)
    hashed = (der.encode(der.OCTET_STRING, each) for each in (name, key))
    made = der.encode(der.SEQUENCE, algorithm, *hashed, der.encode(der.INTEGER, serial), tail)
    for _ in range(4):
        made = der.encode(der.SEQUENCE, made)
    return made


@pytest.mark.parametrize("given", [{}, {"parameters": b"\5\0"}, {"serial": b"\1" * 21}])
def test_a_question_as_it_is_asked(given: dict[str, bytes]) -> None:
    assert len(ocsp.parse_request(question(**given)).certificates) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"serial": b"\1" * 22},
        {"name": b"n" * 21},
        {"key": b""},
        {"parameters": b"\5\0\5\0"},
        {"parameters": der.encode(der.OCTET_STRING, b"x" * 7000)},
        {"tail": b"\5\0"},
    ],
)
def test_nothing_in_a_question_is_of_the_askers_own_length(given: dict[str, bytes]) -> None:
    with pytest.raises(ParseError):
        ocsp.parse_request(question(**given))


def test_too_many_certificates() -> None:
    (one,) = ocsp.parse_request(asked()).certificates
    listed = der.encode(der.SEQUENCE, one.contents) * 17
    with pytest.raises(ParseError, match="got 17 certificates"):
        ocsp.parse_request(der.encode(der.SEQUENCE, der.encode(der.SEQUENCE, der.encode(der.SEQUENCE, listed))))


def test_openssl_believes_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(CA.certificate.pem())
    (tmp_path / "leaf.pem").write_bytes(LEAF.pem())

    def openssl(*arguments: str) -> str:
        command = ["openssl", "ocsp", *arguments]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return ended.stdout + ended.stderr

    openssl("-issuer", "ca.pem", "-cert", "leaf.pem", "-no_nonce", "-reqout", "request")
    request = (tmp_path / "request").read_bytes()
    for revoked, said in ((False, "good\n"), (True, "revoked\n")):
        (tmp_path / "response").write_bytes(answered(request, revoked=revoked))
        told = openssl(
            "-issuer",
            "ca.pem",
            "-cert",
            "leaf.pem",
            "-no_nonce",
            "-respin",
            "response",
            "-CAfile",
            "ca.pem",
            "-attime",
            str(int(NOW.timestamp())),
        )
        assert "Response verify OK" in told and said in told
