"""What would approve an undecided request by itself, or why nothing will."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Secret
from kubevouch.client.interface import Client
from kubevouch.controllers.approval.access_review import may_create
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki import recognizers
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_request
from kubevouch.records import token_bounds, token_record
from kubevouch.records.bootstrap_tokens import token_id_of_user
from kubevouch.records.node_recovery import node_of_user
from kubevouch.records.token_bounds import TokenBoundError, TokenBoundsError
from kubevouch.records.token_record import TokenRecordError
from kubevouch.wellknown import KUBELET_SERVING_SIGNER

NOT_LOOKED_AT = "NotLookedAt"
"""Nothing is known that keeps a controller from approving it."""
SecretOfToken = Callable[[str], Awaitable[Secret | None]]


class Outlook(NamedTuple):
    """``reason`` in one word for machines, ``message`` for people."""

    reason: str
    message: str


async def outlook(client: Client, csr: CertificateSigningRequest, secret_of_token: SecretOfToken) -> Outlook:
    """Of a request that nobody has decided. ``secret_of_token`` is asked for the Secret of a token's ID.

    Raises:
        APIStatusError, TransportError: whatever reading the Secret raises.
    """
    spec = csr.spec
    try:
        request = x509_request.parse_pem(spec.request or b"")
    except ParseError:
        return Outlook("Unreadable", "nothing approves what cannot be read")
    recognized = recognizers.recognize(spec.signer_name, request, spec.usages, username=spec.username)
    if spec.signer_name == KUBELET_SERVING_SIGNER:
        return Outlook("NotJustified", f"each of its names has to be justified: kubevouch csr show {csr.metadata.name}")
    if not recognized:
        return Outlook("NotRecognized", f"no controller approves this for {spec.signer_name}; a person has to")
    try:
        allowed = [each.subresource for each in recognized if await may_create(client, spec, each.subresource)]
    except APIStatusError as err:
        return Outlook("Unknown", f"recognized, but you may not ask whether {spec.username} has the right: {err}")
    if not allowed:
        wanted = recognized[-1].subresource
        return Outlook(
            "NotPermitted",
            f"recognized as {wanted}, but {spec.username} may not create {CERTIFICATE_SIGNING_REQUESTS.plural}/{wanted}"
            "; a role binding for one of its groups would allow it",
        )
    if node_of_user(spec.username):
        return Outlook(
            "RecoveryWaits",
            "approved once recovery is on and the node's budget is not used up: kubevouch recovery list",
        )
    token_id = token_id_of_user(spec.username)
    trouble = _trouble(csr, await secret_of_token(token_id)) if token_id else ""
    if trouble:
        return Outlook(token_bounds.DENIED_REASON, trouble)
    return Outlook(
        NOT_LOOKED_AT,
        f"the approving controller approves it as {allowed[0]}; is it running? csr explain says more",
    )


def _trouble(csr: CertificateSigningRequest, secret: Secret | None) -> str:
    if secret is None:
        return ""
    annotations = secret.metadata.annotations
    try:
        bounds = token_bounds.from_annotations(annotations)
        attempt = token_record.attempt_of(csr)
        bounds.verify_request(attempt.node_name, attempt.key)
        if bounds.uses is not None:
            token_record.reserve(token_record.read(annotations), bounds.uses, attempt)
    except (TokenBoundError, TokenBoundsError, TokenRecordError) as err:
        return str(err)
    if bounds.source_ranges and token_bounds.TOKEN_UID_EXTRA not in csr.spec.extra:
        return "the token is for some addresses only, and the API server did not check from where it came"
    return ""
