"""Why a request gets no certificate although nobody has refused it: who asked, with what, or for which key, is revoked.

Asked before an approval and once more before the signature: what is revoked in between is not signed.
"""

from __future__ import annotations

from kubevouch.policy.facts import RequestFacts
from kubevouch.revocation.revocations import Revocations
from kubevouch.wellknown import CREDENTIAL_ID_EXTRA

REASON = "Revoked"
_FINGERPRINT = "X509SHA256="


def refusal(facts: RequestFacts, revocations: Revocations) -> str:
    """A sentence; empty for a request that nothing revoked stands behind."""
    if not len(revocations):
        return ""
    # 1. The key: it may be what was stolen, whoever shows it now.
    if revoked := revocations.key(bytes.fromhex(facts.key_fingerprint)):
        return f"its key is revoked: {revoked}"
    # 2. The certificate with which it was asked for; a server that does not know of revocations has let it in.
    for credential in facts.extra.get(CREDENTIAL_ID_EXTRA, ()):
        digest = _digest(credential)
        if digest and (revoked := revocations.certificate(digest)):
            return f"it was asked for with a certificate that is revoked: {revoked}"
    # 3. The requester, the token and the name, as far as they are revoked: until a moment.
    if facts.created is None:
        return ""
    if revoked := revocations.requester(facts.username, facts.created):
        return f"its requester {facts.username} is revoked: {revoked}"
    for name in dict.fromkeys((facts.username, facts.subject.common_name)):
        if revoked := revocations.user(name, facts.created):
            return f"{name} was revoked after this was asked for: {revoked}"
    return ""


def _digest(credential: str) -> bytes:
    try:
        return bytes.fromhex(credential.removeprefix(_FINGERPRINT)) if credential.startswith(_FINGERPRINT) else b""
    except ValueError:
        return b""
