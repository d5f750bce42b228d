"""A certificate authority for one test."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubevouch.pki import keys

_DAY = dt.timedelta(days=1)
# TLS looks at the machine's clock, so the certificates of a test that connects have to span any time it may show.
_LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_FAR_OFF = dt.datetime(2120, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """As two files; the key readable by its owner only."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.certificate)
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        return certificate, key


class ThrowawayCA:
    """Issues P-256 certificates for 127.0.0.1, ::1 and localhost, or for whatever a test says."""

    def __init__(self, name: str = "throwaway") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_LONG_AGO)
            .not_valid_after(_FAR_OFF)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def bundle(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def pair(self) -> Pair:
        """Its own, for programs that sign with it."""
        return Pair(self.bundle, keys.to_pem(self._key))

    def issue(
        self,
        common_name: str = "server",
        *,
        names: tuple[str, ...] = ("127.0.0.1", "::1", "localhost"),
        organizations: tuple[str, ...] = (),
        not_before: dt.datetime = _LONG_AGO + _DAY,
        not_after: dt.datetime = _FAR_OFF - _DAY,
        key: ec.EllipticCurvePrivateKey | None = None,
    ) -> Pair:
        key = key or ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(subject))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(not_before)
            .not_valid_after(not_after)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(n) for n in names]), False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), keys.to_pem(key))


def server_context(pair: Pair, folder: Path, *, client_ca: bytes = b"", required: bool = False) -> ssl.SSLContext:
    """A server's context; with ``client_ca`` it asks for client certificates, with ``required`` it insists."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair.write(folder, "serving"))
    if client_ca:
        context.load_verify_locations(cadata=client_ca.decode())
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
