"""What a TPM would write, from keys in memory, right or wrong in one thing: for tests of who reads it.

Real TPMs are in ``vectors/evidence`` and behind ``software_tpm.py``; no real one can be made to lie like this.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import NameOID

from kubevouch.attestation.tpm import evidence
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.tpm import algorithms, attest, pcrs, weak_keys
from kubevouch.pki.tpm.attest import ClockInfo
from kubevouch.pki.tpm.credential import Credential
from kubevouch.pki.tpm.marshalling import sized, u16, u32
from kubevouch.pki.tpm.pcrs import Selection
from kubevouch.pki.tpm.public_area import Public
from kubevouch.pki.x509 import x509_certificate
from opened_credentials import opened

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
_YEAR = dt.timedelta(days=365)
EK_ATTRIBUTES = 0x000300B2
AK_ATTRIBUTES = 0x00050072
KEY_ATTRIBUTES = 0x00040072
EK_POLICY = bytes.fromhex("837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa")
ECDSA_SHA256 = (algorithms.ECDSA, algorithms.SHA256)
CLOCK = ClockInfo(7, 1, 123_456, True)
_EK_USAGE = x509.ObjectIdentifier("2.23.133.8.1")
TPM_NAMES = (("2.23.133.2.1", "id:4D414445"), ("2.23.133.2.2", "pretended"), ("2.23.133.2.3", "id:00010002"))

Private = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@lru_cache(maxsize=32)
def curve_key(name: str, curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    """The key of that name: the same one each time."""
    order_bits = curve.key_size if isinstance(curve.key_size, int) else 256
    number = int.from_bytes(hashlib.sha512(name.encode()).digest(), "big") % (1 << (order_bits - 8)) + 1
    return ec.derive_private_key(number, curve())


def public_of(private: ec.EllipticCurvePrivateKey, attributes: int, **fields: object) -> Public:
    """The public area of a P-256 key; ``fields`` are those of :class:`Public`."""
    numbers = private.public_key().public_numbers()
    size = (private.curve.key_size + 7) // 8
    curve = next(each for each, known in algorithms.CURVES.items() if known.name == private.curve.name)
    given: dict[str, object] = {
        "type": algorithms.ECC,
        "name_algorithm": algorithms.SHA256,
        "attributes": attributes,
        "curve": curve,
        "unique": (numbers.x.to_bytes(size, "big"), numbers.y.to_bytes(size, "big")),
        **fields,
    }
    return Public(**given)  # type: ignore[arg-type] # the names are those of the struct


def weak_rsa(attributes: int, bits: int = 2048, **fields: object) -> Public:
    """A public area with a modulus as TPMs of CVE-2017-15361 made it; nobody has its private half."""
    product = math.prod(weak_keys._PRIMES)
    power = pow(65537, 4711, product)
    least = (1 << bits - 1) // product + 2
    modulus = next(number for number in (power + product * (least + step) for step in (0, 1)) if number & 1)
    given: dict[str, object] = {
        "type": algorithms.RSA,
        "name_algorithm": algorithms.SHA256,
        "attributes": attributes,
        "bits": bits,
        "unique": (modulus.to_bytes(bits // 8, "big"),),
        **fields,
    }
    return Public(**given)  # type: ignore[arg-type] # the names are those of the struct


def signed(private: ec.EllipticCurvePrivateKey, octets: bytes) -> bytes:
    """A TPMT_SIGNATURE, ECDSA over SHA-256."""
    r, s = decode_dss_signature(private.sign(octets, ec.ECDSA(hashes.SHA256())))
    size = (private.curve.key_size + 7) // 8
    return (
        u16(algorithms.ECDSA) + u16(algorithms.SHA256) + sized(r.to_bytes(size, "big")) + sized(s.to_bytes(size, "big"))
    )


def said(
    kind: int,
    extra_data: bytes,
    body: bytes,
    *,
    magic: int = attest.GENERATED,
    signer: bytes = b"\x00\x0b" + bytes(32),
    clock: ClockInfo = CLOCK,
) -> bytes:
    """A TPMS_ATTEST."""
    told = clock.clock.to_bytes(8, "big") + u32(clock.reset_count) + u32(clock.restart_count) + bytes((clock.safe,))
    return u32(magic) + u16(kind) + sized(signer) + sized(extra_data) + told + bytes(8) + body


def certified_body(key: Public) -> bytes:
    return sized(key.name()) + sized(b"\x00\x0b" + bytes(32))


def quoted_body(values: Mapping[int, Mapping[int, bytes]]) -> bytes:
    selections = [Selection(bank, tuple(sorted(registers))) for bank, registers in values.items()]
    return pcrs.encode_selections(selections) + sized(pcrs.digest(selections, values, algorithms.SHA256))


def texts(values: Mapping[int, Mapping[int, bytes]]) -> dict[str, dict[str, str]]:
    """Values as evidence has them."""
    return {
        algorithms.HASHES[bank].name: {str(pcr): value.hex() for pcr, value in registers.items()}
        for bank, registers in values.items()
    }


VALUES = {algorithms.SHA256: {pcr: hashlib.sha256(bytes((pcr,))).digest() for pcr in range(8)}}


@dataclass(frozen=True)
class Maker:
    """A maker of TPMs: a root, and a CA below it that vouches for them."""

    name: str = "maker"

    @property
    def root(self) -> x509.Certificate:
        return _ca(self.name, f"{self.name} root", f"{self.name} root", f"{self.name} root", 1)

    @property
    def issuing(self) -> x509.Certificate:
        return _ca(self.name, f"{self.name} CA", f"{self.name} CA", f"{self.name} root", 0)

    @property
    def anchors(self) -> TrustAnchors:
        return TrustAnchors([x509_certificate.parse_der(der_of(self.root))])

    def certificate(
        self,
        public_key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
        *,
        names: Sequence[Sequence[tuple[str, str]]] = (TPM_NAMES,),
        other_names: Sequence[x509.GeneralName] = (),
        critical: bool = True,
        subject: str = "",
        usage: x509.ObjectIdentifier | None = _EK_USAGE,
        ca: bool = False,
        key_use: str = "key_agreement",
        begins: dt.datetime = NOW - 10 * _YEAR,
        ends: dt.datetime = NOW + _YEAR,
        strange_critical: bool = False,
        alt_names_value: bytes = b"",
        by: str = "",
        serial: int = 7,
    ) -> bytes:
        """Of an endorsement key, in DER; ``by`` another key than the issuing CA's."""
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)] if subject else []))
            .issuer_name(_name(f"{self.name} CA"))
            .public_key(public_key)
            .serial_number(serial)
            .not_valid_before(begins)
            .not_valid_after(ends)
            .add_extension(_key_usage(key_use), critical=True)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        alt_names = [x509.DirectoryName(_directory(each)) for each in names]
        if alt_names_value:
            value = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.17"), alt_names_value)
            builder = builder.add_extension(value, critical=True)
        elif alt_names or other_names:
            builder = builder.add_extension(x509.SubjectAlternativeName([*alt_names, *other_names]), critical=critical)
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if strange_critical:
            oid = x509.ObjectIdentifier("1.2.3.4")
            builder = builder.add_extension(x509.UnrecognizedExtension(oid, b"\x05\x00"), critical=True)
        return der_of(builder.sign(curve_key(by or f"{self.name} CA"), hashes.SHA256()))


def _ca(maker: str, name: str, key: str, by: str, path_length: int) -> x509.Certificate:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(f"{maker} root"))
        .public_key(curve_key(key).public_key())
        .serial_number(1 + path_length)
        .not_valid_before(NOW - 10 * _YEAR)
        .not_valid_after(NOW + 10 * _YEAR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(_key_usage("key_cert_sign"), critical=True)
        .sign(curve_key(by), hashes.SHA256())
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _directory(attributes: Sequence[tuple[str, str]]) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.ObjectIdentifier(oid), value) for oid, value in attributes])


def _key_usage(use: str) -> x509.KeyUsage:
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: name == use for name in names})


def der_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


@dataclass(frozen=True)
class PretendedTPM:
    """A TPM with P-256 keys; every field can be another one than a TPM would have."""

    name: str = "tpm"
    maker: Maker = field(default_factory=Maker)
    ek_fields: Mapping[str, object] = field(default_factory=dict)
    ak_fields: Mapping[str, object] = field(default_factory=dict)
    values: Mapping[int, Mapping[int, bytes]] = field(default_factory=lambda: VALUES)

    @property
    def ek_private(self) -> ec.EllipticCurvePrivateKey:
        return curve_key(f"{self.name} EK")

    @property
    def ek(self) -> Public:
        given: dict[str, object] = {
            "attributes": EK_ATTRIBUTES,
            "auth_policy": EK_POLICY,
            "symmetric": (algorithms.AES, 128, algorithms.CFB),
            **self.ek_fields,
        }
        return public_of(self.ek_private, **given)  # type: ignore[arg-type] # attributes is an int

    @property
    def ak_private(self) -> ec.EllipticCurvePrivateKey:
        return curve_key(f"{self.name} AK")

    @property
    def ak(self) -> Public:
        given: dict[str, object] = {"attributes": AK_ATTRIBUTES, "scheme": ECDSA_SHA256, **self.ak_fields}
        return public_of(self.ak_private, **given)  # type: ignore[arg-type] # attributes is an int

    def opening(self, **fields: object) -> evidence.Opening:
        given: dict[str, object] = {
            "ek_public": self.ek.encode(),
            "ak_public": self.ak.encode(),
            "ek_certificate": self.maker.certificate(self.ek_private.public_key()),
            "chain": [der_of(self.maker.issuing)],
            **fields,
        }
        return evidence.Opening(**given)  # type: ignore[arg-type] # the names are those of the struct

    def activated(self, credential: Credential) -> bytes:
        """The secret."""
        return opened(credential, self.ek_private, self.ak.name())

    def answer(self, question: evidence.Question, key: Public, extra_data: bytes, **fields: object) -> evidence.Answer:
        """As a good node gives it; ``fields`` in place of its own."""
        told = said(attest.CERTIFY, extra_data, certified_body(key))
        given: dict[str, object] = {
            "secret": self.activated(question.credential) if "secret" not in fields else b"",
            "key_public": key.encode(),
            "attest": told,
            "signature": signed(self.ak_private, told),
            "quote": self.quote(extra_data) if question.pcrs else None,
            **fields,
        }
        return evidence.Answer(**given)  # type: ignore[arg-type] # the names are those of the struct

    def quote(self, extra_data: bytes, **fields: object) -> evidence.Quote:
        told = said(attest.QUOTE, extra_data, quoted_body(self.values))
        given: dict[str, object] = {
            "attest": told, "signature": signed(self.ak_private, told), "pcrs": texts(self.values), **fields,
        }  # fmt: skip
        if "attest" in fields and "signature" not in fields:
            given["signature"] = signed(self.ak_private, fields["attest"])  # type: ignore[arg-type] # it is bytes
        return evidence.Quote(**given)  # type: ignore[arg-type] # the names are those of the struct
