"""By what a cluster is known to machines that prove what they are: a proof for one cluster is none for another.

A cluster-info that kubevouch wrote tells the UID of the Namespace ``kube-system``. kubeadm's does not, and neither do
those who run other people's control planes. Such a cluster is known by the pin of its CA, which both sides know: the
machine has verified the API server with that CA, and the cluster publishes it.

Source: docs/adr/0059-a-cluster-that-does-not-say-which-it-is.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubevouch.pki import pins
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate

CLUSTER_ANNOTATION = "kubevouch.io/cluster"
"""Of a request with proofs: the cluster that these were made for. It only says so, and the proofs show it."""
MAX_LENGTH = 128
"""Of what the annotation says: a pin has 71 characters."""


def identity(told: str, authorities: Iterable[Certificate]) -> str:
    """What proofs are made for: the UID that the cluster tells, else the pin of its first CA; empty for neither.

    Args:
        told: by cluster-info or the machine's kubeconfig; empty for nothing.
        authorities: that the machine trusts as the cluster's, in the order of their bundle.
    """
    return told or next((pins.pin_of(each) for each in authorities), "")


def is_pin(text: str) -> bool:
    """Whether an identity is a CA's pin rather than a UID."""
    return text.startswith(f"{pins.FORMAT}:")


def pins_in(bundle: bytes) -> frozenset[str]:
    """Of each CA of a bundle in PEM; none if it cannot be read."""
    try:
        return frozenset(pins.pin_of(each) for each in x509_certificate.parse_bundle(bundle))
    except ParseError:
        return frozenset()
