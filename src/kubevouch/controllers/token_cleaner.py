"""token-cleaner-controller: deletes bootstrap tokens that have expired.

Source: pkg/controller/bootstrap/tokencleaner.go (Kubernetes 1.36). A deletion that fails is not retried, as there, but
here every token is looked at again once a minute.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubevouch import wellknown
from kubevouch.api.catalog import SECRETS
from kubevouch.api.core_v1 import Secret
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client, TransportError
from kubevouch.controllers.bootstrap_secrets import is_token, token_informer
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, RESYNC_SECONDS, Context, Request, Result, request_of
from kubevouch.machinery.errors import APIStatusError, loggable
from kubevouch.machinery.meta import DeleteOptions, Preconditions
from kubevouch.records.bootstrap_tokens import expiration_of
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.token_cleaner")

NAME = wellknown.TOKEN_CLEANER_CONTROLLER


class TokenCleaner:
    """Looks at a token's expiration and at nothing else of it; one that does not parse has expired."""

    def __init__(self, client: Client, secrets: Lister[Secret], clock: Clock) -> None:
        self._client = client
        self._secrets = secrets
        self._clock = clock

    async def reconcile(self, request: Request) -> Result:
        secret = self._secrets.get(request.name, request.namespace)
        if secret is None or not is_token(secret):
            return DONE
        expiration = expiration_of(secret, self._clock.now())
        if expiration.expired:
            await self._delete(secret)
        elif expiration.remaining is not None:
            return Result(expiration.remaining.total_seconds())
        return DONE

    async def _delete(self, secret: Secret) -> None:
        meta = secret.metadata
        options = DeleteOptions(preconditions=Preconditions(uid=meta.uid)) if meta.uid else None
        try:
            await self._client.delete(SECRETS, meta.name, meta.namespace, options)
        except (APIStatusError, TransportError) as err:
            # Gone, or another Secret by now.
            if not (isinstance(err, APIStatusError) and err.code in (404, 409)):
                log.warning("Error deleting secret", secret=f"{meta.namespace}/{meta.name}", err=loggable(err))


def _requests(secret: Secret) -> Iterable[Request]:
    return (request_of(secret),) if is_token(secret) else ()


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    secrets = token_informer(context, client)
    controller = QueueController(NAME, TokenCleaner(client, secrets.lister, context.clock), context.clock)
    controller.watch(secrets, on_add=_requests, on_update=_requests, resync_seconds=RESYNC_SECONDS)
    return controller
