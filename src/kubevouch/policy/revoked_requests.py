"""Why a request gets no certificate although nobody has refused it: who asked, with what, or for which key, is revoked.

Asked before an approval and once more before the signature: what is revoked in between is not signed.
"""

from __future__ import annotations

import datetime as dt

from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval
from kubevouch.pki.node_user import node_name_of
from kubevouch.policy.facts import RequestFacts
from kubevouch.revocation.revocations import Revocations, Revoked
from kubevouch.wellknown import CREDENTIAL_ID_EXTRA

REASON = "Revoked"
_FINGERPRINT = "X509SHA256="
_LONG_AGO = dt.datetime.min.replace(tzinfo=dt.UTC)


def refusal(facts: RequestFacts, revocations: Revocations) -> str:
    """A sentence; empty for a request that nothing revoked stands behind."""
    if not len(revocations):
        return ""
    # 1. The key: it may be what was stolen, whoever shows it now.
    if revoked := revocations.key(bytes.fromhex(facts.key_fingerprint)):
        return f"its key is revoked: {revoked}"
    # 2. The certificate with which it was asked for; a server that does not know of revocations has let it in.
    for credential in facts.extra.get(CREDENTIAL_ID_EXTRA, ()):
        if revoked := _shown(credential, revocations):
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


def voter_refusal(vote: CertificateApproval, revocations: Revocations) -> str:
    """Why what somebody has said of a request counts no more, as the end of a sentence; empty if it does.

    What was said before a revocation is void with it; whoever has another credential by then speaks anew.
    """
    spec, created = vote.spec, vote.metadata.creation_timestamp
    at = _LONG_AGO if created is None else created.datetime()
    if revoked := _shown(spec.credential, revocations):
        return f"has voted with a certificate that is revoked: {revoked}"
    if revoked := revocations.requester(spec.approver, at) or revocations.user(spec.approver, at):
        return f"is revoked: {revoked}"
    node = node_name_of(spec.approver)
    why = revocations.node(node, at) if node else ""
    return f"is revoked: {why}" if why else ""


def _shown(credential: str, revocations: Revocations) -> Revoked | None:
    digest = _digest(credential)
    return revocations.certificate(digest) if digest else None


def _digest(credential: str) -> bytes:
    try:
        return bytes.fromhex(credential.removeprefix(_FINGERPRINT)) if credential.startswith(_FINGERPRINT) else b""
    except ValueError:
        return b""
