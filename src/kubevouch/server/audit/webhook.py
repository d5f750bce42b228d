"""The webhook backend: batches of events posted to the server of a kubeconfig file (apiserver plugin/audit/webhook)."""

from __future__ import annotations

from collections.abc import Callable

from kubevouch.client.interface import TransportError
from kubevouch.client.rate_limiters import TokenBucket
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.server.audit.batch import Batches, DeliveryError
from kubevouch.server.audit.options import WebhookOptions
from kubevouch.server.audit.policy import API_VERSION
from kubevouch.util.clock import Clock

RETRIES = 5
_HEAD = b'{"kind":"EventList","apiVersion":"%s","metadata":{},"items":[' % API_VERSION.encode()


class Webhook:
    """An :class:`kubevouch.server.audit.interface.AuditBackend`.

    Raises:
        ClientConfigurationError: the kubeconfig file cannot be used.
    """

    name = "webhook"

    def __init__(self, options: WebhookOptions, clock: Clock, on_lost: Callable[[int], None]) -> None:
        self._options = options
        self._clock = clock
        self._client = client_from_kubeconfig(options.config_file, component="kubevouch-audit", clock=clock)
        self._throttle: TokenBucket[str] = TokenBucket(options.batch_throttle_qps, options.batch_throttle_burst, clock)
        self._batches = Batches(
            self._send,
            clock,
            size=options.batch_max_size,
            wait=options.batch_max_wait,
            buffer=options.batch_buffer_size,
            on_lost=on_lost,
        )

    def record(self, event: bytes) -> None:
        self._batches.record(event)

    async def _send(self, events: list[bytes]) -> None:
        body = _HEAD + b",".join(events) + b"]}"
        pause = self._options.initial_backoff
        for attempt in range(1, RETRIES + 1):
            await self._clock.sleep(self._throttle.when(""))
            try:
                answer = await self._client.raw("POST", "/", body, {"Content-Type": "application/json"})
            except TransportError as err:
                failure, final = str(err), False
            else:
                if 200 <= answer.status < 300:
                    return
                failure = f"the webhook answered {answer.status}"
                final = answer.status < 500 and answer.status != 429
            if final or attempt == RETRIES:
                raise DeliveryError(failure)
            await self._clock.sleep(pause)
            pause *= 1.5

    async def close(self) -> None:
        await self._batches.close()
        await self._client.close()
