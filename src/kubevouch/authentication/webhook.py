"""Tokens that another service knows, asked by TokenReview.

Source: k8s.io/apiserver/plugin/pkg/authenticator/token/webhook/webhook.go, pkg/authentication/token/cache
(Kubernetes 1.36).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
from collections.abc import Sequence
from typing import Any

import msgspec

from kubevouch.api.authentication_v1 import GROUP
from kubevouch.authentication.interface import Authentication, AuthenticationError, UserInfo
from kubevouch.client.webhook import Webhook, WebhookError
from kubevouch.util.clock import Clock
from kubevouch.util.expiring_cache import ExpiringCache
from kubevouch.util.logger import get_logger

METHOD = "webhook"
VERSIONS = ("v1", "v1beta1")
CACHE_SIZE = 4096
MAX_TOKEN_BYTES = 64 * 1024

log = get_logger("authentication.webhook")


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: list[str] | None = None
    error: str = ""


class _Review(msgspec.Struct):
    apiVersion: str = ""  # noqa: N815 - the wire's
    status: _Status = msgspec.field(default_factory=_Status)


_API_VERSIONS = tuple(f"{GROUP}/{version}" for version in VERSIONS)
_Key = tuple[bytes, tuple[str, ...]]


class WebhookTokenAuthenticator:
    """Asks once for each token and its audiences, and remembers the answer for ``ttl`` seconds, failures to ask apart.

    Args:
        version: of the TokenReview that is sent and expected.
        api_audiences: what this server calls itself; a token has to be for one of them.
    """

    def __init__(self, webhook: Webhook, version: str, api_audiences: Sequence[str], ttl: float, clock: Clock) -> None:
        self._webhook = webhook
        self._api_version = f"{GROUP}/{version}"
        self._api_audiences = tuple(api_audiences)
        self._ttl = ttl
        self._cache: ExpiringCache[_Key, tuple[Authentication | None, str]] = ExpiringCache(CACHE_SIZE, clock)
        self._asking: dict[_Key, asyncio.Task[tuple[Authentication | None, str]]] = {}
        # Tokens themselves are not kept in memory.
        self._secret = os.urandom(32)

    async def close(self) -> None:
        for task in self._asking.values():
            task.cancel()
        await self._webhook.close()

    async def authenticate_token(self, bearer_token: str, audiences: Sequence[str] = ()) -> Authentication | None:
        if len(bearer_token) > MAX_TOKEN_BYTES:
            return None
        key = (
            hmac.digest(self._secret, bearer_token.encode("utf-8", "surrogateescape"), hashlib.sha256),
            tuple(audiences),
        )
        answer = self._cache.get(key)
        if answer is None:
            task = self._asking.get(key)
            if task is None:
                task = self._asking[key] = asyncio.create_task(self._ask(key, bearer_token), name="token-webhook")
                task.add_done_callback(lambda _: self._asking.pop(key, None))
            # Whoever waits may go away; the others want the answer all the same.
            answer = await asyncio.shield(task)
        authentication, error = answer
        if error:
            raise AuthenticationError(error)
        return authentication

    async def _ask(self, key: _Key, token: str) -> tuple[Authentication | None, str]:
        _, audiences = key
        wanted = audiences or self._api_audiences
        spec: dict[str, Any] = {"token": token}
        if wanted:
            spec["audiences"] = list(wanted)
        document = {"kind": "TokenReview", "apiVersion": self._api_version, "metadata": {}, "spec": spec}
        try:
            review = msgspec.convert(await self._webhook.ask(document), _Review)
        except (WebhookError, msgspec.ValidationError) as err:
            log.error("failed to make webhook authenticator request", err=str(err))
            return None, f"webhook: {err}"
        if review.apiVersion not in _API_VERSIONS:
            return None, f"webhook: got a review of {review.apiVersion!r}, expected {self._api_version}"
        answer = self._judged(review.status, audiences, wanted)
        self._cache.put(key, answer, self._ttl)
        return answer

    def _judged(
        self, status: _Status, audiences: tuple[str, ...], wanted: tuple[str, ...]
    ) -> tuple[Authentication | None, str]:
        if not status.authenticated:
            return None, status.error
        # A webhook that does not speak of audiences answers for this server.
        meant = status.audiences or self._api_audiences
        accepted = tuple(one for one in wanted if one in meant)
        if wanted and not accepted:
            return None, ""
        user = status.user
        extra = {key: tuple(values) for key, values in (user.extra or {}).items()}
        info = UserInfo(user.username, user.uid, tuple(user.groups or ()), extra)
        return Authentication(info, METHOD, audiences=accepted if audiences else ()), ""
