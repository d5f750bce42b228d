from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

import evidence_cases
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import DeviceChainError, StructureError
from kubevouch.pki.tpm import ek_certificate
from kubevouch.pki.x509 import der, x509_certificate
from pretended_tpm import NOW, TPM_NAMES, Maker, curve_key, der_of

_MAKER = Maker()
_KEY = curve_key("EK").public_key()
_GOOD = _MAKER.certificate(_KEY)
_BETWEEN = x509_certificate.parse_der(der_of(_MAKER.issuing))
_DAY = dt.timedelta(days=1)


def _verified(contents: bytes, maker: Maker = _MAKER) -> ek_certificate.Endorsed:
    return ek_certificate.verify(ek_certificate.parse(contents), [_BETWEEN], maker.anchors, NOW)[1]


def test_a_good_certificate_tells_the_maker() -> None:
    assert _verified(_GOOD) == ek_certificate.Endorsed("id:4D414445", "pretended", "id:00010002")


@pytest.mark.parametrize(
    ("fields", "step"),
    [
        ({"ends": NOW - _DAY}, "validity"),
        ({"begins": NOW + _DAY}, "validity"),
        ({"by": "somebody else"}, "chain"),
        ({"strange_critical": True}, "critical-extension"),
        ({"ca": True}, "ca"),
        ({"key_use": "key_encipherment"}, "key-usage"),
        ({"key_use": "digital_signature"}, "key-usage"),
        ({"usage": x509.ObjectIdentifier("2.23.133.8.2")}, "eku"),
        ({"usage": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.2")}, "eku"),
        ({"names": ()}, "san"),
        ({"names": (TPM_NAMES, TPM_NAMES)}, "san"),
        ({"names": ((),)}, "san"),
        ({"names": (TPM_NAMES[1:],)}, "san"),
        ({"names": (TPM_NAMES[:2],)}, "san"),
        ({"names": ((*TPM_NAMES, TPM_NAMES[0]),)}, "san"),
        ({"names": ((("2.23.133.2.1", "id:4D41444"), *TPM_NAMES[1:]),)}, "san"),
        ({"names": ((("2.23.133.2.1", "id:4D41444G"), *TPM_NAMES[1:]),)}, "san"),
        ({"names": ((("2.23.133.2.1", "MADE"), *TPM_NAMES[1:]),)}, "san"),
        ({"other_names": (x509.DNSName("node-1"),)}, "san"),
        ({"critical": False}, "san"),
        ({"alt_names_value": der.encode(der.SEQUENCE, der.encode(0xA4, b"\x30\x00\x00"))}, "san"),
        ({"alt_names_value": der.encode(der.SEQUENCE, der.encode(0xA4, b"\x31\x00"))}, "san"),
        ({"alt_names_value": der.encode(der.SEQUENCE, der.encode(0xA4, b""))}, "san"),
        ({"alt_names_value": der.encode(der.SEQUENCE, der.encode(0xA4, b"\x30\x02\x31\x05"))}, "san"),
        ({"alt_names_value": der.encode(der.SEQUENCE) + b"\0"}, "san"),
    ],
)
def test_certificates_that_are_refused(fields: dict[str, Any], step: str) -> None:
    with pytest.raises(DeviceChainError) as caught:
        _verified(_MAKER.certificate(_KEY, **fields))
    assert caught.value.step == step


@pytest.mark.parametrize(
    "fields",
    [
        {"usage": None},
        {"critical": False, "subject": "vm-1"},
        {"names": ((*TPM_NAMES, ("2.5.4.3", "vm-1")),)},
        {"other_names": (x509.OtherName(x509.ObjectIdentifier("1.2.3"), b"\x05\x00"),)},
        {"ends": dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)},
    ],
)
def test_certificates_that_makers_do_write(fields: dict[str, Any]) -> None:
    _verified(_MAKER.certificate(_KEY, **fields))


def test_a_root_of_the_same_name_and_another_key_is_another_root() -> None:
    other = Maker("other")
    namesake = x509.CertificateBuilder()
    namesake = namesake.subject_name(_MAKER.root.subject).issuer_name(_MAKER.root.subject)
    namesake = namesake.public_key(curve_key("other root").public_key()).serial_number(1)
    namesake = namesake.not_valid_before(NOW - _DAY).not_valid_after(NOW + _DAY)
    namesake = namesake.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    root = x509_certificate.parse_der(der_of(namesake.sign(curve_key("other root"), hashes.SHA256())))
    leaf = ek_certificate.parse(_GOOD)
    for anchors in ([root], [x509_certificate.parse_der(der_of(other.root))], []):
        with pytest.raises(DeviceChainError) as caught:
            ek_certificate.verify(leaf, [_BETWEEN], TrustAnchors(anchors), NOW)
        assert caught.value.step == "chain"
    both = TrustAnchors([root, *_MAKER.anchors.certificates])
    ek_certificate.verify(leaf, [_BETWEEN], both, NOW)


_WRAPPED = b"\x10\x01\x00" + len(_GOOD).to_bytes(2, "big") + _GOOD


@pytest.mark.parametrize(
    "octets",
    [_GOOD, _GOOD + bytes(500), _GOOD + b"\xff" * 500, _WRAPPED, _WRAPPED + b"\xff" * 99],
    ids=["bare", "zeros", "ones", "wrapped", "wrapped and ones"],
)
def test_what_stands_in_an_index(octets: bytes) -> None:
    assert ek_certificate.from_nv(octets) == _GOOD


@pytest.mark.parametrize(
    "octets",
    [
        b"", b"\0" * 900, b"\xff" * 900, _GOOD[:-1], _GOOD + b"\0\xff", _GOOD + _GOOD, _WRAPPED[:-1], b"\x10\x01\x00",
        b"\x10\x01\x01" + _WRAPPED[3:], _GOOD + bytes(1 << 14), b"\x30\x84\x7f\xff\xff\xff" + _GOOD,
    ],
    ids=range(11),
)  # fmt: skip
def test_what_no_index_holds(octets: bytes) -> None:
    with pytest.raises(StructureError):
        ek_certificate.from_nv(octets)


def _resigned(serial: bytes | None = None, key_oid: bytes | None = None) -> bytes:
    """The certificate of an RSA key by the maker's CA, with a serial number or a key's identifier written wrongly."""
    private = load_pem_private_key(evidence_cases.named("ev-tpm-credential-001").text("ek_private_pem").encode(), None)
    contents = _MAKER.certificate(private.public_key(), key_use="key_encipherment")  # type: ignore[arg-type] # RSA
    start, stop = der.expect(contents, 0, len(contents), der.SEQUENCE)
    inner, inner_stop = der.expect(contents, start, stop, der.SEQUENCE)
    fields = [contents[at:end] for at, _, end in der.elements(contents, inner, inner_stop, None)]
    if serial is not None:
        fields[1] = der.encode(der.INTEGER, serial)
    if key_oid is not None:
        members = der.elements(fields[6], *der.expect(fields[6], 0, len(fields[6]), der.SEQUENCE), None)
        fields[6] = der.encode(der.SEQUENCE, key_oid, fields[6][members[1][0] :])
    signed = der.encode(der.SEQUENCE, *fields)
    algorithm, _ = der.elements(contents, inner_stop, stop, None)
    signature = curve_key("maker CA").sign(signed, ec.ECDSA(hashes.SHA256()))
    return der.encode(der.SEQUENCE, signed, contents[algorithm[0] : algorithm[2]], der.encode_bit_string(signature))


_OAEP = bytes.fromhex("301e06092a864886f70d0101073011a20f300d06092a864886f70d0101090400")


@pytest.mark.parametrize(
    ("serial", "key_oid"),
    [(b"\xff\x10", None), (b"\x00\x00\x07", None), (b"", None), (None, _OAEP), (b"\x80", _OAEP)],
    ids=["negative", "not minimal", "empty", "OAEP", "both"],
)
def test_known_wrong_encodings_are_read_and_their_signatures_still_count(
    serial: bytes | None, key_oid: bytes | None
) -> None:
    contents = _resigned(serial, key_oid)
    read = ek_certificate.parse(contents)
    assert read.contents == contents
    assert read.public_key.name == "RSA-2048"
    _verified(contents)
    at = contents.index(b"pretended")
    with pytest.raises(DeviceChainError, match="not signed"):
        _verified(contents[:at] + b"Pretended" + contents[at + 9 :])


def test_a_certificate_cut_anywhere_is_none() -> None:
    for length in range(0, len(_GOOD), 7):
        with pytest.raises(StructureError):
            ek_certificate.parse(_GOOD[:length])
