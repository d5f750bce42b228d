"""The webhook backend: batches of events posted to the server of a kubeconfig file (apiserver plugin/audit/webhook)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from kubevouch.client.interface import TransportError
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.server.audit.batch import BUFFERED, Batches, DeliveryError
from kubevouch.server.audit.options import API_VERSION, Mode, WebhookOptions
from kubevouch.util.clock import Clock

RETRIES = 5
_HEAD = b'{"kind":"EventList","apiVersion":"%s","metadata":{},"items":[' % API_VERSION.encode()


class Webhook:
    """An :class:`kubevouch.server.audit.interface.AuditBackend`.

    Raises:
        ClientConfigurationError: the kubeconfig file cannot be used.
    """

    name = "webhook"

    def __init__(self, options: WebhookOptions, clock: Clock, on_lost: Callable[[str, int], None]) -> None:
        self._options = options
        self._clock = clock
        self._client = client_from_kubeconfig(options.config_file, component="kubevouch-audit", clock=clock)
        self._batches = Batches(
            self._send,
            clock,
            options.batch,
            mode=Mode(options.mode),
            most=options.batch.max_size,
            most_bytes=options.truncate.max_batch_size if options.truncate.enabled else None,
            on_dropped=partial(on_lost, BUFFERED),
            on_lost=partial(on_lost, self.name),
        )

    def record(self, event: bytes) -> asyncio.Future[bool] | None:
        return self._batches.record(event)

    async def _send(self, events: list[bytes]) -> None:
        body = _HEAD + b",".join(events) + b"]}"
        pause = self._options.initial_backoff
        for attempt in range(1, RETRIES + 1):
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
