"""What a request for a certificate asks for, as columns of ``kubectl get csr`` and as annotations: both by an option.

The first design had these in ``status``. They are computed each time; nothing that decides reads the annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_request
from kubevouch.policy.facts import RequestFacts, facts_of
from kubevouch.policy.verdict import cut
from kubevouch.registry.interface import Column
from kubevouch.registry.printing import NONE
from kubevouch.util.printable import escaped

ANNOTATION_PREFIX = "kubevouch.io/request-"
MAX_CELL_BYTES = 256
MAX_ANNOTATION_BYTES = 1 << 10


def _subject(facts: RequestFacts) -> str:
    subject = facts.subject
    return ", ".join([f"CN={subject.common_name}", *(f"O={each}" for each in subject.organizations)])


def _names(facts: RequestFacts) -> str:
    return ",".join((*facts.dns_names, *facts.ip_addresses, *facts.email_addresses, *facts.uris))


def _key(facts: RequestFacts) -> str:
    return f"{facts.key_algorithm} {facts.key_bits}" if facts.key_bits else facts.key_algorithm


_FACTS: dict[str, tuple[str, str, Callable[[RequestFacts], str]]] = {
    "subject": ("Subject", "For whom the certificate should be.", _subject),
    "names": ("Names", "Names and addresses in it.", _names),
    "fingerprint": ("Fingerprint", "SHA-256 of the public key.", lambda facts: facts.key_fingerprint),
    "key": ("Key", "Kind and size of the public key.", _key),
}
NAMES = tuple(_FACTS)


def columns(chosen: Sequence[str]) -> tuple[Column, ...]:
    return tuple(Column(_FACTS[name][0], description=_FACTS[name][1]) for name in chosen)


def cells(csr: CertificateSigningRequest, chosen: Sequence[str]) -> list[object]:
    """Whoever asks chooses the characters, so that none of them does anything to a terminal."""
    return [cut(escaped(text), MAX_CELL_BYTES) or NONE for text in _texts(csr, chosen)]


def annotations_of(csr: CertificateSigningRequest, chosen: Sequence[str]) -> dict[str, str]:
    texts = zip(chosen, _texts(csr, chosen), strict=True)
    return {ANNOTATION_PREFIX + name: cut(escaped(text), MAX_ANNOTATION_BYTES) for name, text in texts if text}


def _texts(csr: CertificateSigningRequest, chosen: Sequence[str]) -> list[str]:
    """Empty ones of a request that cannot be read."""
    if not chosen:
        return []
    try:
        facts = facts_of(csr, x509_request.parse_pem(csr.spec.request or b""))
    except ParseError:
        return [""] * len(chosen)
    return [_FACTS[name][2](facts) for name in chosen]
