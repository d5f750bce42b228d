"""The unit in which work is counted: one CSR check plus one P-256 certificate signature, on this machine, now."""

from __future__ import annotations

import datetime as dt
import statistics
import time

from kubevouch.pki import authority, issuance, keys, x509_request
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.request_builder import build_request
from kubevouch.pki.subject import Subject

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
