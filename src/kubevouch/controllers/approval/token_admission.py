"""Whether a bootstrap token's bounds allow a request that was made with it: asked before a request is approved.

A use is taken by a write of the Secret that names the version it has read, so that of two machines that come at once
with a token for one, one gets it. It is taken before the approval and given back by the token-uses-controller when no
certificate comes of it.

WaitingForUseError   all uses are taken, and one may become free
"""

from __future__ import annotations

import asyncio

from kubevouch import wellknown
from kubevouch.api.catalog import SECRETS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Secret
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.interface import IgnorableError, ReconcileError
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.text.gotext import quote
from kubevouch.records import token_bounds, token_record
from kubevouch.records.bootstrap_tokens import secret_name, token_id_of_user
from kubevouch.records.token_bounds import TOKEN_UID_EXTRA, Bounds, TokenBoundError, TokenBoundsError
from kubevouch.records.token_record import Attempt, TokenRecordError, UsesTakenError

_TRIES = 5


class WaitingForUseError(IgnorableError):
    """All uses are taken, and one may become free."""


class TokenAdmission:
    """Args: ``client`` acts as the token-uses-controller; ``secrets`` holds bootstrap tokens."""

    def __init__(self, client: Client, secrets: Lister[Secret]) -> None:
        self._client = client
        self._secrets = secrets
        self._reserving = asyncio.Lock()

    async def admit(self, csr: CertificateSigningRequest) -> None:
        """Take a use of the token behind ``csr``, if there is such a token and it is bounded.

        Raises:
            TokenBoundError: the request will never be within the bounds.
            WaitingForUseError, ReconcileError: not now.
            APIStatusError, TransportError
        """
        token_id = token_id_of_user(csr.spec.username)
        uid = _bounded_uid(csr)
        secret = await self._secret(csr)
        if secret is None:
            return
        bounds = _bounds(secret)
        if not bounds:
            return
        attempt = token_record.attempt_of(csr)
        bounds.verify_request(attempt.node_name, attempt.key)
        if bounds.source_ranges and not uid:
            raise IgnorableError(
                f"csr {quote(csr.metadata.name)} came with the token {token_id}, which is for some addresses only, and "
                "the API server did not check from where it came"
            )
        if bounds.uses is not None:
            async with self._reserving:
                await self._reserve(token_id, secret.metadata.uid, attempt)

    async def is_for_node(self, csr: CertificateSigningRequest, node_name: str) -> bool:
        """Whether the token behind ``csr`` is bound to this very name.

        The API server has to say which token it was: one of the same ID may have been made with other bounds since.

        Raises:
            TokenBoundError: the token is gone, and with it its bounds.
            APIStatusError, TransportError
        """
        secret = await self._secret(csr) if _bounded_uid(csr) else None
        return secret is not None and _bounds(secret).names_node(node_name)

    async def _secret(self, csr: CertificateSigningRequest) -> Secret | None:
        """The Secret of the token behind ``csr``; None without one, or for a token without bounds that is gone.

        Raises:
            TokenBoundError: a bounded token is gone.
        """
        token_id = token_id_of_user(csr.spec.username)
        if not token_id:
            return None
        name, uid = secret_name(token_id), _bounded_uid(csr)
        secret = self._secrets.get(name, wellknown.KUBE_SYSTEM_NAMESPACE)
        # The cache may be behind the one that the request came from.
        if secret is None or (uid and secret.metadata.uid != uid):
            secret = await self._read(name)
        # As Kubernetes, where there are no bounds: the request outlives the token.
        if uid and (secret is None or secret.metadata.uid != uid):
            raise _deleted(token_id)
        return secret

    async def _reserve(self, token_id: str, uid: str, attempt: Attempt) -> None:
        for _ in range(_TRIES):
            secret = await self._read(secret_name(token_id))
            if secret is None or secret.metadata.uid != uid:
                raise _deleted(token_id)
            uses = _bounds(secret).uses
            if uses is None or await self._wrote(secret, uses, attempt):
                return
        raise ReconcileError(f"the bootstrap token {token_id} is changed too often to take a use of it")

    async def _wrote(self, secret: Secret, uses: int, attempt: Attempt) -> bool:
        """False if somebody else wrote meanwhile."""
        annotations = secret.metadata.annotations
        try:
            record = token_record.read(annotations)
            reserved = token_record.reserve(record, uses, attempt)
        except TokenRecordError as err:
            raise ReconcileError(f"{secret.metadata.name}: {err}") from err
        except UsesTakenError as err:
            if err.final:
                raise
            raise WaitingForUseError(str(err)) from err
        if reserved is record:
            return True
        try:
            await self._client.update(
                SECRETS, replace_metadata(secret, annotations=token_record.written(annotations, reserved))
            )
        except APIStatusError as err:
            if err.code == 409:
                return False
            raise
        return True

    async def _read(self, name: str) -> Secret | None:
        try:
            secret = await self._client.get(SECRETS, name, wellknown.KUBE_SYSTEM_NAMESPACE)
        except APIStatusError as err:
            if err.code == 404:
                return None
            raise
        return secret if secret.type == wellknown.BOOTSTRAP_TOKEN_SECRET else None


def _bounded_uid(csr: CertificateSigningRequest) -> str:
    """The UID of the bounded token that the API server has let the requester in with; else empty."""
    return next(iter(csr.spec.extra.get(TOKEN_UID_EXTRA, ())), "")


def _bounds(secret: Secret) -> Bounds:
    try:
        return token_bounds.from_annotations(secret.metadata.annotations)
    except TokenBoundsError as err:
        raise ReconcileError(f"{secret.metadata.name}: {err}") from err


def _deleted(token_id: str) -> TokenBoundError:
    return TokenBoundError(f"the token {token_id} with which it came is deleted or has expired")
