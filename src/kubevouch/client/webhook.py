"""Reviews asked of a webhook: one JSON document to a fixed URL, one back.

WebhookError              no usable answer came; ``str()`` says why

Source: k8s.io/apiserver/pkg/util/webhook/webhook.go (Kubernetes 1.36).
"""

from __future__ import annotations

import random as random_module
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from kubevouch.client.credentials import FixedCredential
from kubevouch.client.failures import refusal
from kubevouch.client.interface import ClientConfigurationError, CredentialsFailed, TransportError
from kubevouch.client.kubeconfig import load
from kubevouch.client.options import ClientOptions, Timeouts
from kubevouch.client.rest_config import RESTConfig, resolve
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.client.transport import HTTPRequest, HTTPSTransport
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("client.webhook")

MAX_ANSWER = 1 << 20
# webhook.DefaultRetryBackoffWithInitialDelay, DefaultShouldRetry
RETRY_SECONDS, RETRY_FACTOR, RETRY_JITTER, ATTEMPTS = 0.5, 1.5, 0.2, 5
_RETRIED = frozenset({429, 500, 504})


class WebhookError(Exception):
    """The webhook could not be asked, or its answer is none; ``code`` is that of a refusal, else 503.

    ``retry_after``: seconds that it wants to be left alone; 0 if it says nothing of that.
    """

    def __init__(self, text: str, code: int = 503, retry_after: float = 0) -> None:
        super().__init__(text)
        self.code = code
        self.retry_after = retry_after


class Webhook:
    """A service that answers reviews.

    Args:
        seconds: how long one attempt may take.
        max_answer: bytes.

    Raises:
        ClientConfigurationError: the settings cannot be used.
    """

    def __init__(
        self,
        config: RESTConfig,
        clock: Clock,
        *,
        component: str,
        seconds: float,
        max_answer: int = MAX_ANSWER,
        random: backoff.Random = random_module.random,
    ) -> None:
        options = replace(
            config.options, component=component, timeouts=Timeouts.all(seconds), max_body_bytes=max_answer
        )
        self._transport = HTTPSTransport(
            options, tls=TLSFiles(config.tls, clock), credentials=config.credentials(clock), clock=clock
        )
        self._clock = clock
        self._seconds = seconds
        self._random = random

    async def close(self) -> None:
        await self._transport.close()

    async def ask(
        self, review: Mapping[str, Any], query: tuple[tuple[str, str], ...] = (), *, attempts: int = ATTEMPTS
    ) -> Any:
        """The JSON tree that answers ``review``.

        Raises:
            WebhookError: it could not be asked, refused, or answered with something else.
        """
        answer = await self.ask_bytes(json_codec.encode(review), query, attempts=attempts)
        try:
            return msgspec.json.decode(answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as err:
            raise WebhookError(f"{self._transport.peer.address} answered with no JSON: {err}") from err

    async def ask_bytes(
        self, review: bytes, query: tuple[tuple[str, str], ...] = (), *, attempts: int = ATTEMPTS
    ) -> bytes:
        """The body that answers ``review``. Raises :class:`WebhookError` as :meth:`ask` does."""
        headers = {"Accept": "application/json, */*", "Content-Type": "application/json"}
        request = HTTPRequest("POST", "", self._seconds, query, headers, review)
        delays = self._delays()
        for left in range(attempts - 1, -1, -1):
            try:
                answer = await self._transport.send(request)
            except (CredentialsFailed, ClientConfigurationError) as err:
                # Whoever sent the request gets this text; it is not for them to learn of this server's files.
                log.error("no credential to ask a webhook with", address=self._transport.peer.address, err=str(err))
                raise WebhookError("this server has no credential to ask it with; the server's log says why") from err
            except TransportError as err:
                raise WebhookError(str(err)) from err
            if 200 <= answer.status < 300:
                return answer.body
            if not left or answer.status not in _RETRIED:
                break
            await self._clock.sleep(next(delays))
        refused = refusal(answer, self._transport.peer, self._clock.now())
        text = refused.status.message if isinstance(refused, APIStatusError) else str(refused)
        wait = backoff.retry_after(answer.headers.get("retry-after", ""), self._clock.now())
        raise WebhookError(text, answer.status, wait or 0)

    def _delays(self) -> Iterator[float]:
        return backoff.added_jitter(backoff.exponential(RETRY_SECONDS, 60.0, RETRY_FACTOR), self._random, RETRY_JITTER)


def from_kubeconfig(path: Path, clock: Clock, *, component: str, seconds: float) -> Webhook:
    """The webhook that a file describes: its cluster is the service, its user is this server.

    Raises:
        ClientConfigurationError: the file cannot be read or used.
    """
    return Webhook(resolve(load(path)), clock, component=component, seconds=seconds)


def at_url(
    url: str, ca_bundle: bytes, clock: Clock, *, component: str, seconds: float, max_answer: int = MAX_ANSWER
) -> Webhook:
    """The webhook at a URL, which is shown no credential; without a bundle this machine's roots count.

    Raises:
        ClientConfigurationError: it cannot be used.
    """
    config = RESTConfig(
        ClientOptions(server=url), TLSSources(ca_bundle=ca_bundle or None), lambda _clock: FixedCredential()
    )
    return Webhook(config, clock, component=component, seconds=seconds, max_answer=max_answer)


def service_url(namespace: str, name: str, port: int, path: str) -> str:
    """Where a service of the cluster is asked."""
    return f"https://{name}.{namespace}.svc:{port}/{path.strip('/')}"
