"""Requests that are decided long after they were made: what the API server stamped on them may be true no more.

A request bears the groups that its bootstrap token gave when it was posted. Until somebody decides, which may take a
day, the token can be deleted as it was stolen, can end, or can lose a group.
"""

from __future__ import annotations

import datetime as dt

from kubevouch import wellknown
from kubevouch.api.catalog import SECRETS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Secret
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.client.stored import find
from kubevouch.controllers.approval.interface import HeldBackError
from kubevouch.controllers.bootstrap_secrets import token_informer
from kubevouch.controllers.interface import Context
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.records.bootstrap_tokens import lost_since, secret_name, token_id_of_user
from kubevouch.records.token_bounds import TOKEN_UID_EXTRA
from kubevouch.util.clock import Clock

NAME = "late-requests"
REASON = "TokenGone"
LATE = dt.timedelta(minutes=10)
"""From this age on it is asked again what a request was stamped with. Machines are let in within seconds, and a token
may end in the middle of that."""


class LateRequests:
    """See :class:`kubevouch.controllers.approval.interface.Bound`: holds back what approvers would approve, until the
    token is there again or a person approves.

    Tokens with bounds have rules of their own (``token_admission``).
    """

    def __init__(self, client: Client, secrets: Lister[Secret], clock: Clock) -> None:
        self._client = client
        self._secrets = secrets
        self._clock = clock

    async def admit(self, csr: CertificateSigningRequest, request: CertificateRequest) -> None:  # noqa: ARG002 - who asks
        """Takes nothing."""
        spec, created, now = csr.spec, csr.metadata.creation_timestamp, self._clock.now()
        token_id = token_id_of_user(spec.username)
        is_late = created is not None and now - created.datetime() >= LATE
        if not token_id or not is_late or TOKEN_UID_EXTRA in spec.extra:
            return
        why = lost_since(await self._secret(token_id), spec.groups, now)
        if why:
            text = f"this was asked for more than {LATE.seconds // 60} minutes ago, and {why}"
            raise HeldBackError(NAME, REASON, text)

    async def _secret(self, token_id: str) -> Secret | None:
        """The cache may be behind, but what it has not is looked for."""
        name = secret_name(token_id)
        known = self._secrets.get(name, wellknown.KUBE_SYSTEM_NAMESPACE)
        return known or await find(self._client, SECRETS, name, wellknown.KUBE_SYSTEM_NAMESPACE)


def build(context: Context) -> LateRequests | None:
    """None where somebody else approves what comes with bootstrap tokens: then nobody here reads them."""
    if not context.approves_kubelet_clients:
        return None
    client = context.connect(wellknown.TOKEN_USES_CONTROLLER)
    return LateRequests(client, token_informer(context, client).lister, context.clock)
