"""What a hostile signer answers, one change at a time."""

from __future__ import annotations

import datetime as dt
import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubevouch.pki import issued_leaf
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.x509_certificate import Certificate

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
KEY = ec.derive_private_key(0x1234567, ec.SECP256R1())
SUBJECT = Subject(common_name="system:node:a", organizations=("system:nodes",))
NAMES = SubjectAltNames(dns_names=("a", "a.b"), ip_addresses=(ipaddress.ip_address("192.0.2.1"),))
CN = x509.NameAttribute(NameOID.COMMON_NAME, "system:node:a")
NODES = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes")
UID = x509.NameAttribute(x509.ObjectIdentifier("1.3.6.1.4.1.57683.2"), "1")
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
DNS = (x509.DNSName("a"), x509.DNSName("a.b"))
IP = x509.IPAddress(ipaddress.ip_address("192.0.2.1"))


def leaf(
    attributes: tuple[x509.NameAttribute[str], ...] = (NODES, CN),
    names: tuple[x509.GeneralName, ...] = (),
    purposes: tuple[x509.ObjectIdentifier, ...] = (CLIENT,),
    *,
    ca: bool = False,
    bits: str = "digital_signature",
    life: dt.timedelta = dt.timedelta(days=365),
) -> Certificate:
    every = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    builder = (
        x509.CertificateBuilder(x509.Name([CN]), x509.Name(attributes), KEY.public_key(), 7)
        .not_valid_before(NOW)
        .not_valid_after(NOW + life)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if bits:
        builder = builder.add_extension(x509.KeyUsage(**{name: name in bits.split() for name in every}), critical=True)
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signed = builder.sign(KEY, hashes.SHA256())
    return x509_certificate.parse_der(signed.public_bytes(serialization.Encoding.DER))


def found(certificate: Certificate, names: SubjectAltNames = SubjectAltNames(), life: int | None = None) -> list[str]:  # noqa: B008 - frozen
    return list(
        issued_leaf.differences(
            certificate, subject=SUBJECT, alt_names=names, purpose="client auth", expiration_seconds=life
        )
    )


def test_what_was_asked_for() -> None:
    assert found(leaf()) == []
    assert found(leaf((CN, NODES), bits="digital_signature key_encipherment")) == []
    assert found(leaf(bits="")) == []
    assert found(leaf(names=(IP, *reversed(DNS))), NAMES) == []
    assert found(leaf(life=dt.timedelta(hours=1, minutes=5)), life=3600) == []
    assert found(leaf(life=dt.timedelta(minutes=15)), life=1) == []


@pytest.mark.parametrize(
    ("certificate", "why"),
    [
        (leaf(ca=True), "is that of a CA"),
        (leaf(bits="digital_signature key_cert_sign"), "is that of a CA"),
        (leaf(bits="digital_signature crl_sign"), "is that of a CA"),
        (leaf(bits="key_encipherment"), "may not be used to sign"),
        (leaf(purposes=(SERVER,)), "is for other purposes than client auth"),
        (leaf(purposes=(CLIENT, SERVER)), "is for other purposes than client auth"),
        (leaf(purposes=()), "is for other purposes than client auth: any"),
        (leaf((NODES, CN, UID)), "with 3 attributes"),
        (leaf((NODES, NODES, CN)), "with 3 attributes"),
        (leaf((NODES, CN, CN)), "with 3 attributes"),
        (leaf((CN,)), "is for 'system:node:a' in []"),
        (leaf(names=(x509.DNSName("kubernetes"),)), "has the name 'kubernetes', which nobody asked for"),
        (leaf(names=(x509.RFC822Name("a@b"),)), "has the name 'a@b'"),
        (leaf(names=(x509.UniformResourceIdentifier("spiffe://a/b"),)), "has the name 'spiffe://a/b'"),
        (leaf(names=(x509.RegisteredID(CLIENT),)), "has names of a kind that nobody asked for"),
        (leaf(names=(x509.DirectoryName(x509.Name([CN])),)), "has names of a kind that nobody asked for"),
    ],
)
def test_what_was_not_asked_for(certificate: Certificate, why: str) -> None:
    (told,) = found(certificate)
    assert why in told


@pytest.mark.parametrize("place", range(4))
def test_one_bad_name_among_good_ones(place: int) -> None:
    names = [*DNS, IP]
    names.insert(place, x509.DNSName("kubernetes"))
    assert found(leaf(names=tuple(names)), NAMES) == ["has the name 'kubernetes', which nobody asked for"]


@pytest.mark.parametrize("left_out", range(3))
def test_names_that_are_missing(left_out: int) -> None:
    names = [*DNS, IP]
    del names[left_out]
    (told,) = found(leaf(names=tuple(names)), NAMES)
    assert "is missing" in told


def test_a_longer_life() -> None:
    assert found(leaf(), life=3600) == ["is valid for 365 days, 0:00:00, 3600 s were asked for"]
