"""What node recovery needs in the store: a namespace of its own, and the key that all API servers share."""

from __future__ import annotations

import secrets

from kubevouch.api import catalog
from kubevouch.api.core_v1 import Secret
from kubevouch.client.interface import Client
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.records.node_recovery import NAMESPACE, SECRET, SECRET_KEY
from kubevouch.server.bootstrap.namespaces import ensure_one

_KEY_BYTES = 32  # RFC 7518 section 3.2: as long as the hash


async def ensure(client: Client) -> None:
    """Create what is missing. A key that was deleted is made anew at the next start. Raises what the client raises."""
    await ensure_one(client, NAMESPACE)
    meta = ObjectMeta(name=SECRET, namespace=NAMESPACE)
    try:
        await client.create(catalog.SECRETS, Secret(metadata=meta, data={SECRET_KEY: secrets.token_bytes(_KEY_BYTES)}))
    except APIStatusError as err:
        if err.code != 409:  # there already, or another replica was faster
            raise
