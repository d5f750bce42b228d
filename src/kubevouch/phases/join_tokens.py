"""One-time join tokens are made through the API; those that nobody asks for any more are cleared away with that."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress

from kubevouch import wellknown
from kubevouch.api.catalog import NAMESPACES, SECRETS
from kubevouch.api.core_v1 import Namespace
from kubevouch.client.interface import Client, TransportError
from kubevouch.client.pager import PAGES, list_all
from kubevouch.client.stored import find
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import DeleteOptions, ObjectMeta, Preconditions
from kubevouch.records import join_tokens
from kubevouch.records.join_tokens import JoinToken, JoinTokenError, Record
from kubevouch.util.logger import get_logger

log = get_logger("phases.join_tokens")


class JoinTokenPhaseError(Exception):
    """A token cannot be made or deleted; the text says why."""


async def create(client: Client, token: JoinToken, record: Record, now: dt.datetime) -> None:
    """Have the cluster know ``token``.

    Raises:
        JoinTokenPhaseError, TransportError
    """
    try:
        await _ensure_namespace(client)
        await client.create(SECRETS, join_tokens.to_secret(record))
    except APIStatusError as err:
        raise JoinTokenPhaseError(f"the join token {token.token_id} cannot be made: {err}") from err
    # What is left behind does no harm.
    with suppress(APIStatusError, TransportError):
        await _clear(client, now)


async def delete(client: Client, token_id: str) -> None:
    """Take a token back. Raises :class:`JoinTokenPhaseError`, ``TransportError``."""
    try:
        await client.delete(SECRETS, join_tokens.secret_name(token_id), wellknown.JOIN_TOKENS_NAMESPACE)
    except APIStatusError as err:
        raise JoinTokenPhaseError(f"the join token {token_id} cannot be deleted: {err}") from err


async def _ensure_namespace(client: Client) -> None:
    """``kubevouch up`` makes it; a server of somebody else's does not. Raises APIStatusError, TransportError."""
    if await find(client, NAMESPACES, wellknown.JOIN_TOKENS_NAMESPACE) is not None:
        return
    try:
        await client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name=wellknown.JOIN_TOKENS_NAMESPACE)))
    except APIStatusError as err:
        if err.reason != Reason.ALREADY_EXISTS:
            raise


async def _clear(client: Client, now: dt.datetime) -> None:
    for secret in (await list_all(client, SECRETS, wellknown.JOIN_TOKENS_NAMESPACE, PAGES)).items:
        try:
            if not join_tokens.is_over(join_tokens.from_secret(secret), now):
                continue
        except JoinTokenError as err:
            log.warning("not a join token", secret=secret.metadata.name, err=str(err))
            continue
        meta = secret.metadata
        options = DeleteOptions(preconditions=Preconditions(uid=meta.uid))
        await client.delete(SECRETS, meta.name, meta.namespace, options)
