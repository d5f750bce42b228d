"""The unit in which work is counted: one CSR check plus one P-256 certificate signature, on this machine, now."""

from __future__ import annotations

import datetime as dt
import statistics
import time

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubevouch.pki import authority, issuance, keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject

_NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_ROUNDS, _IN_A_ROUND = 7, 60
_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
_USAGES = ("digital signature", "client auth")


def unit_seconds() -> float:
    """CPU seconds of one unit, in our own code: parse a CSR, verify its signature, sign a certificate, look at it.

    The median of several rounds; every request is new, so that nothing is remembered.
    """
    ca = authority.create_authority("kubernetes", keys.generate(KeyAlgorithm.ECDSA_P256), now=_NOW)
    return statistics.median(_round(ca) for _ in range(_ROUNDS))


def _round(ca: authority.CertificateAuthority) -> float:
    subject = Subject(common_name="system:node:bench", organizations=("system:nodes",))
    texts = [build_request(keys.generate(KeyAlgorithm.ECDSA_P256), subject) for _ in range(_IN_A_ROUND)]
    begun = time.process_time()
    for text in texts:
        request = x509_request.verify_signature(x509_request.parse_pem(text))
        issuance.issue(ca, request, signer_name=_SIGNER, usages=_USAGES, expiration_seconds=None, now=_NOW)
    return (time.process_time() - begun) / _IN_A_ROUND


def library_unit_seconds() -> float:
    """The same with ``cryptography`` alone and nothing of this project: load, check the signature, build, sign."""
    key = ec.generate_private_key(ec.SECP256R1())
    return statistics.median(_library_round(key) for _ in range(_ROUNDS))


def _library_round(ca_key: ec.EllipticCurvePrivateKey) -> float:
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    subject = Subject(common_name="system:node:bench", organizations=("system:nodes",))
    texts = [build_request(keys.generate(KeyAlgorithm.ECDSA_P256), subject) for _ in range(_IN_A_ROUND)]
    begun = time.process_time()
    for text in texts:
        request = x509.load_pem_x509_csr(text)
        assert request.is_signature_valid  # it was made above
        builder = x509.CertificateBuilder(issuer, request.subject, request.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(_NOW).not_valid_after(_NOW + dt.timedelta(days=365))
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        builder.sign(ca_key, hashes.SHA256())
    return (time.process_time() - begun) / _IN_A_ROUND
