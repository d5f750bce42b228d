"""Two ways to issue: as it should be done today, or to the byte as Kubernetes does.

The strict profile is the default: it refuses what Kubernetes signs although it is weak, malformed or dangerous, and
what no kubelet, kubeadm or kubectl asks for. Each of its refusals is final: a changed request is a new CSR. The
compatible one is for a cluster whose machines ask for such certificates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from kubevouch.machinery.text.gotext import is_printable_text, quote
from kubevouch.pki.errors import PolicyError
from kubevouch.pki.policy import names_node, verify_no_masters
from kubevouch.pki.x509.public_key import KeyKind, PublicKey
from kubevouch.pki.x509.signature import Digest
from kubevouch.pki.x509.usages import CERT_SIGN, CRL_SIGN
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.wellknown import NODE_USER_PREFIX, NODES_GROUP


class Profile(StrEnum):
    COMPATIBLE = "compatible"
    STRICT = "strict"


MIN_STRICT_RSA_BITS = 2048
"""NIST SP 800-131A revision 2, table 2."""
MAX_STRICT_RSA_BITS = 8192
"""What Go's TLS takes (crypto/tls since Go 1.20): a longer key costs whoever verifies seconds."""
MIN_STRICT_RSA_EXPONENT = 65537
"""NIST SP 800-56B revision 2, section 6.2."""
MIN_STRICT_CURVE_BITS = 256
"""NIST SP 800-131A revision 2 allows P-224 only to read what was signed of old."""

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DNS_NAME = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
_EMPTY_NAME = b"\x30\x00"
_MAX_NAME = 253  # RFC 1123 section 2.1

_ML_DSA_FORBIDDEN = frozenset(
    {"key encipherment", "data encipherment", "key agreement", "encipher only", "decipher only"}
)
_ML_DSA_REQUIRED = frozenset({"signing", "digital signature", "content commitment", CERT_SIGN, CRL_SIGN})


def verify_profile(
    profile: Profile, signer_name: str, request: CertificateRequest, usages: Sequence[str], *, of_a_ca: bool = False
) -> None:
    """Hold a request against what the profile demands beyond the signer's own rules.

    Args:
        of_a_ca: the signer's rules have granted that the request becomes a CA.

    Raises:
        PolicyError: the profile does not sign such a request.
    """
    _verify_ml_dsa_usages(request, usages)
    if profile is Profile.STRICT:
        _verify_strict(signer_name, request, usages, of_a_ca)


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


def _verify_strict(signer_name: str, request: CertificateRequest, usages: Sequence[str], of_a_ca: bool) -> None:
    # 1. The request itself (RFC 2986 section 4.1: the version is 0).
    if request.version != 0:
        raise PolicyError(f"certificate request version is {request.version}, expected 0")
    if request.signature_algorithm.digest is Digest.SHA1:
        raise PolicyError(
            f"certificate request is signed with {request.signature_algorithm.name}, expected SHA-256 or better"
        )
    _verify_key(request.public_key)
    # 2. Who it is for: somebody has to be named (RFC 5280 section 4.1.2.6).
    if request.subject.encode() == _EMPTY_NAME and not request.alt_names:
        raise PolicyError("there is neither a subject nor a subjectAltName")
    verify_no_masters(signer_name, request.subject)
    _verify_printable(request)
    _verify_no_other_signers_node(signer_name, request)
    # 3. The names it is to be reached by; each one is judged by itself.
    for dns_name in request.alt_names.dns_names:
        if len(dns_name) > _MAX_NAME or not _DNS_NAME.fullmatch(dns_name):
            raise PolicyError(f"DNS subjectAltName {quote(dns_name)} is not a DNS name")
    for name in (*request.alt_names.email_addresses, *request.alt_names.uris):
        if not _VISIBLE.fullmatch(name):
            raise PolicyError(f"subjectAltName {quote(name)} contains unprintable characters")
    # 4. What it is for: a leaf that may sign certificates is a CA by mistake.
    for usage in usages:
        if usage in {CERT_SIGN, CRL_SIGN} and not of_a_ca:
            raise PolicyError(f"usage {quote(usage)} is not allowed")


def _verify_key(key: PublicKey) -> None:
    if key.kind is KeyKind.RSA:
        if key.bits < MIN_STRICT_RSA_BITS:
            raise PolicyError(f"RSA key has {key.bits} bits, expected at least {MIN_STRICT_RSA_BITS}")
        if key.bits > MAX_STRICT_RSA_BITS:
            raise PolicyError(f"RSA key has {key.bits} bits, expected at most {MAX_STRICT_RSA_BITS}")
        if key.exponent < MIN_STRICT_RSA_EXPONENT:
            raise PolicyError(f"RSA key has the exponent {key.exponent}, expected at least {MIN_STRICT_RSA_EXPONENT}")
    if key.kind is KeyKind.ECDSA and key.bits < MIN_STRICT_CURVE_BITS:
        raise PolicyError(f"{key.name} key has {key.bits} bits, expected at least {MIN_STRICT_CURVE_BITS}")


def _verify_no_other_signers_node(signer_name: str, request: CertificateRequest) -> None:
    """A node's identity comes from the signers for nodes, whose rules and whose approver look at the node's name."""
    subject = request.subject
    if names_node(signer_name):
        return
    if NODES_GROUP in subject.organizations or subject.common_name.startswith(NODE_USER_PREFIX):
        raise PolicyError(f"{signer_name} does not issue identities of nodes")


def _verify_printable(request: CertificateRequest) -> None:
    """No NUL, newline or other invisible character: what a human approves must be what is signed."""
    for _, value in request.subject.attributes:
        if value is not None and not is_printable_text(value):
            raise PolicyError(f"subject contains unprintable characters: {quote(value)}")
