"""Having a bootstrap token kept for the machines of a pool, through the API."""

from __future__ import annotations

from kubevouch import wellknown
from kubevouch.api.catalog import SECRETS
from kubevouch.client.interface import Client
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.text.gotext import quote
from kubevouch.phases.bootstrap_token import TokenPhaseError
from kubevouch.records import token_pools
from kubevouch.records.bootstrap_tokens import BootstrapTokenError, from_secret, secret_name
from kubevouch.records.token_pools import TokenPool


async def keep(client: Client, token_id: str, pool: TokenPool | None) -> None:
    """Have a token be that of ``pool``, or of none any more: then it lasts as long as it does now.

    Raises:
        TokenPhaseError: there is no such token.
        APIStatusError, TransportError
    """
    try:
        secret = await client.get(SECRETS, secret_name(token_id), wellknown.KUBE_SYSTEM_NAMESPACE)
        from_secret(secret)
    except APIStatusError as err:
        if err.reason != Reason.NOT_FOUND:
            raise
        raise TokenPhaseError(f"there is no token with id {quote(token_id)}", "kubevouch token list") from err
    except BootstrapTokenError as err:
        raise TokenPhaseError(str(err)) from err
    kept = token_pools.without_pool(secret)
    await client.update(SECRETS, kept if pool is None else token_pools.with_pool(kept, pool))
