"""Coming back with a certificate that has ended: a challenge is answered, and the request made in that session.

Source: kubevouch's own; docs/adr/0010-recovery-is-a-request-of-its-own-user.md.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import msgspec

from kubevouch.agent.certificate_store import StoredPair
from kubevouch.agent.interface import RequestDeniedError
from kubevouch.agent.recovery_keys import RecoveryKeys
from kubevouch.agent.signing_requests import SigningRequests
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import NotKubernetes
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Status
from kubevouch.pki import recovery_proof
from kubevouch.records.node_recovery import CHALLENGE_PATH, SESSION_PATH
from kubevouch.util.logger import get_logger

log = get_logger("agent.recovery")

_JSON = {"Content-Type": "application/json"}
_MAX_MESSAGE = 500
_LOOK = "on the cluster: kubevouch recovery list"

T = TypeVar("T")


class _Challenge(msgspec.Struct, frozen=True):
    challenge: str


class _Session(msgspec.Struct, frozen=True):
    token: str


class RecoveryRequests(SigningRequests):
    """Requests of a recovering node. The session is opened for the first one, with its key.

    Args:
        anonymous: a client without a credential.
        with_token: the same with a bearer token; closed by ``stack``.
    """

    def __init__(
        self,
        anonymous: HTTPSClient,
        with_token: Callable[[str], HTTPSClient],
        stack: AsyncExitStack,
        node_name: str,
        pair: StoredPair,
        keys: RecoveryKeys,
    ) -> None:
        super().__init__(anonymous)
        self._anonymous = anonymous
        self._with_token = with_token
        self._stack = stack
        self._node_name = node_name
        self._pair = pair
        self._keys = keys
        self._opened: bytes | None = None

    async def create(self, csr: CertificateSigningRequest) -> CertificateSigningRequest:
        """Raises :class:`RequestDeniedError` besides: the node may not recover, or not now."""
        request = csr.spec.request or b""
        if self._opened != request:
            client = self._with_token(await self._session(request))
            self._stack.push_async_callback(client.close)
            self._client, self._opened = client, request
        return await super().create(csr)

    async def _session(self, request: bytes) -> str:
        token = await self._answer(request)
        if token is None:
            # The last use took effect, and its end was not heard of.
            log.info("the recovery key was replaced already", then="the next one is used")
            self._keys.promote()
            token = await self._answer(request)
        if token is None:
            raise RequestDeniedError("the API server says twice that the recovery key was replaced", _LOOK)
        return token

    async def _answer(self, request: bytes) -> str | None:
        """The token of a session; None if the next key is the registered one already."""
        recovery = self._keys.with_next()
        asked = await self._post(CHALLENGE_PATH, {"nodeName": self._node_name}, _Challenge)
        pair = self._pair
        made = recovery_proof.answer(self._node_name, asked.challenge, pair.chain, pair.key, request, recovery)
        log.info("a recovery challenge is answered", node=self._node_name)
        try:
            return (await self._post(SESSION_PATH, made, _Session)).token
        except APIStatusError as err:
            if err.code == 409:
                return None
            raise

    async def _post(self, path: str, content: object, kind: type[T]) -> T:
        answer = await self._anonymous.raw("POST", path, msgspec.json.encode(content), _JSON)
        if answer.status == 201:
            try:
                return msgspec.json.decode(answer.body, type=kind)
            except msgspec.MsgspecError as err:
                raise NotKubernetes(f"an answer that cannot be read: {err}", status=answer.status) from err
        message = _message(answer.body)
        if answer.status == 429:
            raise RequestDeniedError(f"the node may not recover yet: {message}", "it is tried again by itself")
        if answer.status in (401, 403, 404):
            # Anybody may ask for a challenge where recovery is on.
            why = message if path == SESSION_PATH else "the cluster does not allow it"
            raise RequestDeniedError(
                f"the node's certificate has ended, and it may not recover: {why}",
                f"join again with a token (kubevouch join); {_LOOK}",
            )
        raise APIStatusError(Status(code=answer.status, status="Failure", message=message))


def _message(body: bytes) -> str:
    try:
        found: Any = msgspec.json.decode(body, type=dict[str, Any]).get("message", "")
    except (msgspec.MsgspecError, RecursionError):
        found = body.decode(errors="replace")
    return str(found)[:_MAX_MESSAGE].removeprefix("forbidden: ")
