from __future__ import annotations

import pytest

from kubevouch.pki import keys
from kubevouch.pki.errors import ParseError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import pem, provider_id, x509_request
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import NONE, SubjectAltNames
from kubevouch.pki.x509.x509_request import CertificateRequest, verify_signature

KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
NODE = Subject(common_name="system:node:worker-1", organizations=("system:nodes",))
MACHINE = "aws:///eu-west-1a/i-0abc0000000000007"


def requested(*extensions: Extension, names: SubjectAltNames = NONE) -> CertificateRequest:
    return verify_signature(x509_request.parse_pem(build_request(KEY, NODE, names, extensions)))


@pytest.mark.parametrize("names", [NONE, SubjectAltNames(dns_names=("worker-1",))])
def test_a_request_says_which_machine_it_is_from(names: SubjectAltNames) -> None:
    request = requested(provider_id.extension(MACHINE), names=names)
    assert provider_id.provider_id_of(request) == MACHINE
    assert request.alt_names == names


def test_a_request_that_says_nothing() -> None:
    assert provider_id.provider_id_of(requested()) == ""


@pytest.mark.parametrize("text", ["", "a" * 1025, "a\nb", "a\x00", "a b", "\ud800"])
def test_what_nothing_is_called_is_not_asked_with(text: str) -> None:
    with pytest.raises(ValueError, match="expected 1 to 1024 printable characters"):
        provider_id.extension(text)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x0c\x00",
        b"\x0c\x01a\x00",
        b"\x0c\x02a",
        b"\x0c\x02\xc3\x28",
        b"\x0c\x03a\nb",
        b"\x13\x01a",
        # Google's instance identity: another form under the same object identifier.
        bytes.fromhex("30320c0a75732d65617374392d7a"),
        b"\x0c\x82\x04\x01" + b"a" * 1025,
    ],
)
def test_anything_else_is_refused(value: bytes) -> None:
    with pytest.raises(ParseError):
        provider_id.provider_id_of(requested(Extension(provider_id.OID, False, value)))


def test_openssl_and_others_read_the_same_extension() -> None:
    from cryptography.x509 import UnrecognizedExtension, load_der_x509_csr

    text = build_request(KEY, NODE, NONE, (provider_id.extension(MACHINE),))
    block = pem.first_block(text)
    assert block is not None
    found = [each.value for each in load_der_x509_csr(block.contents).extensions]
    assert isinstance(found[0], UnrecognizedExtension)
    assert (found[0].oid.dotted_string, found[0].value) == (provider_id.OID, b"\x0c\x25" + MACHINE.encode())
