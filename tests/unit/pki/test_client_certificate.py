"""Who may stand above a client's certificate: what is no CA, or may not sign certificates, vouches for nobody."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubevouch.pki.client_certificate import TrustAnchors, is_issued_by, verify_chain
from kubevouch.pki.errors import ClientCertificateError
from kubevouch.pki.x509.x509_certificate import Certificate, parse_der

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


class Link:
    """A certificate and its key, under ``parent`` or by itself."""

    def __init__(
        self, name: str, parent: Link | None = None, *, ca: bool | None = True, usage: tuple[str, ...] = ()
    ) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signer = parent or self
        builder = (
            x509.CertificateBuilder()
            .subject_name(self.name)
            .issuer_name(signer.name)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - dt.timedelta(days=1))
            .not_valid_after(NOW + dt.timedelta(days=1))
        )
        if ca is not None:
            builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        if usage:
            builder = builder.add_extension(x509.KeyUsage(**{each: each in usage for each in USAGES}), critical=True)
        if parent is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        made = builder.sign(signer.key, hashes.SHA256())
        self.certificate: Certificate = parse_der(made.public_bytes(serialization.Encoding.DER))


def chain(*, ca: bool | None = True, usage: tuple[str, ...] = (), between: bool = False) -> tuple[Link, ...]:
    """From the leaf to the anchor; what is said is said of the one that signs the leaf."""
    if not between:
        anchor = Link("anchor", ca=ca, usage=usage)
        return Link("leaf", anchor, ca=False), anchor
    anchor = Link("anchor")
    middle = Link("middle", anchor, ca=ca, usage=usage)
    return Link("leaf", middle, ca=False), middle, anchor


def verified(links: tuple[Link, ...]) -> None:
    leaf, *middle, anchor = (link.certificate for link in links)
    verify_chain(leaf, tuple(middle), TrustAnchors([anchor]), now=NOW)


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("usage", [(), ("key_cert_sign",), ("crl_sign", "key_cert_sign")])
def test_a_ca_that_may_sign_certificates(usage: tuple[str, ...], between: bool) -> None:
    links = chain(usage=usage, between=between)
    verified(links)
    assert is_issued_by(links[0].certificate, links[1].certificate)


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize(
    ("ca", "usage"),
    [(True, ("crl_sign",)), (True, ("digital_signature",)), (False, ("key_cert_sign",)), (None, ("key_cert_sign",))],
    ids=["crl-only", "signature-only", "no-ca", "no-constraints"],
)
def test_one_that_may_not(ca: bool | None, usage: tuple[str, ...], between: bool) -> None:
    links = chain(ca=ca, usage=usage, between=between)
    with pytest.raises(ClientCertificateError):
        verified(links)
    assert not is_issued_by(links[0].certificate, links[1].certificate)
