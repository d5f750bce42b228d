"""Two ways to issue: to the byte as Kubernetes does, or as it should be done today.

The compatible profile is the default, because what issues certificates in a cluster must not surprise its other
components. The strict one refuses what Kubernetes signs although it is weak, malformed or dangerous. Each of its
refusals is final: a changed request is a new CSR.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from kubevouch.machinery.gotext import is_printable, quote
from kubevouch.pki.errors import PolicyError
from kubevouch.pki.policy import NODE_SIGNERS, NODE_USER_PREFIX, verify_no_masters
from kubevouch.pki.public_key import KeyKind
from kubevouch.pki.signature import Digest
from kubevouch.pki.usages import CERT_SIGN, CRL_SIGN
from kubevouch.pki.x509_request import CertificateRequest


class Profile(StrEnum):
    COMPATIBLE = "compatible"
    STRICT = "strict"


MIN_STRICT_RSA_BITS = 2048
"""NIST SP 800-131A revision 2, table 2."""

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DNS_NAME = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_NODE_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_MAX_NAME = 253  # RFC 1123 section 2.1

_ML_DSA_FORBIDDEN = frozenset(
    {"key encipherment", "data encipherment", "key agreement", "encipher only", "decipher only"}
)
_ML_DSA_REQUIRED = frozenset({"signing", "digital signature", "content commitment", CERT_SIGN, CRL_SIGN})


def verify_profile(profile: Profile, signer_name: str, request: CertificateRequest, usages: Sequence[str]) -> None:
    """Hold a request against what the profile demands beyond the signer's own rules.

    Raises:
        PolicyError: the profile does not sign such a request.
    """
    _verify_ml_dsa_usages(request, usages)
    if profile is Profile.STRICT:
        _verify_strict(signer_name, request, usages)


def _verify_ml_dsa_usages(request: CertificateRequest, usages: Sequence[str]) -> None:
    """RFC 9881 section 5; the rule proposed for the API server in kubernetes/kubernetes#142196."""
    if request.public_key.kind is not KeyKind.ML_DSA:
        return
    wrong = [usage for usage in usages if usage in _ML_DSA_FORBIDDEN]
    if wrong:
        raise PolicyError(f"usage {quote(wrong[0])} is not possible with an ML-DSA key")
    if not _ML_DSA_REQUIRED.intersection(usages):
        raise PolicyError(
            'an ML-DSA key needs one of the usages "digital signature", "content commitment", "cert sign", "crl sign"'
        )


def _verify_strict(signer_name: str, request: CertificateRequest, usages: Sequence[str]) -> None:
    # 1. The request itself (RFC 2986 section 4.1: the version is 0).
    if request.version != 0:
        raise PolicyError(f"certificate request version is {request.version}, expected 0")
    if request.signature_algorithm.digest is Digest.SHA1:
        raise PolicyError(
            f"certificate request is signed with {request.signature_algorithm.name}, expected SHA-256 or better"
        )
    key = request.public_key
    if key.kind is KeyKind.RSA and key.bits < MIN_STRICT_RSA_BITS:
        raise PolicyError(f"RSA key has {key.bits} bits, expected at least {MIN_STRICT_RSA_BITS}")
    # 2. Who it is for.
    verify_no_masters(signer_name, request.subject)
    _verify_printable(request)
    name = request.subject.common_name.removeprefix(NODE_USER_PREFIX)
    if signer_name in NODE_SIGNERS and (len(name) > _MAX_NAME or not _NODE_NAME.fullmatch(name)):
        raise PolicyError(f"{quote(name)} is not a node name")
    # 3. The names it is to be reached by; each one is judged by itself.
    for dns_name in request.alt_names.dns_names:
        if len(dns_name) > _MAX_NAME or not _DNS_NAME.fullmatch(dns_name):
            raise PolicyError(f"DNS subjectAltName {quote(dns_name)} is not a DNS name")
    # 4. What it is for: a leaf that may sign certificates is a CA by mistake.
    for usage in usages:
        if usage in {CERT_SIGN, CRL_SIGN}:
            raise PolicyError(f"usage {quote(usage)} is not allowed")


def _verify_printable(request: CertificateRequest) -> None:
    """No NUL, newline or other invisible character: what a human approves must be what is signed."""
    for _, value in request.subject.attributes:
        if value is not None and not all(is_printable(char) for char in value):
            raise PolicyError(f"subject contains unprintable characters: {quote(value)}")
