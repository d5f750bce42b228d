"""Certificates of devices and of the CAs above them, right or wrong in one thing, for one test."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubevouch.pki.client_certificate import TrustAnchors

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
_YEAR = dt.timedelta(days=365)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_serials = itertools.count(1)


@dataclass(frozen=True)
class Issued:
    certificate: x509.Certificate
    key: Key

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def anchors(self) -> TrustAnchors:
        return TrustAnchors.from_pem(self.pem.encode())

    @property
    def spki(self) -> bytes:
        return self.key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def write(self, folder: Path, *above: Issued) -> tuple[Path, Path]:
        """The chain and the key as files."""
        chain, key = folder / "device.pem", folder / "device.key"
        chain.write_text("".join(each.pem for each in (self, *above)))
        key.touch(mode=0o600)
        key.write_bytes(
            self.key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return chain, key


def issue(
    name: str,
    by: Issued | None = None,
    *,
    ca: bool | None = False,
    path_length: int | None = None,
    digital_signature: bool | None = True,
    cert_sign: bool | None = None,
    usages: Sequence[x509.ObjectIdentifier] = (),
    dns: Sequence[str] = (),
    uris: Sequence[str] = (),
    permitted: Sequence[str] = (),
    unknown_critical: bool = False,
    begins: dt.datetime = NOW - _YEAR,
    ends: dt.datetime = NOW + _YEAR,
    key: Key | None = None,
    issuer: str = "",
) -> Issued:
    """A certificate; by nobody is self-signed. ``ca`` and ``digital_signature`` None leave the extension out."""
    own = key or ec.generate_private_key(ec.SECP256R1())
    signer = own if by is None else by.key
    issuer_name = _name(issuer) if issuer else _name(name) if by is None else by.certificate.subject
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer_name)
        .public_key(own.public_key())
        .serial_number(next(_serials))
        .not_valid_before(begins)
        .not_valid_after(ends)
    )
    if ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=path_length), critical=True)
    if digital_signature is not None:
        builder = builder.add_extension(
            x509.KeyUsage(
                digital_signature=digital_signature, content_commitment=False, key_encipherment=not digital_signature,
                data_encipherment=False, key_agreement=False,
                key_cert_sign=bool(ca) if cert_sign is None else cert_sign, crl_sign=False, encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )  # fmt: skip
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    alt_names = [*map(x509.DNSName, dns), *map(x509.UniformResourceIdentifier, uris)]
    if alt_names:
        builder = builder.add_extension(x509.SubjectAlternativeName(alt_names), critical=False)
    if permitted:
        builder = builder.add_extension(
            x509.NameConstraints([x509.DNSName(each) for each in permitted], None), critical=True
        )
    if unknown_critical:
        builder = builder.add_extension(
            x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), b"\x05\x00"), critical=True
        )
    return Issued(builder.sign(signer, hashes.SHA256()), own)


def authority(name: str, by: Issued | None = None, **more: object) -> Issued:
    return issue(name, by, ca=True, **more)  # type: ignore[arg-type]


CLIENT_AUTH, SERVER_AUTH = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])
