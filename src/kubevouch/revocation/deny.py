"""What a kube-apiserver is told that asks before each request: who comes with a revoked certificate is denied.

A kube-apiserver shows the certificate's fingerprint, and never the certificate. Where a user is revoked until a moment,
a certificate of his counts again only once it is known to have been issued later: what nobody knows is denied.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

from kubevouch.api.authorization_v1 import SubjectAccessReviewSpec
from kubevouch.revocation.revocations import Revocations
from kubevouch.wellknown import CREDENTIAL_ID_EXTRA

_FINGERPRINT = "X509SHA256="


def fingerprints(credentials: Sequence[str]) -> list[bytes]:
    """SHA-256 of the certificates among the credentials."""
    found = []
    for each in credentials:
        try:
            digest = bytes.fromhex(each.removeprefix(_FINGERPRINT)) if each.startswith(_FINGERPRINT) else b""
        except ValueError:
            continue
        if len(digest) == 32:
            found.append(digest)
    return found


def why(spec: SubjectAccessReviewSpec, revocations: Revocations, issued: Callable[[bytes], dt.datetime | None]) -> str:
    """Why the request is denied; empty for one about which nothing is said.

    Args:
        issued: when the certificate of a fingerprint was issued; None for one that is not known.
    """
    shown = fingerprints(spec.extra.get(CREDENTIAL_ID_EXTRA, ()))
    for digest in shown:
        if revoked := revocations.certificate(digest):
            return f"client certificate is revoked: {revoked}"
    # Tokens of a user of the same name are others than his certificates.
    for digest in shown:
        moment = issued(digest) or dt.datetime.min.replace(tzinfo=dt.UTC)
        if revoked := revocations.user(spec.user, moment):
            return f"client certificate is revoked: {revoked}"
    return ""
